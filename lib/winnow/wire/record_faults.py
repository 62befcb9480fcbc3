"""Faults of a record as numbers that a kernel can return, and their descriptions."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Self

from winnow.errors import CorruptLogError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from winnow.wire.buffers import Rows


class Fault(IntEnum):
    """Numbers from 0 on. `expected`: what a sound record has instead, in words."""

    expected: str

    def __new__(cls, expected: str) -> Self:
        fault = int.__new__(cls, len(cls.__members__))
        fault._value_, fault.expected = int(fault), expected
        return fault

    NONE = "no fault"
    AREA = "a records area inside the buffer"
    TOO_MANY = "a record count that the batch has room for"
    LENGTH = "a record length that lies inside the batch"
    TIMESTAMP_DELTA = "a timestamp delta of at most 10 bytes inside the record"
    OFFSET_DELTA = "an offset delta of at most 5 bytes inside the record"
    KEY = "a key length that lies inside the record"
    VALUE = "a value length that lies inside the record"
    HEADER_COUNT = "a header count of 0 or more that the record has room for"
    HEADER = "headers that lie inside the record"
    BODY = "fields that fill the record's length"
    LEFT_OVER = "the end of the batch after the last record"
    SIZE = "a rewritten batch of less than 2 GiB"
    CHANGED = "the same bytes when read a second time"
    MAX_TIMESTAMP = "the header's largest timestamp to be that of the records"
    # The following are faults of entries of v0 and v1.
    ENTRY_AREA = "entries inside the buffer"
    ENTRY_SIZE = "an entry whose size holds its header and lies inside of the wrapper"
    NO_ENTRY = "a wrapper with at least one record"
    WRAPPER_OFFSET = "a wrapper whose offset is its last record's or above, by less than 2^31"
    MAGIC = "records of v0 or v1"
    ENTRY_CRC = "a record that matches its CRC"
    NESTED = "records in a wrapper that are not compressed themselves"
    ENTRY_VALUE = "a value length of -1 or more that ends with the record"
    ENTRY_ORDER = "offsets that ascend"
    OVERLAP = "offsets above those of the batch before"


HINT = "Winnow leaves the partition unchanged; kafka-dump-log.sh shows how brokers read it."


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
        expected=fault.expected,
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
        raise record_error([*Fault][fault], rows[i], position - int(begin[i]))
