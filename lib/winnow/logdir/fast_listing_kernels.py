"""Check the indexes of a segment in one pass, by the rules of `winnow.logdir.indexes.index` (S1.6,
S1.7, S8.5).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from winnow.wire.buffers import Bytes, as_bytes
from winnow.wire.kernels.memory import load_be64, load_int32
from winnow.wire.kernels.record import kernel


@kernel
def indexes_are_sound(
    data: Bytes,
    bounds: Any,
    base_offsets: Any,
    end_offsets: Any,
    log_bytes: Any,
    last_timestamps: Any,
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
        last_timestamps[segment] = timestamp
    return True


def warm_up() -> None:
    """Compile the kernel, or load it from numba's cache."""
    none: NDArray[np.int64] = np.empty(0, np.int64)
    indexes_are_sound(as_bytes(bytes(1)), np.zeros(1, np.int64), none, none, none, none)
