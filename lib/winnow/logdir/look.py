"""Look at a log directory while its broker runs: a `Look` shows each partition as it was at one
moment, in the shape in which a clean stop would have left it (S8.11).

What the broker is just changing is left out, because it is no fact about the log: files that it
rewrites, replaces or deletes (`.cleaned`, `.swap`, `.deleted`), what follows the last whole batch
of the active segment, entries of its indexes that were written later, and preallocated bytes.
"""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from weakref import finalize

import numpy as np

from winnow.clock import now_ms
from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.batches import Piece, TornLogError, find_next, read_to_stop
from winnow.logdir.indexes.index import (
    OFFSET_ENTRY_ON_DISK,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_ON_DISK,
    TIME_ENTRY_SIZE,
    written_entries,
)
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    CLEANED,
    DELETED,
    INDEX,
    LEADER_EPOCHS,
    LOG,
    META_PROPERTIES,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
    DirectoryKind,
    base_offset_of,
    parse_partition_dir,
    segment_file,
)
from winnow.storage.beside.look import Look, LookStorage, SeenFile, looking, looks
from winnow.storage.contract import Entry, entry_if_there
from winnow.storage.guarded import open_file
from winnow.storage.local import LocalStorage, entry_of
from winnow.wire.batch import NO_TIMESTAMP, out_of_reach
from winnow.words import counted, first_few, instant

_LOCAL = LocalStorage()
_ATTEMPTS = 8
OF_THE_BROKER = (CLEANED, SWAP, DELETED)
"""Ends of the names of files that a running broker is about to rename or to remove."""
_READ_AT_ONCE = (LEADER_EPOCHS, PARTITION_METADATA)
_LEAST_DESCRIPTOR = 1024
"""Lower numbers are left to sockets: `select`, which PySpark calls, takes no higher ones."""
_SPARE_DESCRIPTORS = 512
"""For everything else that the process opens."""


@contextmanager
def looking_at(log_dir: str, broker: str, *, only: Collection[str] | None = None) -> Iterator[Look]:
    """Look at a log directory whose broker runs, and read through the look inside the block.

    `broker`: the broker, in words. `only`: names of directories; nobody reads others. The metadata
    log is read last, between two listings with the same partitions, so that it knows each of them
    and no other. A look that is kept can be used again after the block (`looking`).
    """
    with ExitStack() as opened:
        descriptors = _Descriptors(opened)
        small = {name: _whole(f"{log_dir}/{name}") for name in OFFSET_CHECKPOINTS}
        seen: dict[str, Mapping[str, SeenFile]] = {}
        changing: set[str] = set()
        first = now = _directories(log_dir, only)
        for _ in range(_ATTEMPTS):
            for name in sorted(now.keys(), key=_metadata_log_last):
                if name in seen and _metadata_log_last(name) == 0:
                    continue
                try:
                    seen[name] = _partition(f"{log_dir}/{name}", log_dir, descriptors)
                    changing.discard(name)
                except (FileNotFoundError, NotADirectoryError):
                    seen.pop(name, None)
                except _ChangingError:
                    changing.add(name)
            before, now = now, _directories(log_dir, only)
            for name, entry in before.items():
                if name in now and now[name].inode != entry.inode:
                    seen.pop(name, None)  # another topic of the same name
            if now.keys() == before.keys() and now.keys() <= {*seen, *changing}:
                break
        shown = {
            name: SeenFile(entry) if (data := small.get(name)) is None else _with_data(entry, data)
            for name, entry in ((entry.name, entry) for entry in _root(log_dir, only))
            if _kind(name) is None or not entry.is_dir or (name in now and name in seen)
        }
        marker = Entry(CLEAN_SHUTDOWN, is_file=True, mtime_ns=now_ms() * 1_000_000)
        shown[CLEAN_SHUTDOWN] = SeenFile(marker, b"")
        look = Look(
            root=log_dir,
            pid=os.getpid(),
            at_ms=now_ms(),
            directories={
                log_dir: dict(sorted(shown.items())),
                **{f"{log_dir}/{name}": seen[name] for name in seen if name in shown},
            },
            program=broker,
            gone=tuple(filter(_is_current, sorted(first.keys() - now.keys()))),
            changing=tuple(filter(_is_current, sorted(now.keys() - seen.keys()))),
        )
        finalize(look, opened.pop_all().close)
    with looking(look):
        yield look


def notes_of_looks() -> tuple[str, ...]:
    """Return a note for each directory that this process reads beside its broker."""
    return tuple(map(_note, looks()))


