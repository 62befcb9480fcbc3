"""Sum up batch headers and find where splits end, in one pass (`winnow.scan.cut`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from winnow.scan.plain_cut import GUESSED, USUAL_BYTES_IN_WRAPPER
from winnow.wire.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_V2_SIZE,
    LEGACY,
    MAX_MAGIC,
    SMALLEST_RECORD,
    TRANSACTIONAL,
)
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.kernels.memory import store_be32, store_be64
from winnow.wire.kernels.record import kernel

SUMMED_BYTES = 16
"""Bytes of a batch that `gather_summed` gathers."""


@kernel
def gather_summed(rows: Rows, out: Bytes) -> None:
    """Gather base offset (8 bytes), size (4) and CRC (4) of each batch, big-endian."""
    for i in range(min(rows.size, out.size // SUMMED_BYTES)):
        at = SUMMED_BYTES * i
        store_be64(out, at, rows[i].base_offset)
        store_be32(out, at + 8, rows[i].size)
        store_be32(out, at + 12, int(rows[i].crc))


@kernel
def most_records(rows: Rows, i: int, densest: NDArray[np.int64]) -> int:
    """Return the maximal number of records that v2 batch `i` can hold."""
    row = rows[i]
    room = (row.size - HEADER_V2_SIZE) * densest[row.attributes & CODEC_MASK] // SMALLEST_RECORD
    return int(min(row.last_offset - row.base_offset + 1, room))


@kernel
def sum_up(
    rows: Rows,
    densest: NDArray[np.int64],
    split_bytes: int,
    split_records: int,
    start: int,
    in_split: int,
    plain: bool,  # noqa: FBT001 - kernels take scalars
    cuts: NDArray[np.int64],
) -> tuple[int, int, int, int, bool, int, int]:
    """Sum up some batches, and find where splits end: with the batch that fills one.

    `start`, `in_split`, `plain`: the first byte of the unfinished split, its records so far, and
    `Split.plain`. `cuts`: int64[n, 3], receives the last row of each split that ends, its records,
    and whether it is plain.

    Returns (first row with more records than there can be or -1, cuts, start, in_split, plain,
    records, flags). A batch of v0 or v1 is a single record or a wrapper around several. The number
    in a wrapper is guessed, which is good enough for distributing work.
    """
    count = records = flags = 0
    for i in range(rows.size):
        row = rows[i]
        if row.magic == MAX_MAGIC:
            held = int(row.record_count)
            if held > most_records(rows, i, densest):
                return i, count, start, in_split, plain, records, flags
        else:
            flags |= LEGACY
            held = 1
            if row.attributes & CODEC_MASK != 0:
                flags |= GUESSED
                held = row.size // USUAL_BYTES_IN_WRAPPER + 1
        plain &= row.magic == MAX_MAGIC and (row.attributes & (TRANSACTIONAL | CONTROL)) == 0
        records += held
        in_split += held
        end = row.position + row.size
        if end - start >= split_bytes or in_split >= split_records:
            cuts[count, 0] = i
            cuts[count, 1] = in_split
            cuts[count, 2] = plain
            count += 1
            start, in_split, plain = end, 0, True
    return -1, count, start, in_split, plain, records, flags
