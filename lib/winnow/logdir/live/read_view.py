"""Open read views of log directories while their broker runs: each partition as of one moment, as a
clean stop would have left it (S8.11).

Work in progress of the broker is left out: files that it rewrites, replaces or deletes (`.cleaned`,
`.swap`, `.deleted`), bytes after the last whole batch of the active segment, later entries of its
indexes, and preallocated bytes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from weakref import finalize

from winnow.clock import now_ms
from winnow.errors import UsageError, WinnowError
from winnow.logdir.live.active_segment import Stopped
from winnow.logdir.live.broker import RunningBroker
from winnow.logdir.live.checkpoints import as_written_next, read_checkpoints
from winnow.logdir.live.partition import (
    ATTEMPTS,
    ChangingError,
    Descriptors,
    open_partition,
    small_content,
)
from winnow.logdir.meta import read_meta
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    DirectoryKind,
    parse_partition_dir,
)
from winnow.storage.contract import Entry, entry_if_there
from winnow.storage.live.read_view import (
    ReadView,
    ViewedFile,
    reading,
    views,
    with_content,
)
from winnow.storage.local import LocalStorage
from winnow.words import counted, first_few, instant

_LOCAL = LocalStorage()
_WITH_CHECKPOINTS = (DirectoryKind.CURRENT, DirectoryKind.FUTURE)


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
        The views.
    """
    checkpoints = {log_dir: read_checkpoints(log_dir) for log_dir in brokers}
    with ExitStack() as opened:
        descriptors = Descriptors(opened)
        made = []
        for log_dirs in _of_one_broker(brokers):
            found = _read_partitions(log_dirs, only, descriptors)
            for log_dir in log_dirs:
                broker, contents = brokers[log_dir], dict[str, bytes | None]()
                for name, checkpoint in checkpoints[log_dir].items():
                    ends = {} if broker is None else _ends(log_dir, found, checkpoint.written_ns)
                    contents[name] = as_written_next(checkpoint, ends)
                root = {
                    entry.name: with_content(entry, contents.get(entry.name))
                    for entry in _root(log_dir, only.get(log_dir))
                    if not entry.is_dir or _kind(entry.name) is None
                }
                view = _view(log_dir, broker, root, found)
                made.append(replace(view, staging=staging))
        finalize(descriptors, opened.pop_all().close)
        for view in made:
            finalize(view, id, descriptors)  # keeps them open until the last view is gone
    with reading(*made):
        yield (*made,)


def _view(
    log_dir: str, broker: RunningBroker | None, root: dict[str, ViewedFile], found: _Found
) -> ReadView:
    marker = Entry(CLEAN_SHUTDOWN, is_file=True, mtime_ns=now_ms() * 1_000_000)
    own = {path: it for path, it in found.partitions.items() if os.path.dirname(path) == log_dir}
    partitions = {path: dict(sorted(one.files.items())) for path, (_, one) in own.items()}
    root = root | {entry.name: ViewedFile(entry) for entry, _ in own.values()}
    root |= {CLEAN_SHUTDOWN: ViewedFile(marker, b"")}
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
    """By the paths of partition directories."""

    partitions: Mapping[str, tuple[Entry, Stopped]]
    gone: Sequence[str]
    changing: Sequence[str]


def _read_partitions(
    log_dirs: Sequence[str], only: Mapping[str, Collection[str]], descriptors: Descriptors
) -> _Found:
    """Read all partitions in the log directories of a broker, each once, wherever the broker moves
    it. The metadata log is read after the others, between two listings with the same partitions: it
    knows each of them, and no other.
    """
    read: dict[str, tuple[str, Stopped]] = {}
    """By `_key`: the directory that was read."""
    changing = set[str]()
    first = now = _directories(log_dirs, only)
    entries = dict(first)
    for _ in range(ATTEMPTS):
        for path in sorted(now, key=_is_metadata_log):
            if _key(path) in read and not _is_metadata_log(path):
                continue
            try:
                read[_key(path)] = path, open_partition(path, descriptors)
                changing.discard(_key(path))
            except (FileNotFoundError, NotADirectoryError):
                read.pop(_key(path), None)
            except ChangingError:
                changing.add(_key(path))
        before, now = now, _directories(log_dirs, only)
        places, earlier = {_key(path): path for path in now}, {*map(_key, before)}
        for key, (path, one) in [*read.items()]:
            # In one of the listings alone, it may be on its way between two directories.
            is_gone = key not in places and key not in earlier
            if is_gone or (key in places and _is_another(one, entries[path], places[key], now)):
                del read[key]
        entries |= {path: entry for path, entry in now.items() if _key(path) not in read}
        if {*places} == earlier and {*places} <= read.keys() | changing:
            break
    partitions = {path: (entries[path], one) for path, one in read.values()}
    for path in _doubled(first, now):
        with suppress(FileNotFoundError, NotADirectoryError, ChangingError):
            partitions[path] = now[path], open_partition(path, descriptors)
    return _Found(
        partitions,
        gone=sorted(
            path for path in first if _is_current(path) and _key(path) not in {*places, *read}
        ),
        changing=sorted(path for path in now if _is_current(path) and _key(path) not in read),
    )


def _key(path: str) -> str:
    """Return what a partition directory is known by: its name, wherever it is. A metadata log is
    known by its path: one that the broker does not use may be in another log directory.
    """
    return path if _is_metadata_log(path) else os.path.basename(path)


def _is_another(read: Stopped, entry: Entry, path: str, now: Mapping[str, Entry]) -> bool:
    """Return whether a directory is that of another topic than the one of this name that was read.
    A broker that moves a partition makes another directory of the same topic.
    """
    if now[path].inode == entry.inode:
        return False
    metadata = read.files.get(PARTITION_METADATA)
    return metadata is None or small_content(f"{path}/{PARTITION_METADATA}") != metadata.data


def _doubled(first: Mapping[str, Entry], now: Mapping[str, Entry]) -> list[str]:
    """Return the directories that a partition has beside one another all the time, as no broker
    makes them.
    """
    same = [path for path in now if path in first and first[path].inode == now[path].inode]
    counts = Counter(map(_key, same))
    return [path for path in same if counts[_key(path)] > 1]


def _of_one_broker(log_dirs: Iterable[str]) -> list[list[str]]:
    """Return the log directories of each broker together."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for log_dir in log_dirs:
        key: tuple[object, ...] = (log_dir,)
        with suppress(OSError, WinnowError):  # readers report why
            meta = read_meta(_LOCAL, log_dir)
            if None not in (meta.cluster_id, meta.node_id):
                key = (meta.cluster_id, meta.node_id)
        groups.setdefault(key, []).append(log_dir)
    return [*groups.values()]


def _ends(log_dir: str, found: _Found, written_ns: int) -> dict[bytes, int]:
    """Return the log end offsets, by name of the partition, of the logs in a log directory that
    were written to since a time.
    """
    ends: dict[bytes, int] = {}
    for path, (_, partition) in found.partitions.items():
        parent, _, name = path.rpartition("/")
        end, is_newer = partition.end_offset, partition.written_ns >= written_ns
        if parent == log_dir and end is not None and is_newer and _kind(name) in _WITH_CHECKPOINTS:
            ends[os.fsencode(str(parse_partition_dir(name).topic_partition))] = end
    return ends


def _names_in(log_dir: str, paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(os.path.basename(path) for path in paths if os.path.dirname(path) == log_dir)


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