def _note(look: Look) -> str:
    gone, changing = counted(len(look.gone), "partition"), counted(len(look.changing), "partition")
    left_out = [f"{gone} went away" if look.gone else "", f"{changing} kept changing"]
    words = " and ".join(filter(None, left_out if look.changing else left_out[:1]))
    names = first_few([*look.gone, *look.changing], 3)
    return (
        f"{look.root} is read beside its running broker ({look.program}), as it was at "
        f"{instant(look.at_ms)}; "
        + (f"{words} meanwhile and count as not there: {names}" if words else "all of it was read")
    )


def _directories(log_dir: str, only: Collection[str] | None) -> dict[str, Entry]:
    """Return the directories of partitions, also of those that a broker is about to delete. Links
    are none: readers report them.
    """
    return {
        entry.name: entry
        for entry in _root(log_dir, only)
        if entry.is_dir and _kind(entry.name) is not None
    }


def _root(log_dir: str, only: Collection[str] | None) -> Sequence[Entry]:
    """Return the entries of a log directory; with `only`, these and the broker's own files."""
    if only is None:
        return _LOCAL.list_dir(log_dir)
    names = sorted({*only, META_PROPERTIES, *OFFSET_CHECKPOINTS})
    found = (entry_if_there(_LOCAL, f"{log_dir}/{name}") for name in names)
    return [entry for entry in found if entry is not None]


def _metadata_log_last(name: str) -> int:
    return int(name.startswith(f"{METADATA_TOPIC}-"))


def _is_current(name: str) -> bool:
    return _kind(name) is DirectoryKind.CURRENT


def _kind(name: str) -> DirectoryKind | None:
    """Return the kind of a directory of this name. None: it is not a partition's."""
    with suppress(UsageError):
        return parse_partition_dir(name).kind
    return None


class _ChangingError(Exception):
    """A partition changed at each look."""


class _Descriptors:
    """The files that this process holds open for a look, as many as the system lets it."""

    def __init__(self, opened: ExitStack) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        used = max(_LEAST_DESCRIPTOR, *map(int, os.listdir("/proc/self/fd")))
        self._left = max(0, soft - used - _SPARE_DESCRIPTORS)
        self._opened = opened

    def keep(self, descriptor: int) -> int | None:
        """Keep a descriptor open, or close it: then the file is read only while it has its name."""
        if self._left == 0:
            os.close(descriptor)
            return None
        self._left -= 1
        kept = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LEAST_DESCRIPTOR)
        os.close(descriptor)
        self._opened.callback(os.close, kept)
        return kept


def _whole(path: str) -> bytes | None:
    """Return a small file. None: there is none, or readers report what is wrong with it."""
    with suppress(OSError, CorruptLogError):
        return _LOCAL.read_bytes(path)
    return None


def _with_data(entry: Entry, data: bytes) -> SeenFile:
    return SeenFile(replace(entry, size=len(data)), data)


def _partition(path: str, log_dir: str, descriptors: _Descriptors) -> Mapping[str, SeenFile]:
    """Raises FileNotFoundError if it went away, and _ChangingError."""
    for _ in range(_ATTEMPTS):
        with ExitStack() as attempt:
            seen = _attempt(path, attempt)
            if seen is None:
                continue
            attempt.pop_all()  # all descriptors are kept
        return _as_stopped(path, log_dir, _kept(seen, descriptors))
    raise _ChangingError


def _kept(seen: Mapping[str, SeenFile], descriptors: _Descriptors) -> dict[str, SeenFile]:
    return {
        name: one
        if one.descriptor is None
        else replace(one, descriptor=descriptors.keep(one.descriptor))
        for name, one in seen.items()
    }


def _attempt(path: str, opened: ExitStack) -> dict[str, SeenFile] | None:
    """List, open, list again. None: closed segments changed meanwhile."""
    identity = _whole(f"{path}/{PARTITION_METADATA}")
    listed = _listed(path)
    active = max((name for name in listed if name.endswith(LOG)), default="").removesuffix(LOG)
    found: dict[str, SeenFile] = {}
    for name, entry in listed.items():
        at = f"{path}/{name}"
        if not entry.is_file:
            found[name] = SeenFile(entry)
        elif name in _READ_AT_ONCE:
            data = _whole(at)
            if data is None:
                return None
            found[name] = _with_data(entry, data)
        else:
            try:
                descriptor = open_file(at)
            except FileNotFoundError:
                return None
            except (OSError, CorruptLogError):
                found[name] = SeenFile(entry)  # readers report why
                continue
            opened.callback(os.close, descriptor)
            status = os.fstat(descriptor)
            grows = bool(active) and name.startswith(active) and not name.endswith(SNAPSHOT)
            if not grows and (status.st_size, status.st_ino) != (entry.size, entry.stamp[1]):
                return None
            found[name] = SeenFile(entry_of(name, status), descriptor=descriptor, grows=grows)
    again = _listed(path)
    same = listed.keys() == again.keys() and all(
        found[name].grows or name in _READ_AT_ONCE or entry.stamp[1:3] == again[name].stamp[1:3]
        for name, entry in listed.items()
        if entry.is_file
    )
    return found if same and _whole(f"{path}/{PARTITION_METADATA}") == identity else None


