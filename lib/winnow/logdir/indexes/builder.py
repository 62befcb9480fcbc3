"""Build the offset index and the time index of a segment with its log (S1.6, S1.7)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.indexes.index import (
    OFFSET_ENTRY,
    OFFSET_ENTRY_ON_DISK,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY,
    TIME_ENTRY_ON_DISK,
    TIME_ENTRY_SIZE,
)
from winnow.small_work import is_small
from winnow.wire.batch import MAX_OFFSET_SPAN
from winnow.wire.buffers import Array, Rows, as_rows

_MAX_LOG_BYTES = 2**31 - 1
_UNLIMITED = 2**62
_ROW_NS = 500
"""Time that `index_chunk_plain` takes for a batch."""


class IndexState(NamedTuple):
    """What is known of a segment after some of its batches."""

    bytes_since_entry: int = 0
    """Bytes of batches since the last entry. Starts at 0, so the first batch never gets one."""
    max_timestamp: int = -1
    offset_of_max: int = -1
    last_time_entry: int = -1
    """Timestamp of the last time-index entry. Without one it is -1, so that -1 never gets an entry.
    """
    without_time: int = 0
    """Entries of the offset index since the last one of the time index."""
    offset_entries: int = 0
    time_entries: int = 0


class IndexBuilder:
    """Build both indexes of one segment while its batches are written in order (S1.6, S1.7, S5.9).

    Batches come in chunks of any size; the size of the chunks does not change the files.
    `max_index_bytes` is `segment.index.bytes`. Kafka's cleaner also fails if an index exceeds it,
    and does not change the partition.
    """

    def __init__(
        self, *, base_offset: int, index_interval_bytes: int, max_index_bytes: int = _UNLIMITED
    ) -> None:
        self._base_offset = base_offset
        self._interval = index_interval_bytes
        self._room = max_index_bytes // OFFSET_ENTRY_SIZE
        # One slot is reserved for the forced last entry.
        self._time_room = max_index_bytes // TIME_ENTRY_SIZE - 1
        self._state = IndexState()
        self._next_offset = base_offset
        self._index, self._timeindex = bytearray(), bytearray()

    def append(self, batches: Array, start: int = 0) -> None:
        """Add the next batches: BATCH rows. Their positions count from byte `start` of the file.

        Raises CorruptLogError if an offset or a position does not fit into an index entry, if
        offsets do not ascend, or if the index would exceed `max_index_bytes`.
        """
        self._check(batches, start)
        self._add(batches, start)
        self._check_room(
            "the index of the cleaned segment would exceed segment.index.bytes",
            hint="Raise segment.index.bytes of the topic. Kafka's own cleaner fails here too.",
        )

    def finish(self) -> tuple[bytes, bytes]:
        """Return the `.index` and the `.timeindex`, with its forced last entry (S1.7)."""
        state, last = self._state, b""
        if state.max_timestamp > state.last_time_entry:
            forced = [(state.max_timestamp, state.offset_of_max - self._base_offset)]
            last = np.array(forced, TIME_ENTRY_ON_DISK).tobytes()
        return bytes(self._index), bytes(self._timeindex) + last

    def _add(self, batches: Array, start: int) -> None:
        rows, before = as_rows(batches), self._state
        offsets, times = np.empty(len(rows), OFFSET_ENTRY), np.empty(len(rows), TIME_ENTRY)
        given = rows, start, self._base_offset, self._interval, before, offsets, times
        if is_small(len(rows) * _ROW_NS):
            self._state = index_chunk_plain(*given)
        else:
            from winnow.logdir.indexes.kernels import index_chunk  # noqa: PLC0415 - with numba

            self._state = index_chunk(*given)
        offsets = offsets[: self._state.offset_entries - before.offset_entries]
        times = times[: self._state.time_entries - before.time_entries]
        self._index += offsets.astype(OFFSET_ENTRY_ON_DISK).tobytes()
        self._timeindex += times.astype(TIME_ENTRY_ON_DISK).tobytes()

    def _check(self, rows: Array, start: int) -> None:
        if not len(rows):
            return
        lasts = rows["last_offset"]
        if (lasts <= np.append(self._next_offset - 1, lasts[:-1])).any():
            raise CorruptLogError(
                "the offsets of batches do not ascend",
                expected=f"last offsets from {self._next_offset} on",
                found=f"{int(lasts.min())}..{int(lasts.max())}",
            )
        if int(lasts[-1]) - self._base_offset > MAX_OFFSET_SPAN:
            raise CorruptLogError(
                "an offset is too far from its segment's base offset for an index entry",
                expected=f"at most {self._base_offset + MAX_OFFSET_SPAN}",
                found=str(int(lasts[-1])),
            )
        begin = start + int(rows["position"].min())
        end = start + int((rows["position"] + rows["size"]).max())
        if begin < 0 or end > _MAX_LOG_BYTES:
            raise CorruptLogError(
                "a batch lies too far into its segment for an index entry",
                expected=f"positions in 0..{_MAX_LOG_BYTES}",
                found=f"{begin}..{end}",
                hint="Kafka cannot write such a segment either. A lower segment.bytes groups "
                "fewer segments into one.",
            )
        self._next_offset = int(lasts[-1]) + 1

    def _check_room(self, problem: str, *, hint: str, where: str | None = None) -> None:
        # Kafka checks whether the time index is full before it checks for anything to add.
        state = self._state
        count, asked = state.offset_entries, state.time_entries + (state.without_time > 0)
        if count > self._room or asked > self._time_room:
            raise CorruptLogError(
                problem,
                expected=f"at most {self._room} entries, {self._time_room} of the time index",
                found=f"{count} and {asked}",
                where=where,
                hint=hint,
            )


def index_chunk_plain(
    rows: Rows,
    start: int,
    base_offset: int,
    interval: int,
    state: IndexState,
    offsets: Array,
    times: Array,
) -> IndexState:
    """Do as `winnow.logdir.indexes.kernels.index_chunk`."""
    since, max_timestamp, offset_of_max, last_time_entry, without_time, _, _ = state
    count = time_count = 0
    names = "last_offset", "max_timestamp", "position", "size"
    columns = (rows[name].tolist() for name in names)
    for last_offset, timestamp, position, size in zip(*columns, strict=True):
        if timestamp > max_timestamp:
            max_timestamp = timestamp
            offset_of_max = last_offset
        if since > interval:
            offsets[count] = last_offset - base_offset, start + position
            count += 1
            without_time += 1
            if max_timestamp > last_time_entry:
                times[time_count] = max_timestamp, offset_of_max - base_offset
                time_count += 1
                last_time_entry = max_timestamp
                without_time = 0
            since = 0
        since += size
    return IndexState(
        since,
        max_timestamp,
        offset_of_max,
        last_time_entry,
        without_time,
        state.offset_entries + count,
        state.time_entries + time_count,
    )


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
