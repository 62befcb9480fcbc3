"""Faults of a record as numbers that a kernel can return, and their descriptions."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from winnow.errors import CorruptLogError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from winnow.wire.buffers import Rows


class Fault(IntEnum):
    NONE = 0
    AREA = 1
    TOO_MANY = 2
    LENGTH = 3
    TIMESTAMP_DELTA = 4
    OFFSET_DELTA = 5
    KEY = 6
    VALUE = 7
    HEADER_COUNT = 8
    HEADER = 9
    BODY = 10
    ORDER = 11
    LEFT_OVER = 12
    TIMESTAMP = 13
    SIZE = 14
    CHANGED = 15
    MAX_TIMESTAMP = 16


_SAID = {
    Fault.AREA: "a records area inside the buffer",
    Fault.TOO_MANY: "a record count that the batch has room for",
    Fault.LENGTH: "a record length that lies inside the batch",
    Fault.TIMESTAMP_DELTA: "a timestamp delta of at most 10 bytes inside the record",
    Fault.OFFSET_DELTA: "an offset delta of at most 5 bytes inside the record",
    Fault.KEY: "a key length of -1 or more that lies inside the record",
    Fault.VALUE: "a value length of -1 or more that lies inside the record",
    Fault.HEADER_COUNT: "a header count of 0 or more that the record has room for",
    Fault.HEADER: "headers that lie inside the record",
    Fault.BODY: "fields that fill the record's length",
    Fault.ORDER: "offset deltas that ascend from 0 to the last offset delta",
    Fault.LEFT_OVER: "the end of the batch after the last record",
    Fault.TIMESTAMP: "timestamps of -1 or more",
    Fault.SIZE: "a rewritten batch of less than 2 GiB",
    Fault.CHANGED: "the same bytes when read a second time",
    Fault.MAX_TIMESTAMP: "the header's largest timestamp to be that of the records",
}


def record_error(fault: Fault, row: np.void, position: int) -> CorruptLogError:
    """Return the error for the record at `position` of the area of a batch (a BATCH row)."""
    return CorruptLogError(
        "records can't be read",
        expected=_SAID[fault],
        found=f"something else {position} bytes into its records",
        where=f"batch at byte {row['position']}, base offset {row['base_offset']}, "
        f"{row['record_count']} records",
        hint="Winnow leaves the partition unchanged; kafka-dump-log.sh shows how brokers read it.",
    )


def check_fault(found: tuple[int, int, int], rows: Rows, begin: NDArray[np.int64]) -> None:
    """Raise the error for what a kernel returned: a fault or 0, the row of its batch, and the
    position in the array of the area, which begins at `begin`.
    """
    fault, i, position = found
    if fault:
        raise record_error(Fault(fault), rows[i], position - int(begin[i]))
