"""What a path is that is not a log directory, and which log directories are near it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import javaproperties

from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.names import CLEAN_SHUTDOWN, LOG, META_PROPERTIES, topic_partition_of
from winnow.storage.contract import Entry, Storage
from winnow.words import counted, moment, size

_DEPTH = 2
_MOST_LISTED = 2_000
"""Directories that are listed at most, so that a wrong path costs seconds, not hours."""
_MOST_NAMED = 10
_MOST_BYTES = 65_536
_SERVER_PROPERTIES = "server.properties"
_DIRS = ("log.dirs", "log.dir")


FILE = "a file"
PARENT = "a parent of log directories"
PARTITION = "the directory of a partition"


def what_is_at(storage: Storage, path: str) -> tuple[str, str]:
    """Return what is at a path that is not a log directory, and which directory to give instead."""
    try:
        entry = storage.entry(path)
        if not entry.is_dir:
            return FILE, _of_file(storage, path)
        entries = storage.list_dir(path)
    except FileNotFoundError:
        return "no such directory", "Is the path right, and is its disk mounted?"
    except FAILS_ONE_PARTITION as error:
        return f"it can't be listed ({error})", "Run as the user of the broker, or as root."
    parent = path.rpartition("/")[0]
    if topic_partition_of(path.rpartition("/")[2]) and _is_log_dir(storage, parent):
        return PARTITION, f"Give its log directory: {parent}"
    return _near(storage, path, entries)


def _near(storage: Storage, path: str, entries: tuple[Entry, ...]) -> tuple[str, str]:
    below = sorted(_Search(storage).below(path, entries, _DEPTH), key=lambda one: -one.written_ms)
    if below:
        named = "; ".join(map(str, below[:_MOST_NAMED]))
        more = f"; and {len(below) - _MOST_NAMED} more" if len(below) > _MOST_NAMED else ""
        return PARENT, (
            f"{counted(len(below), 'log directory')} below it, the last written first: {named}"
            f"{more}. Give the directories of one broker"
        )
    files = (f"{path}/{_SERVER_PROPERTIES}", f"{path}/config/{_SERVER_PROPERTIES}")
    named_dirs = next(filter(None, (_log_dirs_in(storage, file) for file in files)), None)
    if named_dirs is not None:
        return "none", f"Its {_SERVER_PROPERTIES} has {named_dirs}"
    return "none", "Give the directories of log.dirs, not a parent and not a partition."


@dataclass(frozen=True, slots=True)
class _Below:
    path: str
    node_id: str
    cluster_id: str
    written_ms: int
    log_bytes: int
    is_whole: bool
    is_clean: bool

    def __str__(self) -> str:
        least = "" if self.is_whole else "at least "
        written = f"last written {moment(self.written_ms)}" if self.written_ms else "never written"
        state = "shut down cleanly" if self.is_clean else "not shut down cleanly"
        return (
            f"{self.path} (node {self.node_id}, cluster {self.cluster_id}, {written}, {least}"
            f"{size(self.log_bytes)} of logs, {state})"
        )


class _Search:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._left = _MOST_LISTED

    def below(self, path: str, entries: tuple[Entry, ...], depth: int) -> Iterator[_Below]:
        """Yield the log directories below. Links are not followed."""
        for entry in entries if depth else ():
            if not entry.is_dir:
                continue
            inner = f"{path}/{entry.name}"
            found = self._list(inner)
            if any(one.is_file and one.name == META_PROPERTIES for one in found):
                yield self._described(inner, found)
            else:
                yield from self.below(inner, found, depth - 1)

    def _list(self, path: str) -> tuple[Entry, ...]:
        if self._left:
            self._left -= 1
            with suppress(FAILS_ONE_PARTITION):
                return self._storage.list_dir(path)
        return ()

    def _described(self, path: str, entries: tuple[Entry, ...]) -> _Below:
        meta = _properties(self._storage, f"{path}/{META_PROPERTIES}")
        logs: list[Entry] = []
        for entry in entries:
            if entry.is_dir:
                inside = self._list(f"{path}/{entry.name}")
                logs += [one for one in inside if one.is_file and one.name.endswith(LOG)]
        files = [entry for entry in entries if entry.is_file and entry.name != META_PROPERTIES]
        return _Below(
            path,
            node_id=meta.get("node.id") or meta.get("broker.id") or "unknown",
            cluster_id=meta.get("cluster.id", "unknown"),
            written_ms=max((entry.mtime_ms for entry in (*files, *logs)), default=0),
            log_bytes=sum(log.size for log in logs),
            is_whole=self._left > 0,
            is_clean=any(entry.name == CLEAN_SHUTDOWN for entry in files),
        )


def _of_file(storage: Storage, path: str) -> str:
    named = _log_dirs_in(storage, path)
    if named is not None:
        return f"It has {named}. Give these directories, and the file as --server-properties"
    parent = path.rpartition("/")[0]
    for directory in (parent, parent.rpartition("/")[0]):
        if _is_log_dir(storage, directory):
            return f"Give its log directory: {directory}"
    return "Give the directories of log.dirs."


def _is_log_dir(storage: Storage, path: str) -> bool:
    with suppress(FAILS_ONE_PARTITION):
        return storage.exists(f"{path}/{META_PROPERTIES}")
    return False


def _log_dirs_in(storage: Storage, path: str) -> str | None:
    properties = _properties(storage, path)
    key = next((key for key in _DIRS if properties.get(key)), None)
    return None if key is None else f"{key}={properties[key]}"


def _properties(storage: Storage, path: str) -> dict[str, str]:
    with suppress(FAILS_ONE_PARTITION):
        data = storage.read_range(path, 0, _MOST_BYTES)
        return dict(javaproperties.loads(data.decode("latin-1")))
    return {}
