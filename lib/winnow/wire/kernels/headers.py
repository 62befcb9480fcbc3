"""Passes over the headers of batches: where their records lie, and how many (S2.1, S2.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import (
    CODEC_MASK,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    MAX_MAGIC,
    RECORD_OVERHEAD_V0,
    SMALLEST_RECORD,
)
from winnow.wire.buffers import Rows
from winnow.wire.kernels.record import kernel


@kernel
def find_areas(
    rows: Rows,
    skipped: NDArray[np.bool_],
    raw_size: int,
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    codecs: NDArray[np.int64],
    legacy: NDArray[np.bool_],
    compressed: NDArray[np.bool_],
    unread: NDArray[np.bool_],
) -> bool:
    """Fill one item per batch. Return whether each batch lies in `raw_size` bytes.

    For v0 and v1, `begin` is the least byte at which an entry can end. `unread`: compressed and
    `skipped`. Their areas are empty.
    """
    for i in range(rows.size):
        row = rows[i]
        stop = row.position + row.size
        legacy[i] = row.magic < MAX_MAGIC
        at = row.position + (FRAME_SIZE + RECORD_OVERHEAD_V0 if legacy[i] else HEADER_V2_SIZE)
        if row.position < 0 or at > stop or stop > raw_size:
            return False
        codecs[i] = row.attributes & CODEC_MASK
        # An empty batch that cleaning left has no payload, whatever its codec bits say.
        compressed[i] = codecs[i] != 0 and not legacy[i] and (row.record_count > 0 or stop > at)
        unread[i] = compressed[i] and skipped[i]
        if unread[i]:
            at = stop = 0
        begin[i] = at
        end[i] = stop
    return True


@kernel
def count_records(
    rows: Rows, unread: NDArray[np.bool_], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[int, int]:
    """Return the records of all batches, and the first batch whose area is too small for its own,
    or -1. Of unread ones the area is not known.
    """
    total = 0
    for i in range(rows.size):
        count = int(rows[i].record_count)
        if count < 0 or (not unread[i] and count * SMALLEST_RECORD > end[i] - begin[i]):
            return total, i
        total += count
    return total, -1
