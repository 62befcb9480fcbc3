"""The active segment of a partition as a clean stop would leave it (S8.11)."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import Piece, TornLogError, find_next, read_to_stop
from winnow.logdir.indexes.index import (
    OFFSET_ENTRY_ON_DISK,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_ON_DISK,
    TIME_ENTRY_SIZE,
    whole_entries,
    written_entries,
)
from winnow.logdir.names import INDEX, LOG, SNAPSHOT, TIMEINDEX, base_offset_of, segment_file
from winnow.storage.live.read_view import Files, ReadView, ViewStorage
from winnow.wire.batch import NO_TIMESTAMP, out_of_reach
from winnow.wire.buffers import Array


@dataclass(frozen=True, slots=True)
class Stopped:
    """A partition as a clean stop would leave it."""

    files: Files
    end_offset: int | None
    """The log end offset. None: it is unknown, and readers report why."""
    written_ns: int
    """When the active segment was written to last."""


def as_stopped(path: str, files: Files) -> Stopped:
    """Cut the active segment after its last whole batch, and its indexes with it. Leave out older
    producer snapshots above the log end: a follower has truncated the log.
    """
    bases = []
    for name in files:
        with suppress(CorruptLogError):
            bases += [base_offset_of(name)] if name.endswith(LOG) else []
    if not bases:
        return Stopped(files, None, 0)
    base = max(bases)
    log = segment_file(base, LOG)
    stopped = Stopped(files, None, files[log].entry.mtime_ns)
    with suppress(OSError, CorruptLogError):  # readers report what is wrong with the segment
        end = _end_of_active(_Active(path, base, files))
        files[log] = files[log].cut(end.log_bytes)
        for suffix, size, tail in (
            (INDEX, end.index_bytes, b""),
            (TIMEINDEX, end.timeindex_bytes, end.last_time),
        ):
            if (name := segment_file(base, suffix)) in files:
                files[name] = files[name].cut(size, tail)
        stopped = replace(stopped, end_offset=end.offset)
        for name in [name for name in files if name.endswith(SNAPSHOT)]:
            older = files[name].entry.mtime_ns <= stopped.written_ns
            if older and end.offset is not None and base_offset_of(name) > end.offset:
                del files[name]
    return stopped


class _Active:
    """Reads the active segment of a partition."""

    def __init__(self, path: str, base: int, files: Files) -> None:
        log_dir = os.path.dirname(path)
        view = ReadView(log_dir, os.getpid(), 0, {path: files, log_dir: {}})
        self.base, self.size = base, files[segment_file(base, LOG)].entry.size
        self.storage, self.log = ViewStorage(view), f"{path}/{segment_file(base, LOG)}"
        self._path, self._files = path, files

    def entries(self, suffix: str, entry_size: int) -> bytes:
        """Return the entries of an index, without preallocated zeros and a torn last entry."""
        name = segment_file(self.base, suffix)
        if name not in self._files:
            return b""
        data = self.storage.read_bytes(f"{self._path}/{name}")
        return whole_entries(written_entries(data, entry_size), entry_size)


@dataclass(frozen=True, slots=True)
class _End:
    """What a clean stop leaves of the active segment. Of the indexes only sizes: a broker has
    thousands of them.
    """

    offset: int | None
    """The log end offset. None: it is unknown."""
    log_bytes: int
    index_bytes: int
    timeindex_bytes: int
    last_time: bytes
    """The entry that a clean stop appends (S1.7), or none."""


def _end_of_active(active: _Active) -> _End:
    """Read the batches from the last entry of the offset index on.

    Raises CorruptLogError if bytes that are no batch follow, unless it may be a batch that is being
    written: no sound batch is behind it.
    """
    base, size = active.base, active.size
    index = np.frombuffer(active.entries(INDEX, OFFSET_ENTRY_SIZE), OFFSET_ENTRY_ON_DISK)
    index = index[: _prefix(index["position"] < size)]
    end = start = int(index["position"][-1]) if len(index) else 0
    last, largest, of_largest = base - 1, NO_TIMESTAMP, base
    for item in read_to_stop(active.storage, active.log, size=size, start=start, least_offset=base):
        if not isinstance(item, Piece):
            begin = last + 1, out_of_reach(base)
            if not isinstance(item.error, TornLogError) or find_next(
                active.storage, active.log, item.position, size, *begin
            ):
                raise item.error
            break
        rows = item.rows
        end = item.position(len(rows) - 1) + int(rows["size"][-1])
        last = int(rows["last_offset"][-1])
        at = int(rows["max_timestamp"].argmax())
        if rows["max_timestamp"][at] > largest:
            largest, of_largest = int(rows["max_timestamp"][at]), int(rows["last_offset"][at])
    index_bytes = _prefix((index["position"] < end) & (index["relative_offset"] <= last - base))
    times = np.frombuffer(active.entries(TIMEINDEX, TIME_ENTRY_SIZE), TIME_ENTRY_ON_DISK)
    kept = _prefix(times["relative_offset"] <= last - base)
    last_time = b""
    if largest > (int(times["timestamp"][kept - 1]) if kept else NO_TIMESTAMP):
        last_time = np.array([(largest, of_largest - base)], TIME_ENTRY_ON_DISK).tobytes()
    known = last + 1 if last >= base or not start else None
    return _End(known, end, index_bytes * OFFSET_ENTRY_SIZE, kept * TIME_ENTRY_SIZE, last_time)


def _prefix(good: Array) -> int:
    """Return how many entries precede the first that is not good."""
    return len(good) if good.all() else int(good.argmin())
