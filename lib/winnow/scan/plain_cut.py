"""Sum up batch headers and find where splits end (`winnow.scan.cut`), without a kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_V2_SIZE,
    LEGACY,
    MAX_MAGIC,
    SMALLEST_RECORD,
    TRANSACTIONAL,
)
from winnow.wire.buffers import Rows

GUESSED = 1
"""A flag beside LEGACY: there is a wrapper, whose number of records is only a guess."""
USUAL_BYTES_IN_WRAPPER = 34
_SUMMED = np.dtype([("base_offset", ">i8"), ("size", ">i4"), ("crc", ">u4")])


def summed(rows: Rows) -> bytes:
    """Return base offset (8 bytes), size (4) and CRC (4) of each batch, big-endian."""
    gathered = np.empty(len(rows), _SUMMED)
    for name in _SUMMED.names or ():
        gathered[name] = rows[name]
    return gathered.tobytes()


def most_records(row: np.void, densest: NDArray[np.int64]) -> int:
    """Return the maximal number of records that a v2 batch can hold."""
    expanded = int(row["size"] - HEADER_V2_SIZE) * int(densest[row["attributes"] & CODEC_MASK])
    return min(int(row["last_offset"] - row["base_offset"]) + 1, expanded // SMALLEST_RECORD)


def sum_up(
    rows: Rows,
    densest: NDArray[np.int64],
    split_bytes: int,
    split_records: int,
    start: int,
    in_split: int,
    plain: bool,  # noqa: FBT001 - as the kernel
    cuts: NDArray[np.int64],
) -> tuple[int, int, int, int, bool, int, int]:
    """Do as `winnow.scan.cut_kernel.sum_up`."""
    count = records = flags = 0
    for i, row in enumerate(rows):
        attributes, magic, size = int(row["attributes"]), int(row["magic"]), int(row["size"])
        held = int(row["record_count"]) if magic == MAX_MAGIC else 1
        if magic < MAX_MAGIC:
            flags |= LEGACY
            if attributes & CODEC_MASK:
                flags |= GUESSED
                held = size // USUAL_BYTES_IN_WRAPPER + 1
        elif held > most_records(row, densest):
            return i, count, start, in_split, plain, records, flags
        plain &= magic == MAX_MAGIC and not attributes & (TRANSACTIONAL | CONTROL)
        records += held
        in_split += held
        end = int(row["position"]) + size
        if end - start >= split_bytes or in_split >= split_records:
            cuts[count] = i, in_split, plain
            count += 1
            start, in_split, plain = end, 0, True
    return -1, count, start, in_split, plain, records, flags
