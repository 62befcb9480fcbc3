"""Offset index and time index of a segment: read, checked, or built with the log (S1.6, S1.7)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from winnow.advice import KEEP_INDEX, REBUILD
from winnow.compiled import njit
from winnow.errors import CorruptLogError
from winnow.wire.batch import BATCH, MAX_OFFSET_SPAN, NO_TIMESTAMP
from winnow.wire.buffers import Array, Rows, as_rows

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12

OFFSET_ENTRY = np.dtype([("offset", np.int64), ("position", np.int64)])
"""Offsets are absolute: the relative ones of the file plus the segment's base."""
TIME_ENTRY = np.dtype([("timestamp", np.int64), ("offset", np.int64)])

OFFSET_ENTRY_ON_DISK = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_ENTRY_ON_DISK = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])

_MAX_LOG_BYTES = 2**31 - 1
_UNLIMITED = 2**62
_WARM_ENTRIES = 8192 // OFFSET_ENTRY_SIZE
"""Kafka searches the end of an index first."""
_NO_ENTRY_FITS = f"The index belongs to another log or is damaged. {REBUILD}"


def decode_offset_index(
    data: bytes, path: str, *, base_offset: int, log_bytes: int, end_offset: int | None = None
) -> Array:
    """Return all entries of a `.index` file as OFFSET_ENTRY rows.

    A broker trusts every byte of it (S8.5), so a tail that cannot be entries is an error. The
    caller removes preallocated zeros (`written_entries`). Raises CorruptLogError unless the size is
    a multiple of 8, offsets and positions ascend strictly, positions lie in (0, log_bytes) and
    offsets in [base_offset, end_offset).
    """
    entries = _entries(data, OFFSET_ENTRY_ON_DISK, OFFSET_ENTRY, path, base_offset)
    positions = entries["position"]
    check_each(positions > 0, entries, path, "a position above 0")
    expected = f"a position below {log_bytes}"
    check_each(positions < log_bytes, entries, path, expected, hint=KEEP_INDEX)
    _check_bounds(entries, path, base_offset, end_offset)
    check_each(_ascends(entries["offset"]), entries, path, "an ascending offset")
    check_each(_ascends(positions), entries, path, "an ascending position")
    return entries


def decode_time_index(
    data: bytes, path: str, *, base_offset: int, end_offset: int | None = None
) -> Array:
    """Return all entries of a `.timeindex` file as TIME_ENTRY rows.

    Raises CorruptLogError unless the size is a multiple of 12, timestamps ascend strictly from 0,
    and offsets do not descend and lie in [base_offset, end_offset).
    """
    entries = _entries(data, TIME_ENTRY_ON_DISK, TIME_ENTRY, path, base_offset)
    timestamps = entries["timestamp"]
    check_each(timestamps >= 0, entries, path, "a timestamp of at least 0")
    _check_bounds(entries, path, base_offset, end_offset)
    check_each(_ascends(timestamps), entries, path, "an ascending timestamp")
    check_each(_ascends(entries["offset"], strictly=False), entries, path, "an ascending offset")
    return entries


def last_timestamp_of(data: bytes, path: str, base_offset: int, end_offset: int | None) -> int:
    """Return the last timestamp of a `.timeindex` file, -1 if it is empty. Raises as
    `decode_time_index`.
    """
    times = decode_time_index(data, path, base_offset=base_offset, end_offset=end_offset)
    return int(times["timestamp"][-1]) if times.shape[0] else NO_TIMESTAMP


def without_preallocated(data: bytes, entry_size: int) -> bytes:
    """Remove the zeros that a running broker, or a crash, leaves after the entries of an index
    (S1.6).

    A single entry of zeros is kept: it may be timestamp 0 at the base offset.
    """
    if len(data) <= entry_size:
        return data
    kept = len(data.rstrip(b"\0"))
    kept += -kept % entry_size
    return data[:kept] if kept < len(data) else data


def written_entries(data: bytes, entry_size: int) -> bytes:
    """Return an index without preallocated zeros: empty if nothing was ever written.

    A broker leaves them if it fails to cut an index when it closes a segment. It then takes the
    last zeros for an entry: of the base offset at position 0, or of a largest timestamp in 1970.
    """
    return without_preallocated(data, entry_size) if data.rstrip(b"\0") else b""


def whole_entries(data: bytes, entry_size: int) -> bytes:
    """Return an index without a torn entry at its end."""
    return data[: len(data) - len(data) % entry_size]


def _entries(
    data: bytes, on_disk: np.dtype[Any], dtype: np.dtype[Any], path: str, base_offset: int
) -> Array:
    if len(data) % on_disk.itemsize:
        raise CorruptLogError(
            "an index file has a torn end",
            expected=f"a multiple of {on_disk.itemsize} bytes",
            found=f"{len(data)} bytes",
            where=path,
            hint=_NO_ENTRY_FITS,
            position=len(data) - len(data) % on_disk.itemsize,
        )
    entries = np.frombuffer(data, on_disk).astype(dtype)
    entries["offset"] += base_offset
    return entries


def _ascends(values: Array, *, strictly: bool = True) -> Array:
    fine = np.ones(values.shape[0], np.bool_)
    fine[1:] = values[1:] > values[:-1] if strictly else values[1:] >= values[:-1]
    return fine


def _check_bounds(entries: Array, path: str, base_offset: int, end_offset: int | None) -> None:
    offsets = entries["offset"]
    check_each(offsets >= base_offset, entries, path, f"an offset of at least {base_offset}")
    if end_offset is not None:
        check_each(offsets < end_offset, entries, path, f"an offset below {end_offset}")


def check_each(
    fine: Array, entries: Array, path: str, expected: str, *, hint: str = _NO_ENTRY_FITS
) -> None:
    """Raise CorruptLogError for the first entry that is not fine."""
    if not fine.all():
        row = int(np.argmin(fine))
        found = ", ".join(f"{name} {int(entries[name][row])}" for name in entries.dtype.names or ())
        at = row * (OFFSET_ENTRY_SIZE if entries.dtype == OFFSET_ENTRY else TIME_ENTRY_SIZE)
        raise CorruptLogError(
            "an invalid index entry",
            expected=expected,
            found=found,
            where=f"{path} at byte {at}",
            hint=hint,
            position=at,
        )


class _State(NamedTuple):
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
        self._state = _State()
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
        self._state = _index_chunk(
            rows, start, self._base_offset, self._interval, before, offsets, times
        )
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


@njit(cache=True, nogil=True)
def _index_chunk(
    rows: Rows,
    start: int,
    base_offset: int,
    interval: int,
    state: _State,
    offsets: Array,
    times: Array,
) -> _State:
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
    return _State(
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


def look_up(index: bytes, base_offset: int, offset: int) -> int:
    """Return the byte of the log where a broker begins to look for an offset: the position of the
    largest entry at or below it (`OffsetIndex.lookup`), 0 if there is none.

    The search is Kafka's, step by step, so that it finds the same in an index whose entries do not
    ascend. Bytes after the last whole entry do not count.
    """
    entries = np.frombuffer(whole_entries(index, OFFSET_ENTRY_SIZE), OFFSET_ENTRY_ON_DISK)
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


def warm_up() -> None:
    """Compile the kernel, or load it from numba's cache."""
    builder = IndexBuilder(base_offset=0, index_interval_bytes=0)
    rows = np.zeros(2, BATCH)
    rows["size"], rows["position"], rows["last_offset"] = 61, [0, 61], [0, 1]
    builder.append(rows)
    rows["last_offset"] = [2, 3]
    builder.append(rows[:1])  # one row, which has another type for numba
    builder.finish()
