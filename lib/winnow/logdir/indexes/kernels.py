"""Kernels that build and check indexes: see `builder`, and `winnow.logdir.fast_listing`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from winnow.compiled import njit
from winnow.logdir.indexes.builder import IndexBuilder, IndexState
from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from winnow.wire.batch import BATCH
from winnow.wire.buffers import Array, Bytes, Rows, as_bytes
from winnow.wire.kernels.memory import load_be64, load_int32
from winnow.wire.kernels.record import kernel


@njit(cache=True, nogil=True)
def index_chunk(
    rows: Rows,
    start: int,
    base_offset: int,
    interval: int,
    state: IndexState,
    offsets: Array,
    times: Array,
) -> IndexState:
    """Fill in the entries that these batches get, with relative offsets, and return the state after
    them: the rule of S1.6 and S1.7. Positions of rows count from byte `start` of the file.
    """
    since, max_timestamp, offset_of_max, last_time_entry, without_time, _, _ = state
    count = time_count = 0
    for row in rows:
        if row.max_timestamp > max_timestamp:
            max_timestamp = row.max_timestamp
            offset_of_max = row.last_offset
        if since > interval:
            offsets[count].offset = row.last_offset - base_offset
            offsets[count].position = start + row.position
            count += 1
            without_time += 1
            if max_timestamp > last_time_entry:
                times[time_count].timestamp = max_timestamp
                times[time_count].offset = offset_of_max - base_offset
                time_count += 1
                last_time_entry = max_timestamp
                without_time = 0
            since = 0
        since += row.size
    return IndexState(
        since,
        max_timestamp,
        offset_of_max,
        last_time_entry,
        without_time,
        state.offset_entries + count,
        state.time_entries + time_count,
    )


@kernel
def indexes_are_sound(
    data: Bytes,
    bounds: NDArray[np.int64],
    base_offsets: NDArray[np.int64],
    end_offsets: NDArray[np.int64],
    log_bytes: NDArray[np.int64],
    last_timestamps: NDArray[np.int64],
) -> bool:
    """Whether all indexes are sound.

    `data`: offset index and time index of each segment; file f lies from `bounds[f]` to
    `bounds[f + 1]`. `last_timestamps`: int64[segments], receives the last timestamp of each time
    index, -1 if it is empty.
    """
    for segment in range(base_offsets.size):
        base, end = base_offsets[segment], end_offsets[segment]
        index, times, after = bounds[2 * segment], bounds[2 * segment + 1], bounds[2 * segment + 2]
        if (times - index) % OFFSET_ENTRY_SIZE != 0 or (after - times) % TIME_ENTRY_SIZE != 0:
            return False
        least_offset, least_position = base, np.int64(1)
        for at in range(index, times, OFFSET_ENTRY_SIZE):
            offset = base + load_int32(data, at)
            position = load_int32(data, at + 4)
            if (
                offset < least_offset
                or offset >= end
                or position < least_position
                or position >= log_bytes[segment]
            ):
                return False
            least_offset, least_position = offset + 1, position + 1
        least_offset, timestamp = base, np.int64(-1)
        for at in range(times, after, TIME_ENTRY_SIZE):
            before, timestamp = timestamp, np.int64(load_be64(data, at))
            offset = base + load_int32(data, at + 8)
            if timestamp <= before or offset < least_offset or offset >= end:
                return False
            least_offset = offset
        if timestamp == 0 and least_offset == base:  # perhaps zeros that were never cut
            return False
        last_timestamps[segment] = timestamp
    return True


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache."""
    builder = IndexBuilder(base_offset=0, index_interval_bytes=0)
    rows = np.zeros(2, BATCH)
    rows["size"], rows["position"], rows["last_offset"] = 61, [0, 61], [0, 1]
    builder.append(rows)
    rows["last_offset"] = [2, 3]
    builder.append(rows[:1])  # one row, which has another type for numba
    builder.finish()
    none: NDArray[np.int64] = np.empty(0, np.int64)
    indexes_are_sound(as_bytes(bytes(1)), np.zeros(1, np.int64), none, none, none, none)
