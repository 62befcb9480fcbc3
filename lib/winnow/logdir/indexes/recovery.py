"""The indexes of a segment as a broker rebuilds them (S8.9, Kafka's `LogSegment.recover`)."""

from __future__ import annotations

import numpy as np

from winnow.logdir.indexes.index import (
    OFFSET_ENTRY_ON_DISK,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_ON_DISK,
    Array,
    IndexBuilder,
)

_WARM_ENTRIES = 8192 // OFFSET_ENTRY_SIZE
"""Kafka searches the end of an index first."""


class OffsetOrderError(Exception):
    """An entry does not follow the one before it. A loader then empties the whole segment."""


class RecoveredIndexes(IndexBuilder):
    """Builds `.index` and `.timeindex`. Offsets of the batches lie within reach of the base, but
    need not ascend: a loader compares them only where it adds an entry.
    """

    def append(self, batches: Array, start: int = 0) -> None:
        self._add(batches, start)

    def recovered(self, where: str) -> tuple[bytes, bytes]:
        """Return both files. Raises OffsetOrderError, and CorruptLogError for more entries than
        `max_index_bytes` has room for: a broker then fails to load the log.
        """
        self._check_room(
            "the index of a segment would exceed segment.index.bytes",
            hint="Raise segment.index.bytes of the topic. A broker fails here, too.",
            where=where,
        )
        index, timeindex = self.finish()
        offsets = np.frombuffer(index, OFFSET_ENTRY_ON_DISK)["relative_offset"].astype(np.int64)
        times = np.frombuffer(timeindex, TIME_ENTRY_ON_DISK)["relative_offset"].astype(np.int64)
        if (np.diff(offsets) <= 0).any() or (np.diff(times) < 0).any():
            raise OffsetOrderError
        return index, timeindex


def look_up(index: bytes, base_offset: int, offset: int) -> int:
    """Return the byte of the log where a broker begins to look for an offset: the position of the
    largest entry at or below it (`OffsetIndex.lookup`), 0 if there is none.

    The search is Kafka's, step by step, so that it finds the same in an index whose entries do not
    ascend. Bytes after the last whole entry do not count.
    """
    entries = np.frombuffer(
        index[: len(index) - len(index) % OFFSET_ENTRY_SIZE], OFFSET_ENTRY_ON_DISK
    )
    if not len(entries):
        return 0
    target = offset - base_offset
    hot = max(0, len(entries) - 1 - _WARM_ENTRIES)
    if entries["relative_offset"][hot] < target:
        low, high = hot, len(entries) - 1
    elif entries["relative_offset"][0] > target:
        return 0
    else:
        low, high = 0, hot
    while low < high:
        middle = (low + high + 1) >> 1
        found = int(entries["relative_offset"][middle])
        if found == target:
            return int(entries["position"][middle])
        low, high = (low, middle - 1) if found > target else (middle, high)
    return int(entries["position"][low])
