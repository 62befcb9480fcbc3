"""Batches of a split, a chunk at a time, so that memory does not follow the size of what was compressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from winnow.errors import CorruptLogError
from winnow.storage.segment_io import Bytes
from winnow.wire.batch import BATCH, CODEC_MASK, HEADER_V2_SIZE
from winnow.wire.walk import WalkStatus, describe, walk_batches

_CHUNK_BYTES = 8 * 2**20
"""Bytes on disk of the batches that are decompressed together."""


def batches_of(buf: Bytes, path: str, least_offset: int) -> np.ndarray[Any, Any]:
    """BATCH rows of all batches in `buf`, positions relative to it. Raises CorruptLogError."""
    rows = np.empty(buf.shape[0] // HEADER_V2_SIZE + 1, BATCH)
    count, position, status = walk_batches(buf, 0, least_offset, rows)
    if status != WalkStatus.END:
        raise describe(status, buf, position, least_offset=next_offset(rows[:count], least_offset), file_name=path)
    return rows[:count]


def chunks_of(batches: np.ndarray[Any, Any], records: int) -> Iterator[tuple[slice, slice]]:
    """Slices of batches and of their records, in order: one chunk if nothing is compressed.

    `records` is what the survey counted: a different sum means that the file changed since.
    """
    counts = np.maximum(batches["record_count"], 0).astype(np.int64)
    if int(counts.sum()) != records:
        raise CorruptLogError(
            "the segment changed while it was being read",
            expected=f"{records} records",
            found=f"{int(counts.sum())}",
            hint="Something else is writing to this directory. Stop it and run again.",
        )
    through = np.concatenate([[0], np.cumsum(counts)])
    if not (batches["attributes"] & CODEC_MASK).any():
        yield slice(0, batches.shape[0]), slice(0, records)
        return
    ends = batches["position"] + batches["size"]
    first = 0
    while first < batches.shape[0]:
        limit = int(batches["position"][first]) + _CHUNK_BYTES
        last = max(first + 1, int(np.searchsorted(ends, limit, side="right")))
        yield slice(first, last), slice(int(through[first]), int(through[last]))
        first = last


def next_offset(rows: np.ndarray[Any, Any], least_offset: int) -> int:
    """The offset after the last of these batches, `least_offset` if there is none."""
    return int(rows["last_offset"][-1]) + 1 if len(rows) else least_offset
