"""Offset index and time index of a segment: read, checked, or built with the log (S1.6, S1.7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from winnow.errors import CorruptLogError
from winnow.wire.batch import BATCH, MAX_OFFSET_SPAN, NO_TIMESTAMP
from winnow.wire.buffers import as_rows

Array = np.ndarray[Any, np.dtype[Any]]

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12

OFFSET_ENTRY = np.dtype([("offset", np.int64), ("position", np.int64)])
"""Offsets are absolute: the relative ones of the file plus the segment's base."""
TIME_ENTRY = np.dtype([("timestamp", np.int64), ("offset", np.int64)])

OFFSET_ENTRY_ON_DISK = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_ENTRY_ON_DISK = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])

_NO_ENTRY_FITS = (
    "The index belongs to another log or is damaged: start a broker once without it, "
    "so that it is rebuilt."
)


def decode_offset_index(
    data: bytes, path: str, *, base_offset: int, log_bytes: int, end_offset: int | None = None
) -> Array:
    """Return all entries of a `.index` file as OFFSET_ENTRY rows.

    A broker trusts every byte of it (S8.5), so a tail that cannot be entries is an error, such as
    the zeros that a crash leaves in a preallocated index. Raises CorruptLogError unless the size is
    a multiple of 8, offsets and positions ascend strictly, positions lie in (0, log_bytes) and
    offsets in [base_offset, end_offset).
    """
    raw = _entries(data, OFFSET_ENTRY_ON_DISK, path)
    entries = np.empty(raw.shape[0], OFFSET_ENTRY)
    if not raw.shape[0]:
        return entries
    entries["offset"] = raw["relative_offset"].astype(np.int64) + base_offset
    entries["position"] = raw["position"]
    offsets, positions = entries["offset"], entries["position"]
    if _ascend_within(offsets, base_offset, end_offset) and _ascend_within(positions, 1, log_bytes):
        return entries
    check_each(positions > 0, entries, path, "a position above 0")
    check_each(positions < log_bytes, entries, path, f"a position below {log_bytes}")
    _check_bounds(entries, path, base_offset, end_offset)
    check_each(_ascends(offsets), entries, path, "an ascending offset")
    check_each(_ascends(positions), entries, path, "an ascending position")
    return entries


def decode_time_index(
    data: bytes, path: str, *, base_offset: int, end_offset: int | None = None
) -> Array:
    """Return all entries of a `.timeindex` file as TIME_ENTRY rows.

    Raises CorruptLogError unless the size is a multiple of 12, timestamps ascend strictly from 0,
    and offsets do not descend and lie in [base_offset, end_offset).
    """
    raw = _entries(data, TIME_ENTRY_ON_DISK, path)
    entries = np.empty(raw.shape[0], TIME_ENTRY)
    if not raw.shape[0]:
        return entries
    entries["timestamp"] = raw["timestamp"]
    entries["offset"] = raw["relative_offset"].astype(np.int64) + base_offset
    timestamps, offsets = entries["timestamp"], entries["offset"]
    if _ascend_within(timestamps, 0, None) and _ascend_within(
        offsets, base_offset, end_offset, strictly=False
    ):
        return entries
    check_each(timestamps >= 0, entries, path, "a timestamp of at least 0")
    _check_bounds(entries, path, base_offset, end_offset)
    check_each(_ascends(timestamps), entries, path, "an ascending timestamp")
    check_each(_ascends(offsets, strictly=False), entries, path, "an ascending offset")
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


def _entries(data: bytes, dtype: np.dtype[Any], path: str) -> Array:
    if len(data) % dtype.itemsize:
        raise CorruptLogError(
            "an index file has a torn end",
            expected=f"a multiple of {dtype.itemsize} bytes",
            found=f"{len(data)} bytes",
            where=path,
            hint=_NO_ENTRY_FITS,
            position=len(data) - len(data) % dtype.itemsize,
        )
    return np.frombuffer(data, dtype)


def _ascend_within(values: Array, least: int, end: int | None, *, strictly: bool = True) -> bool:
    """Check one or more values: three times as fast as finding a fault, which is rare."""
    if values[0] < least or (end is not None and values[-1] >= end):
        return False
    if values.shape[0] == 1:
        return True
    return bool((values[1:] > values[:-1] if strictly else values[1:] >= values[:-1]).all())


def _ascends(values: Array, *, strictly: bool = True) -> Array:
    fine = np.ones(values.shape[0], np.bool_)
    fine[1:] = values[1:] > values[:-1] if strictly else values[1:] >= values[:-1]
    return fine


def _check_bounds(entries: Array, path: str, base_offset: int, end_offset: int | None) -> None:
    offsets = entries["offset"]
    check_each(offsets >= base_offset, entries, path, f"an offset of at least {base_offset}")
    if end_offset is not None:
        check_each(offsets < end_offset, entries, path, f"an offset below {end_offset}")


def check_each(fine: Array, entries: Array, path: str, expected: str) -> None:
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
            hint=_NO_ENTRY_FITS,
            position=at,
        )


