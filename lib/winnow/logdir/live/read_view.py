"""Open read views of log directories while their broker runs: each partition as of one moment, as a
clean stop would have left it (S8.11).

Work in progress of the broker is left out: files that it rewrites, replaces or deletes (`.cleaned`,
`.swap`, `.deleted`), bytes after the last whole batch of the active segment, later entries of its
indexes, and preallocated bytes.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from weakref import finalize

from winnow.clock import now_ms
from winnow.errors import UsageError
from winnow.logdir.live.broker import RunningBroker
from winnow.logdir.live.partition import (
    ATTEMPTS,
    PAUSE_SECONDS,
    ChangingError,
    Descriptors,
    is_same,
    may_grow,
    open_partition,
    small_content,
)
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    LOG,
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
    open_viewed,
    reading,
    view_of,
    views,
    with_content,
)
from winnow.storage.local import LocalStorage, entry_of
from winnow.words import counted, first_few, instant

_LOCAL = LocalStorage()


@contextmanager
def open_read_views(
    brokers: Mapping[str, RunningBroker | None],
    *,
    only: Mapping[str, Collection[str]] = MappingProxyType({}),
    staging: str = "",
) -> Iterator[tuple[ReadView, ...]]:
    """Open a read view of each log directory, and read through the views inside the block. Views
    that are kept can be used again later (`winnow.storage.live.read_view.reading`).

    The log directories of one broker belong together: the broker moves partitions between them. A
    partition is in one of the views, and the metadata log knows the partitions of all of them.

    Args:
        brokers: By log directory, the broker that runs there. None: there is none, and one may
            start.
        only: By log directory, names of partition directories. Others of that log directory are not
            read.
        staging: See `ReadView.staging`.

    Yields:
        The views, in the order of `brokers`.
    """
    checkpoints = {
        log_dir: {name: small_content(f"{log_dir}/{name}") for name in OFFSET_CHECKPOINTS}
        for log_dir in brokers
    }
    with ExitStack() as opened:
        descriptors = Descriptors(opened)
        found = _read_partitions([*brokers], only, descriptors)
        made = []
        for log_dir, broker in brokers.items():
            root = {
                entry.name: with_content(entry, checkpoints[log_dir].get(entry.name))
                for entry in _root(log_dir, only.get(log_dir))
                if not entry.is_dir
                or _kind(entry.name) is None
                or f"{log_dir}/{entry.name}" in found.partitions
            }
            made.append(replace(_view(log_dir, broker, root, found), staging=staging))
        finalize(descriptors, opened.pop_all().close)
        for view in made:
            finalize(view, id, descriptors)  # keeps them open until the last view is gone
    with reading(*made):
        yield (*made,)


def _view(
    log_dir: str, broker: RunningBroker | None, root: dict[str, ViewedFile], found: _Found
) -> ReadView:
    marker = Entry(CLEAN_SHUTDOWN, is_file=True, mtime_ns=now_ms() * 1_000_000)
    partitions = {
        path: dict(sorted(files.items()))
        for path, files in found.partitions.items()
        if os.path.dirname(path) == log_dir and os.path.basename(path) in root
    }
    root = root | {CLEAN_SHUTDOWN: ViewedFile(marker, b"")}
    return ReadView(
        root=log_dir,
        pid=os.getpid(),
        at_ms=now_ms(),
        directories={log_dir: dict(sorted(root.items())), **partitions},
        program="" if broker is None else broker.program,
        started_ms=None if broker is None else broker.started_ms,
        properties=None if broker is None else broker.properties,
        gone=_names_in(log_dir, found.gone),
        changing=_names_in(log_dir, found.changing),
    )


def changed_since_view(directory: str) -> bool:
    """Return whether a partition that is read through a read view has files that were changed in
    place, or can't be read any more, since the view was opened: a follower has truncated its log.
    Reads may then have met bytes of two moments. Without a read view: False.
    """
    view = view_of(directory)
    if view is None:
        return False
    viewed = view.directories.get(directory, {})
    active = max((name for name in viewed if name.endswith(LOG)), default="").removesuffix(LOG)
    for name, file in viewed.items():
        path = f"{directory}/{name}"
        if file.data is not None:
            if small_content(path) not in (file.data, None):
                return True
            continue
        if not file.entry.is_file:
            continue
        try:
            descriptor = open_viewed(view, path, file)
        except OSError as error:
            if error.errno == errno.ESTALE:
                return True
            continue  # readers report why
        try:
            now = entry_of(name, os.fstat(descriptor))
        finally:
            os.close(descriptor)
        if may_grow(name, active):
            if name.endswith(LOG) and now.size < file.bytes_in_file:
                return True
        elif not is_same(now, file.entry):
            return True
    return False


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


@dataclass(frozen=True, slots=True)
class _Found:
    """Paths of partition directories."""

    partitions: Mapping[str, Files]
    gone: Sequence[str]
    changing: Sequence[str]


def _read_partitions(
    log_dirs: Sequence[str], only: Mapping[str, Collection[str]], descriptors: Descriptors
) -> _Found:
    """Read all partitions. The metadata log is read after the others, between two listings with the
    same partitions, each in one log directory: it knows each of them, and no other.
    """
    read: dict[str, Files] = {}
    changing = set[str]()
    first = now = _directories(log_dirs, only)
    for _ in range(ATTEMPTS):
        for path in sorted(now, key=_is_metadata_log):
            if path in read and not _is_metadata_log(path):
                continue
            try:
                read[path] = open_partition(path, descriptors)
                changing.discard(path)
            except (FileNotFoundError, NotADirectoryError):
                read.pop(path, None)
            except ChangingError:
                changing.add(path)
        before, now = now, _directories(log_dirs, only)
        for path in before.keys() & now.keys():
            if now[path].inode != before[path].inode:
                read.pop(path, None)  # another topic of the same name
        if _is_in_two(now):  # as for an instant while a broker ends a move
            time.sleep(PAUSE_SECONDS)
        elif now.keys() == before.keys() and now.keys() <= read.keys() | changing:
            break
    there = {os.path.basename(path) for path in now}
    gone = (path for path in first.keys() - now.keys() if os.path.basename(path) not in there)
    return _Found(
        partitions={path: files for path, files in read.items() if path in now},
        gone=sorted(filter(_is_current, gone)),
        changing=sorted(filter(_is_current, now.keys() - read.keys())),
    )


def _names_in(log_dir: str, paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(os.path.basename(path) for path in paths if os.path.dirname(path) == log_dir)


def _is_in_two(paths: Collection[str]) -> bool:
    """Return whether a partition, but that of the metadata log, is in two log directories."""
    names = [os.path.basename(path) for path in paths if not _is_metadata_log(path)]
    return len({*names}) < len(names)


def _directories(log_dirs: Sequence[str], only: Mapping[str, Collection[str]]) -> dict[str, Entry]:
    """Return the directories of partitions, by path, also of those that a broker is about to
    delete. Links are none: readers report them.
    """
    return {
        f"{log_dir}/{entry.name}": entry
        for log_dir in log_dirs
        for entry in _root(log_dir, only.get(log_dir))
        if entry.is_dir and _kind(entry.name) is not None
    }


def _root(log_dir: str, only: Collection[str] | None) -> Sequence[Entry]:
    """Return the entries of a log directory; with `only`, these and the broker's own files."""
    if only is None:
        return _LOCAL.list_dir(log_dir)
    names = sorted({*only, META_PROPERTIES, *OFFSET_CHECKPOINTS})
    found = (entry_if_there(_LOCAL, f"{log_dir}/{name}") for name in names)
    return [entry for entry in found if entry is not None]


def _is_metadata_log(path: str) -> bool:
    return os.path.basename(path).startswith(f"{METADATA_TOPIC}-")


def _is_current(path: str) -> bool:
    return _kind(os.path.basename(path)) is DirectoryKind.CURRENT


def _kind(name: str) -> DirectoryKind | None:
    """Return the kind of a directory of this name. None: it is not a partition's."""
    with suppress(UsageError):
        return parse_partition_dir(name).kind
    return None
