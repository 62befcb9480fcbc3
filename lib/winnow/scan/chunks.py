"""Read a split in chunks: memory does not grow with the decompressed size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import SMALLEST_ENTRY, HeaderWalk, end_of
from winnow.scan.cut import sum_up
from winnow.storage.segment_io import Bytes
from winnow.wire.batch import BATCH, CODEC_MASK, LEGACY

_CHUNK_BYTES = 8 * 2**20
"""Bytes on disk of batches that are decompressed together."""
PLAIN_CHUNK_BYTES = 16 * 2**20
"""Chunk bytes of uncompressed batches, whose results are equally large. The C library keeps a
buffer of this size for reuse; it gets a larger one from the system each time, page by page.
"""
_ALL = 2**62


def batches_of(buf: Bytes, path: str, least_offset: int) -> np.ndarray[Any, Any]:
    """Return BATCH rows of all batches in `buf`, with positions in it. Raises CorruptLogError."""
    walk = HeaderWalk(buf, least_offset, most=buf.shape[0] // SMALLEST_ENTRY + 1)
    return next(walk.whole(path), np.empty(0, BATCH))


def chunks_of(
    batches: np.ndarray[Any, Any], records: int, *, bits: int, plain: int = _ALL
) -> Iterator[slice]:
    """Yield slices of batches, in order. `bits`: what `bits_of` returns for all of them. `plain`:
    maximal bytes of a chunk if nothing has to be decompressed or converted.

    `records` is the survey's count: a different sum means that the file has changed since.
    """
    uncut = np.empty((0, 3), np.int64)
    *_, found, _ = sum_up(batches, _ALL, _ALL, (0, 0, True), uncut)
    if found != records:
        raise changed(expected=f"{records} records", found=f"{found}")
    most = _CHUNK_BYTES if bits & (CODEC_MASK | LEGACY) else plain
    yield from slices_of(batches, most)


def slices_of(batches: np.ndarray[Any, Any], most: int) -> Iterator[slice]:
    """Yield slices of batches, in order, of up to `most` bytes on disk, and of at least a batch."""
    first = 0
    while first < len(batches):
        limit = int(batches[first]["position"]) + most
        last = bisect_right(batches, limit, first + 1, key=lambda row: end_of(row).position)
        yield slice(first, last)
        first = last


def changed(*, expected: str, found: str, where: str | None = None) -> CorruptLogError:
    """Return the error for a segment that has changed since its headers were walked."""
    return CorruptLogError(
        "the segment changed while it was being read",
        expected=expected,
        found=found,
        where=where,
        hint="Something else is writing to this directory. Stop it and run again.",
    )
