"""When a batch gets an index entry: the rule of S1.6 and S1.7 as a kernel and as its plain twin.

The state between two chunks is an int64 array; the constants name its places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from winnow.compiled import njit
from winnow.wire.buffers import Rows

Array = np.ndarray[Any, np.dtype[Any]]

BYTES_SINCE_ENTRY = 0
"""Bytes of batches since the last entry. Starts at 0, so the first batch never gets one."""
MAX_TIMESTAMP = 1
OFFSET_OF_MAX = 2
LAST_TIME_ENTRY = 3
"""Timestamp of the last time-index entry. Without one it is -1, so that -1 never gets an entry."""
WITHOUT_TIME = 4
"""Entries of the offset index since the last one of the time index."""

INITIAL_STATE = np.array([0, -1, -1, -1, 0], np.int64)


@njit(cache=True, nogil=True)
def extent(rows: Rows, start: int, next_offset: int) -> tuple[bool, int, int]:
    """Return whether the last offsets ascend from `next_offset` on, and the bytes of the file at
    which the batches begin and end. There is at least one row. Positions of rows count from byte
    `start` of the file.
    """
    begin, end = rows[0].position, rows[0].position + rows[0].size
    ascending = True
    last = next_offset - 1
    for i in range(rows.size):
        row = rows[i]
        ascending &= row.last_offset > last
        last = row.last_offset
        begin = min(begin, row.position)
        end = max(end, row.position + row.size)
    return ascending, start + begin, start + end


@njit(cache=True, nogil=True)
def index_chunk(
    rows: Rows,
    start: int,
    base_offset: int,
    interval: int,
    state: Array,
    entry_offsets: Array,
    entry_positions: Array,
    time_timestamps: Array,
    time_offsets: Array,
) -> tuple[int, int]:
    """Fill in the entries that these batches get, and return how many of both kinds.

    Positions of rows count from byte `start` of the file. The four outputs are at least as long as
    `rows`, and their offsets are relative.
    """
    count = 0
    time_count = 0
    since = state[BYTES_SINCE_ENTRY]
    max_timestamp = state[MAX_TIMESTAMP]
    offset_of_max = state[OFFSET_OF_MAX]
    last_time_entry = state[LAST_TIME_ENTRY]
    without_time = state[WITHOUT_TIME]
    for i in range(rows.size):
        row = rows[i]
        if row.max_timestamp > max_timestamp:
            max_timestamp = row.max_timestamp
            offset_of_max = row.last_offset
        if since > interval:
            entry_offsets[count] = row.last_offset - base_offset
            entry_positions[count] = start + row.position
            count += 1
            without_time += 1
            if max_timestamp > last_time_entry:
                time_timestamps[time_count] = max_timestamp
                time_offsets[time_count] = offset_of_max - base_offset
                time_count += 1
                last_time_entry = max_timestamp
                without_time = 0
            since = 0
        since += row.size
    state[BYTES_SINCE_ENTRY] = since
    state[MAX_TIMESTAMP] = max_timestamp
    state[OFFSET_OF_MAX] = offset_of_max
    state[LAST_TIME_ENTRY] = last_time_entry
    state[WITHOUT_TIME] = without_time
    return count, time_count
