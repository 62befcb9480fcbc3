"""Count what takes the space of log directories, as `df` counts it. Lists directories and reads
sizes; reads files only to find the zeros at the end of indexes that take blocks.

No link is followed, except to list the directory that it names. A tree is counted to a limited
depth, and each inode once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from winnow.errors import FAILS_ONE_PARTITION, UsageError
from winnow.logdir.commit.leftovers import is_preparation
from winnow.logdir.indexes.zeros import zeros_of
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    CLEANED,
    DELETED,
    INDEX_SUFFIXES,
    KEPT_PREFIX,
    LEADER_EPOCHS,
    LOCK,
    LOG,
    META_PROPERTIES,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    QUARANTINE_PREFIX,
    REMOTE_INDEX_CACHE,
    SNAPSHOT,
    SWAP,
    UNFINISHED,
    DirectoryKind,
    is_staging,
    parse_partition_dir,
)
from winnow.logdir.survey import LogDir
from winnow.storage.contract import Entry, Storage
from winnow.storage.links import link_target
from winnow.verbs.doctor.space import DiskUse, OtherVolume, SpaceKind, Use, Zeros
from winnow.verbs.doctor.values import INDEX_ZEROS, Gain

_SECONDS = 0.01
"""Time to recover a log that ends well, but for reading it."""
_MAX_DEPTH = 16
"""Directories below the log directory. Kafka and Winnow need three."""
_MAX_LISTED = 1_000_000
"""Entries that are listed in directories that neither Kafka nor Winnow makes."""
_SMALL = frozenset(
    (
        *(CLEAN_SHUTDOWN, LEADER_EPOCHS, LOCK, META_PROPERTIES, PARTITION_METADATA, UNFINISHED),
        "bootstrap.checkpoint",
        *OFFSET_CHECKPOINTS,
    )
)
_MARKED = {
    DirectoryKind.DELETE: SpaceKind.DELETE,
    DirectoryKind.FUTURE: SpaceKind.FUTURE,
    DirectoryKind.STRAY: SpaceKind.STRAY,
}
_BY_SUFFIX = (
    ((DELETED, CLEANED, SWAP), SpaceKind.LEFTOVERS),
    ((LOG,), SpaceKind.LOGS),
    (INDEX_SUFFIXES, SpaceKind.INDEXES),
    ((SNAPSHOT,), SpaceKind.SNAPSHOTS),
)


def disk_use(storage: Storage, log_dirs: Sequence[str]) -> tuple[DiskUse, ...]:
    """Return what takes the space of each log directory, in the same order."""
    seen = set[tuple[int, ...]]()
    counts = [_Count(storage, path, seen) for path in log_dirs]
    volumes = [storage.volume(path) for path in log_dirs]
    for count in counts:
        count.take()
    found = []
    for count, volume in zip(counts, volumes, strict=True):
        same = [c for c, v in zip(counts, volumes, strict=True) if v.key == volume.key]
        found.append(
            DiskUse(
                log_dir=count.path,
                uses=count.uses,
                index_zeros=count.zeros,
                elsewhere=tuple(count.elsewhere),
                outside_bytes=_rest(volume.used_bytes, (c.bytes for c in same)),
                outside_inodes=_rest(volume.used_files, (c.inodes for c in same)),
                uncounted=tuple(count.uncounted),
            )
        )
    return tuple(found)


def gain_of_zeros(space: Sequence[DiskUse], log_dirs: Sequence[LogDir]) -> Iterator[Gain]:
    """Yield what `recover --truncate` frees of the zeros at the end of indexes. It works where the
    broker did not shut down cleanly.
    """
    found = [
        use.index_zeros
        for use, log_dir in zip(space, log_dirs, strict=True)
        if not log_dir.clean_shutdown and use.index_zeros.bytes
    ]
    if found:
        many = sum(one.partitions for one in found)
        freed = sum(one.bytes for one in found)
        yield Gain(
            what=INDEX_ZEROS,
            partitions=many,
            freed_bytes=freed,
            freed_inodes=0,
            seconds=_SECONDS * many,
        )


def _rest(used: int | None, counted: Iterator[int]) -> int | None:
    return None if used is None else max(used - sum(counted), 0)


@dataclass(slots=True)
class _Sum:
    count: int = 0
    bytes: int = 0
    apparent_bytes: int = 0
    inodes: int = 0


class _Count:
    """Counts one log directory. `seen`: inodes that are counted already, of all directories."""

    def __init__(self, storage: Storage, path: str, seen: set[tuple[int, ...]]) -> None:
        self.path = path
        self.zeros = Zeros()
        self.elsewhere: list[OtherVolume] = []
        self.uncounted: list[str] = []
        self._storage, self._seen = storage, seen
        self._device: tuple[int, ...] = ()
        self._sums = defaultdict[SpaceKind, _Sum](_Sum)
        self._left = _MAX_LISTED

    @property
    def uses(self) -> tuple[Use, ...]:
        return tuple(
            Use(
                kind=kind,
                count=one.count,
                bytes=one.bytes,
                apparent_bytes=one.apparent_bytes,
                inodes=one.inodes,
            )
            for kind in SpaceKind
            if (one := self._sums.get(kind)) is not None
        )

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self._sums.values())

    @property
    def inodes(self) -> int:
        return sum(one.inodes for one in self._sums.values())

    def take(self) -> None:
        entry = self._storage.entry(self.path)
        self._device = entry.inode[:1]
        self._add(SpaceKind.SMALL, entry)
        for name in self._list(self.path):
            self._top(name)

    def _top(self, entry: Entry) -> None:
        path = f"{self.path}/{entry.name}"
        if not entry.is_dir:
            self._file(entry, path, SpaceKind.SMALL if _is_small(entry.name) else SpaceKind.OTHER)
            return
        if entry.name == REMOTE_INDEX_CACHE:
            self._tree(entry, path, SpaceKind.REMOTE_INDEX_CACHE)
            return
        try:
            parsed = parse_partition_dir(entry.name)
        except UsageError:
            self._tree(entry, path, SpaceKind.OTHER)
            return
        kind = _MARKED.get(parsed.kind)
        if (
            kind is None
            and parsed.topic_partition
            and (parsed.topic_partition.topic == METADATA_TOPIC)
        ):
            kind = SpaceKind.METADATA_LOG
        if kind is None:
            self._partition(entry, path)
        else:
            self._tree(entry, path, kind)
            if kind is not SpaceKind.METADATA_LOG:
                self._sums[kind].count += 1

    def _partition(self, entry: Entry, path: str) -> None:
        if not self._enter(entry, path, SpaceKind.SMALL):
            return
        files = self._list(path)
        sizes = {file.name: file.size for file in files}
        zeros, indexes = 0, 0
        for file in files:
            at = f"{path}/{file.name}"
            if file.is_dir:
                self._tree(file, at, self._kind_of_directory(file.name, at))
                continue
            kind = _kind_of(file.name)
            self._file(file, at, kind)
            if kind is SpaceKind.INDEXES and file.is_file:
                log = sizes.get(f"{file.name.partition('.')[0]}{LOG}", 0)
                found = self._zeros(file, at, log)
                zeros, indexes = zeros + found, indexes + bool(found)
        if zeros:
            self.zeros = Zeros(
                partitions=self.zeros.partitions + 1,
                indexes=self.zeros.indexes + indexes,
                bytes=self.zeros.bytes + zeros,
            )

    def _kind_of_directory(self, name: str, path: str) -> SpaceKind:
        if name.startswith((KEPT_PREFIX, QUARANTINE_PREFIX)):
            return SpaceKind.KEPT
        if not is_staging(name):
            return SpaceKind.OTHER
        ready = is_preparation(self._storage, path)
        return SpaceKind.PREPARED if ready else SpaceKind.LEFTOVERS

    def _zeros(self, index: Entry, path: str, log_bytes: int) -> int:
        zeros = None
        with suppress(FAILS_ONE_PARTITION):  # `verify` gives the reason
            zeros = zeros_of(self._storage, path, index, log_bytes=log_bytes)
        return 0 if zeros is None else zeros.block_bytes

    def _tree(self, entry: Entry, path: str, kind: SpaceKind) -> None:
        """Count a directory and all below it. For FUTURE, DELETE and STRAY, `count` is left out."""
        files = kind not in _MARKED.values()
        waiting = [(entry, path, 1)]
        while waiting:
            entry, path, depth = waiting.pop()
            if not self._enter(entry, path, kind):
                continue
            if depth > _MAX_DEPTH or self._left <= 0:
                self.uncounted.append(path)
                continue
            below = self._list(path)
            self._left -= len(below)
            for one in below:
                at = f"{path}/{one.name}"
                if one.is_dir:
                    waiting.append((one, at, depth + 1))
                else:
                    self._file(one, at, kind, counts=files)

    def _enter(self, entry: Entry, path: str, kind: SpaceKind) -> bool:
        """Count a directory itself. Return whether to go into it."""
        if entry.inode and entry.inode in self._seen:
            return False
        if entry.inode[:1] != self._device:
            found = self._bytes_in(path)
            self.elsewhere.append(OtherVolume(name=self._name(path), target=None, bytes=found))
            return False
        self._add(kind, entry)
        return True

    def _file(self, entry: Entry, path: str, kind: SpaceKind, *, counts: bool = True) -> None:
        kind = SpaceKind.SMALL if entry.is_link else kind
        if self._add(kind, entry) and counts:
            self._sums[kind].count += 1
        if entry.is_link:
            try:
                target = link_target(path)
            except OSError:
                return
            found = self._bytes_in(target) if entry.leads_to_dir else self._bytes_of(target)
            self.elsewhere.append(OtherVolume(name=self._name(path), target=target, bytes=found))

    def _add(self, kind: SpaceKind, entry: Entry) -> bool:
        """Add what an entry takes, unless another name of its inode was added."""
        if entry.inode:
            if entry.inode in self._seen:
                return False
            self._seen.add(entry.inode)
        taken = self._sums[kind]
        taken.bytes += _allocated(entry)
        taken.apparent_bytes += entry.size if not entry.is_dir else _allocated(entry)
        taken.inodes += 1
        return True

    def _list(self, path: str) -> Sequence[Entry]:
        try:
            return self._storage.list_dir(path)
        except FAILS_ONE_PARTITION:
            self.uncounted.append(path)
            return ()

    def _bytes_in(self, path: str) -> int | None:
        """Return the bytes of the files right in a directory that may be anywhere."""
        try:
            found = self._storage.list_dir(self._storage.canonical(path))
        except FAILS_ONE_PARTITION:
            return None
        return sum(_allocated(entry) for entry in found if entry.is_file)

    def _bytes_of(self, path: str) -> int | None:
        try:
            return _allocated(self._storage.entry(self._storage.canonical(path)))
        except FAILS_ONE_PARTITION:
            return None

    def _name(self, path: str) -> str:
        return path.removeprefix(f"{self.path}/")


def _allocated(entry: Entry) -> int:
    return entry.size if entry.allocated is None else entry.allocated


def _is_small(name: str) -> bool:
    return name.removesuffix(".tmp") in _SMALL


def _kind_of(name: str) -> SpaceKind:
    """Return the kind of a file in a partition directory."""
    for suffixes, kind in _BY_SUFFIX:
        if name.endswith(suffixes):
            return kind
    return SpaceKind.SMALL if _is_small(name) else SpaceKind.OTHER
