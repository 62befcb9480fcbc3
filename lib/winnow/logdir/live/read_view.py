"""Open a read view of a log directory while its broker runs: each partition as of one moment, as a
clean stop would have left it (S8.11).

Work in progress of the broker is left out: files that it rewrites, replaces or deletes (`.cleaned`,
`.swap`, `.deleted`), bytes after the last whole batch of the active segment, later entries of its
indexes, and preallocated bytes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from weakref import finalize

from winnow.clock import now_ms
from winnow.errors import UsageError
from winnow.logdir.live.broker import RunningBroker
from winnow.logdir.live.partition import (
    ATTEMPTS,
    ChangingError,
    Descriptors,
    open_partition,
    small_content,
)
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    DirectoryKind,
    parse_partition_dir,
)
from winnow.storage.contract import Entry, entry_if_there
from winnow.storage.live.read_view import (
    Files,
    ReadView,
    ViewedFile,
    reading,
    views,
    with_content,
)
from winnow.storage.local import LocalStorage
from winnow.words import counted, first_few, instant

_LOCAL = LocalStorage()


@contextmanager
def open_read_view(
    log_dir: str,
    broker: RunningBroker | None,
    *,
    only: Collection[str] | None = None,
    staging: str = "",
) -> Iterator[ReadView]:
    """Open a read view of a log directory, and read through the view inside the block. A view that
    is kept can be used again later (`winnow.storage.live.read_view.reading`).

    `broker`: None if there is none; one may start. `only`: names of partition directories; others
    are not read. `staging`: see `ReadView.staging`.
    """
    checkpoints = {name: small_content(f"{log_dir}/{name}") for name in OFFSET_CHECKPOINTS}
    with ExitStack() as opened:
        found = _read_partitions(log_dir, only, Descriptors(opened))
        root = {
            entry.name: with_content(entry, checkpoints.get(entry.name))
            for entry in _root(log_dir, only)
            if not entry.is_dir or _kind(entry.name) is None or entry.name in found.partitions
        }
        marker = Entry(CLEAN_SHUTDOWN, is_file=True, mtime_ns=now_ms() * 1_000_000)
        root[CLEAN_SHUTDOWN] = ViewedFile(marker, b"")
        partitions = {
            f"{log_dir}/{name}": dict(sorted(files.items()))
            for name, files in found.partitions.items()
            if name in root
        }
        view = ReadView(
            root=log_dir,
            pid=os.getpid(),
            at_ms=now_ms(),
            directories={log_dir: dict(sorted(root.items())), **partitions},
            program="" if broker is None else broker.program,
            started_ms=None if broker is None else broker.started_ms,
            properties=None if broker is None else broker.properties,
            staging=staging,
            gone=found.gone,
            changing=found.changing,
        )
        finalize(view, opened.pop_all().close)
    with reading(view):
        yield view


def view_notes() -> tuple[str, ...]:
    """Return a note for each log directory that this process reads while its broker runs."""
    return tuple(map(_note, views()))


def _note(view: ReadView) -> str:
    left_out = []
    if view.gone:
        left_out.append(f"{counted(len(view.gone), 'partition')} went away")
    if view.changing:
        left_out.append(f"{counted(len(view.changing), 'partition')} kept changing")
    names = first_few([*view.gone, *view.changing], 3)
    what = f"{' and '.join(left_out)} meanwhile and count as not there: {names}"
    beside = f" beside its running broker ({view.program})" if view.program else ""
    return (
        f"{view.root} is read{beside}, as it was at {instant(view.at_ms)}; "
        f"{what if left_out else 'all of it was read'}"
    )


@dataclass(slots=True)
class _Found:
    partitions: dict[str, Files] = field(default_factory=dict)
    """By the name of the directory."""
    gone: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()


def _read_partitions(
    log_dir: str, only: Collection[str] | None, descriptors: Descriptors
) -> _Found:
    """Read all partitions. The metadata log is read after the others, between two listings with the
    same partitions: it knows each of them, and no other.
    """
    found, changing = _Found(), set[str]()
    first = now = _directories(log_dir, only)
    for _ in range(ATTEMPTS):
        for name in sorted(now, key=_is_metadata_log):
            if name in found.partitions and not _is_metadata_log(name):
                continue
            try:
                found.partitions[name] = open_partition(log_dir, name, descriptors)
                changing.discard(name)
            except (FileNotFoundError, NotADirectoryError):
                found.partitions.pop(name, None)
            except ChangingError:
                changing.add(name)
        before, now = now, _directories(log_dir, only)
        for name in before.keys() & now.keys():
            if now[name].inode != before[name].inode:
                found.partitions.pop(name, None)  # another topic of the same name
        if now.keys() == before.keys() and now.keys() <= found.partitions.keys() | changing:
            break
    read = found.partitions
    found.gone = tuple(filter(_is_current, sorted(first.keys() - now.keys())))
    found.changing = tuple(filter(_is_current, sorted(now.keys() - read.keys())))
    found.partitions = {name: files for name, files in read.items() if name in now}
    return found


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


def _is_metadata_log(name: str) -> bool:
    return name.startswith(f"{METADATA_TOPIC}-")


def _is_current(name: str) -> bool:
    return _kind(name) is DirectoryKind.CURRENT


def _kind(name: str) -> DirectoryKind | None:
    """Return the kind of a directory of this name. None: it is not a partition's."""
    with suppress(UsageError):
        return parse_partition_dir(name).kind
    return None
