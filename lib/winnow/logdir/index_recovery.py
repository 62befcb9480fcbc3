"""The indexes of a segment as a broker builds them when it recovers it (S8.9, Kafka's
`LogSegment.recover`).

Unlike `winnow.logdir.index.IndexBuilder` it accepts offsets that do not ascend: a loader compares
them only where it adds an entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir import index_kernels
from winnow.logdir.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE

Array = np.ndarray[Any, np.dtype[Any]]

_WARM_ENTRIES = 8192 // OFFSET_ENTRY_SIZE
"""Kafka searches the end of an index first."""
_OFFSETS = np.dtype([("offset", np.int64), ("position", np.int64)])
_TIMES = np.dtype([("timestamp", np.int64), ("offset", np.int64)])
_OFFSETS_ON_DISK = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIMES_ON_DISK = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


class OffsetOrderError(Exception):
    """An entry does not follow the one before it. A loader then empties the whole segment."""


class RecoveredIndexes:
    """Builds `.index` and `.timeindex`. Offsets of the batches lie within reach of the base."""

    def __init__(self, *, base_offset: int, interval: int, max_bytes: int, where: str) -> None:
        self._base = base_offset
        self._interval = interval
        self._most = max_bytes // OFFSET_ENTRY_SIZE
        self._most_times = max_bytes // TIME_ENTRY_SIZE - 1
        self._where = where
        self._state = index_kernels.INITIAL_STATE.copy()
        self._offsets: list[Array] = [np.empty(0, _OFFSETS)]
        self._times: list[Array] = [np.empty(0, _TIMES)]

    def append(self, rows: Array) -> None:
        """Add the next batches: dtype BATCH, with their `position` in the file."""
        offsets, times = np.empty(len(rows), _OFFSETS), np.empty(len(rows), _TIMES)
        count, time_count = index_kernels.index_chunk(
            np.ascontiguousarray(rows["position"]),
            np.ascontiguousarray(rows["size"]),
            np.ascontiguousarray(rows["last_offset"]),
            np.ascontiguousarray(rows["max_timestamp"]),
            self._base,
            self._interval,
            self._state,
            offsets["offset"],
            offsets["position"],
            times["timestamp"],
            times["offset"],
        )
        self._offsets.append(offsets[:count])
        self._times.append(times[:time_count])

    def finish(self) -> tuple[bytes, bytes]:
        """Return both files. Raises OffsetOrderError, and CorruptLogError for more entries than
        `segment.index.bytes` holds: a broker then fails to load the log.
        """
        offsets, times = np.concatenate(self._offsets), np.concatenate(self._times)
        # Kafka checks whether the time index is full before it checks for anything to add.
        asked = len(times) + (int(self._state[index_kernels.WITHOUT_TIME]) > 0)
        if len(offsets) > self._most or asked > self._most_times:
            raise CorruptLogError(
                "the index of a segment would exceed segment.index.bytes",
                expected=f"at most {self._most} entries, {self._most_times} of the time index",
                found=f"{len(offsets)} and {asked}",
                where=self._where,
                hint="Raise segment.index.bytes of the topic. A broker fails here, too.",
            )
        timestamp = int(self._state[index_kernels.MAX_TIMESTAMP])
        if timestamp > int(self._state[index_kernels.LAST_TIME_ENTRY]):
            last = (timestamp, int(self._state[index_kernels.OFFSET_OF_MAX]) - self._base)
            times = np.concatenate([times, np.array([last], _TIMES)])
        if (np.diff(offsets["offset"]) <= 0).any() or (np.diff(times["offset"]) < 0).any():
            raise OffsetOrderError
        return offsets.astype(_OFFSETS_ON_DISK).tobytes(), times.astype(_TIMES_ON_DISK).tobytes()


def look_up(index: bytes, base_offset: int, offset: int) -> int:
    """Return the byte of the log where a broker begins to look for an offset: the position of the
    largest entry at or below it (`OffsetIndex.lookup`), 0 if there is none.

    The search is Kafka's, step by step, so that it finds the same in an index whose entries do not
    ascend. Bytes after the last whole entry do not count.
    """
    entries = np.frombuffer(index[: len(index) - len(index) % OFFSET_ENTRY_SIZE], _OFFSETS_ON_DISK)
    if not len(entries):
        return 0
    target = offset - base_offset
    hot = max(0, len(entries) - 1 - _WARM_ENTRIES)
    if entries["offset"][hot] < target:
        low, high = hot, len(entries) - 1
    elif entries["offset"][0] > target:
        return 0
    else:
        low, high = 0, hot
    while low < high:
        middle = (low + high + 1) >> 1
        found = int(entries["offset"][middle])
        if found == target:
            return int(entries["position"][middle])
        low, high = (low, middle - 1) if found > target else (middle, high)
    return int(entries["position"][low])
