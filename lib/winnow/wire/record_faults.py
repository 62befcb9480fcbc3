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
    # of entries of v0 and v1
    ENTRY_AREA = 17
    ENTRY_SIZE = 18
    NO_ENTRY = 19
    WRAPPER_OFFSET = 20
    MAGIC = 21
    ENTRY_CRC = 22
    NESTED = 23
    ENTRY_VALUE = 24
    ENTRY_ORDER = 25
    OVERLAP = 26


HINT = "Winnow leaves the partition unchanged; kafka-dump-log.sh shows how brokers read it."
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
    Fault.ENTRY_AREA: "entries inside the buffer",
    Fault.ENTRY_SIZE: "an entry whose size holds its header and lies inside of the wrapper",
    Fault.NO_ENTRY: "a wrapper with at least one record",
    Fault.WRAPPER_OFFSET: "a wrapper whose offset is its last record's or above, by less than 2^31",
    Fault.MAGIC: "records of v0 or v1",
    Fault.ENTRY_CRC: "a record that matches its CRC",
    Fault.NESTED: "records in a wrapper that are not compressed themselves",
    Fault.ENTRY_VALUE: "a value length of -1 or more that ends with the record",
    Fault.ENTRY_ORDER: "offsets that ascend",
    Fault.OVERLAP: "offsets above those of the batch before",
}


def place_of(row: np.void) -> str:
    """Return in words where a batch (a BATCH row) is."""
    return f"batch at byte {row['position']}, base offset {row['base_offset']}"


def record_error(fault: Fault, row: np.void, position: int) -> CorruptLogError:
    """Return the error for the record, or the entry of v0 or v1, at `position` of the area of a
    batch (a BATCH row).
    """
    known = row["record_count"] >= 0  # unlike in a header of v0 or v1
    return CorruptLogError(
        "records can't be read",
        expected=_SAID[fault],
        found=f"something else {position} bytes into its {'records' if known else 'entries'}",
        where=place_of(row) + (f", {row['record_count']} records" if known else ""),
        hint=HINT,
    )


def check_fault(found: tuple[int, int, int], rows: Rows, begin: NDArray[np.int64]) -> None:
    """Raise the error for what a kernel returned: a fault or 0, the row of its batch, and the
    position in the array of the area, which begins at `begin`.
    """
    fault, i, position = found
    if fault:
        raise record_error(Fault(fault), rows[i], position - int(begin[i]))