def _listed(path: str) -> dict[str, Entry]:
    """Return what is in a partition directory, but what the broker is about to remove."""
    entries = _LOCAL.list_dir(path)
    return {
        entry.name: entry
        for entry in entries
        if not entry.name.endswith(OF_THE_BROKER)
        and not entry.name.endswith(".tmp")
        # It was listed, and removed before it was looked at.
        and (entry.is_file or entry.is_dir or entry.is_link or entry.stamp)
    }


def _as_stopped(path: str, log_dir: str, seen: dict[str, SeenFile]) -> Mapping[str, SeenFile]:
    """Let the active segment end with its last whole batch, and its indexes with it."""
    bases = []
    for name in seen:
        with suppress(CorruptLogError):
            bases += [base_offset_of(name)] if name.endswith(LOG) else []
    if not bases:
        return seen
    base = max(bases)
    log = segment_file(base, LOG)
    provisional = Look(log_dir, os.getpid(), 0, {path: seen, log_dir: {}})
    storage = LookStorage(provisional)
    with suppress(OSError, CorruptLogError):  # readers report what is wrong with it
        end = _end_of_active(storage, path, base, seen)
        seen[log] = replace(seen[log], entry=replace(seen[log].entry, size=end.log_bytes))
        for suffix, data in ((INDEX, end.index), (TIMEINDEX, end.timeindex)):
            if (name := segment_file(base, suffix)) in seen:
                seen[name] = _with_data(seen[name].entry, data)
    return seen


@dataclass(frozen=True, slots=True)
class _End:
    """What a clean stop leaves of the active segment."""

    log_bytes: int
    index: bytes
    timeindex: bytes


def _end_of_active(
    storage: LookStorage, path: str, base: int, seen: Mapping[str, SeenFile]
) -> _End:
    log, size = f"{path}/{segment_file(base, LOG)}", seen[segment_file(base, LOG)].entry.size
    offsets = _entries(storage, path, seen, segment_file(base, INDEX), OFFSET_ENTRY_SIZE)
    index = np.frombuffer(offsets, OFFSET_ENTRY_ON_DISK)
    index = index[index["position"] < size]
    start, least = (int(index["position"][-1]), base) if len(index) else (0, base)
    end, last, largest, of_largest = start, base - 1, NO_TIMESTAMP, base
    for item in read_to_stop(storage, log, size=size, start=start, least_offset=least):
        if not isinstance(item, Piece):
            if not isinstance(item.error, TornLogError) or find_next(
                storage, log, item.position, size, last + 1, out_of_reach(base)
            ):
                raise item.error
            break
        rows = item.rows
        end = item.position(len(rows) - 1) + int(rows["size"][-1])
        last = int(rows["last_offset"][-1])
        at = int(rows["max_timestamp"].argmax())
        if rows["max_timestamp"][at] > largest:
            largest, of_largest = int(rows["max_timestamp"][at]), int(rows["last_offset"][at])
    index = index[(index["position"] < end) & (base + index["relative_offset"] <= last)]
    written = _entries(storage, path, seen, segment_file(base, TIMEINDEX), TIME_ENTRY_SIZE)
    times = np.frombuffer(written, TIME_ENTRY_ON_DISK)
    times = times[base + times["relative_offset"].astype(np.int64) <= last]
    newest = int(times["timestamp"][-1]) if len(times) else NO_TIMESTAMP
    timeindex = times.tobytes()
    if largest > newest:  # a clean stop adds it
        timeindex += np.array([(largest, of_largest - base)], TIME_ENTRY_ON_DISK).tobytes()
    return _End(end, index.tobytes(), timeindex)


def _entries(
    storage: LookStorage, path: str, seen: Mapping[str, SeenFile], name: str, entry_size: int
) -> bytes:
    """Return the whole entries of an index of the active segment."""
    if name not in seen:
        return b""
    data = written_entries(storage.read_bytes(f"{path}/{name}"), entry_size)
    return data[: len(data) - len(data) % entry_size]
