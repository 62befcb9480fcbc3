"""Offset index and time index of a segment: read and checked (S1.6, S1.7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from winnow.advice import KEEP_INDEX, REBUILD
from winnow.errors import CorruptLogError
from winnow.wire.batch import NO_TIMESTAMP
from winnow.wire.buffers import Array

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12

OFFSET_ENTRY = np.dtype([("offset", np.int64), ("position", np.int64)])
"""Offsets are absolute: the relative ones of the file plus the segment's base."""
TIME_ENTRY = np.dtype([("timestamp", np.int64), ("offset", np.int64)])

OFFSET_ENTRY_ON_DISK = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_ENTRY_ON_DISK = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])

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
    if not data:
        return np.empty(0, OFFSET_ENTRY)
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
    if not data:
        return np.empty(0, TIME_ENTRY)
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


def position_of_last(entry: bytes) -> int:
    """Return the position in an entry of an offset index."""
    return int(np.frombuffer(entry, OFFSET_ENTRY_ON_DISK)["position"][0])


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
