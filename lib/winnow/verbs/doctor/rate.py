"""Measure how fast this machine reads logs, on a part of the segments to clean."""

from __future__ import annotations

import time
from collections.abc import Sequence

from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.batches import first_headers
from winnow.logdir.names import LOG, segment_file
from winnow.state import PartitionState, Segment
from winnow.storage.segment_io import map_range
from winnow.wire.inflate import inflate_parts
from winnow.wire.records import scan_records

SAMPLE_BYTES = 32 * 2**20
_ROWS = 65_536
_LEAST_SECONDS = 1e-3


def scan_rate(states: Sequence[PartitionState], *, limit: int) -> float | None:
    """Return the log bytes that one core parses per second, decompression included.

    Measured on at most SAMPLE_BYTES of the largest closed segment of these logs. None if there is
    no sound batch.
    """
    found = [
        (segment.log_bytes, state, segment) for state in states for segment in state.segments[:-1]
    ]
    if not found:
        return None
    _, state, segment = max(found, key=lambda item: item[0])
    try:
        _parse(state, segment, 2**20, limit)  # loads the compiled kernels before the clock starts
        began = time.perf_counter()
        done = _parse(state, segment, SAMPLE_BYTES, limit)
    except FAILS_ONE_PARTITION:  # a run reports what is wrong with this partition
        return None
    return done / max(time.perf_counter() - began, _LEAST_SECONDS) if done else None


def _parse(state: PartitionState, segment: Segment, most: int, limit: int) -> int:
    """Parse whole batches from the start of the segment and return their log bytes."""
    path = f"{state.directory}/{segment_file(segment.base_offset, LOG)}"
    with map_range(path, 0, min(segment.log_bytes, most)) as buf:
        batches = first_headers(buf, 0, segment.base_offset, most=_ROWS)
        try:
            for blocks in inflate_parts(buf, batches, limit=limit):
                scan_records(blocks, blocks.rows, (1, 2))
                del blocks
        finally:
            del buf
    return int(batches["size"].sum())
