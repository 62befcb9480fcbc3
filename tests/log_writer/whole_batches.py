"""Bytes that must consist of whole batches: those of one append, or of a cleanly closed log."""

from __future__ import annotations

import numpy as np

from winnow.logdir.batches import SMALLEST_ENTRY
from winnow.wire.batch import BATCH, WalkStatus
from winnow.wire.buffers import Rows
from winnow.wire.walk import describe, walk_batches


def whole_batches(data: bytes, *, least_offset: int, file_name: str) -> Rows:
    """All of them, as BATCH rows. `file_name` is only said.

    Raises CorruptLogError for anything else, and for offsets that don't ascend from `least_offset`
    on.
    """
    out = np.zeros(len(data) // SMALLEST_ENTRY + 1, BATCH)
    count, position, status = walk_batches(data, 0, least_offset, out)
    if status is not WalkStatus.END:
        least = int(out["last_offset"][count - 1]) + 1 if count else least_offset
        raise describe(status, data, position, least_offset=least, file_name=file_name)
    return out[:count]