class IndexBuilder:
    """Build both indexes of one segment while its batches are written in order (S1.6, S1.7, S5.9).

    Batches come in chunks of any size; the size of the chunks does not change the files.
    `max_index_bytes` is `segment.index.bytes`. Kafka's cleaner also fails if an index exceeds it,
    and does not change the partition.
    """

    def __init__(
        self, *, base_offset: int, index_interval_bytes: int, max_index_bytes: int | None = None
    ) -> None:
        # Imported here: numba takes longer to import than a survey, which only reads indexes.
        from winnow.logdir.indexes import kernels  # noqa: PLC0415

        self._kernels = kernels
        self._base_offset = base_offset
        self._interval = index_interval_bytes
        unlimited = 2**62
        self._room = unlimited if max_index_bytes is None else max_index_bytes // OFFSET_ENTRY_SIZE
        # One slot is reserved for the forced last entry.
        self._time_room = (
            unlimited if max_index_bytes is None else max_index_bytes // TIME_ENTRY_SIZE - 1
        )
        self._state = kernels.INITIAL_STATE.copy()
        self._next_offset = base_offset
        self._offset_parts: list[bytes] = []
        self._time_parts: list[bytes] = []
        self._count = 0
        self._time_count = 0

    def append(self, batches: Array, start: int = 0) -> None:
        """Add the next batches: BATCH rows. Their positions count from byte `start` of the file.

        Raises CorruptLogError if an offset or a position does not fit into an index entry, if
        offsets do not ascend, or if the index would exceed `max_index_bytes`.
        """
        rows = as_rows(batches)
        self._check(rows, start)
        offsets = np.empty(rows.shape[0], _NATIVE_OFFSET_ENTRY)
        times = np.empty(rows.shape[0], _NATIVE_TIME_ENTRY)
        count, time_count = self._kernels.index_chunk(
            rows,
            start,
            self._base_offset,
            self._interval,
            self._state,
            offsets["relative_offset"],
            offsets["position"],
            times["timestamp"],
            times["relative_offset"],
        )
        asked = self._entries_of_time(time_count)
        if self._count + count > self._room or asked > self._time_room:
            raise CorruptLogError(
                "the index of the cleaned segment would exceed segment.index.bytes",
                expected=f"at most {self._room} entries, {self._time_room} of the time index",
                found=f"{self._count + count} and {asked}",
                hint="Raise segment.index.bytes of the topic. Kafka's own cleaner fails here too.",
            )
        self._count += count
        self._time_count += time_count
        self._offset_parts.append(offsets[:count].astype(OFFSET_ENTRY_ON_DISK).tobytes())
        self._time_parts.append(times[:time_count].astype(TIME_ENTRY_ON_DISK).tobytes())

    def finish(self) -> tuple[bytes, bytes]:
        """Return the `.index` and the `.timeindex`, with its forced last entry (S1.7)."""
        timestamp = int(self._state[self._kernels.MAX_TIMESTAMP])
        offset = int(self._state[self._kernels.OFFSET_OF_MAX])
        last = b""
        if timestamp > int(self._state[self._kernels.LAST_TIME_ENTRY]):
            last = np.array([(timestamp, offset - self._base_offset)], TIME_ENTRY_ON_DISK).tobytes()
        return b"".join(self._offset_parts), b"".join(self._time_parts) + last

    def _entries_of_time(self, more: int) -> int:
        """Return how many Kafka asks room for. It checks whether the time index is full before it
        checks for anything to add.
        """
        return self._time_count + more + bool(self._state[self._kernels.WITHOUT_TIME] > 0)

    def _check(self, rows: Array, start: int) -> None:
        if not rows.shape[0]:
            return
        lasts = rows["last_offset"]
        ascending, begin, end = self._kernels.extent(rows, start, self._next_offset)
        if not ascending:
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
        if begin < 0 or end > _MAX_LOG_BYTES:
            raise CorruptLogError(
                "a batch lies too far into its segment for an index entry",
                expected=f"positions in 0..{_MAX_LOG_BYTES}",
                found=f"{begin}..{end}",
                hint="Kafka cannot write such a segment either. A lower segment.bytes groups "
                "fewer segments into one.",
            )
        self._next_offset = int(lasts[-1]) + 1


_MAX_LOG_BYTES = 2**31 - 1
_NATIVE_OFFSET_ENTRY = np.dtype([("relative_offset", np.int32), ("position", np.int32)])
_NATIVE_TIME_ENTRY = np.dtype([("timestamp", np.int64), ("relative_offset", np.int64)])


def warm_up() -> None:
    """Compile the kernel, or load it from numba's cache."""
    builder = IndexBuilder(base_offset=0, index_interval_bytes=0)
    rows = np.zeros(2, BATCH)
    rows["size"], rows["position"], rows["last_offset"] = 61, [0, 61], [0, 1]
    builder.append(rows)
    builder.finish()
