"""The files of a partition directory that a loader opens: as they are on the disk, and after it has
finished an interrupted swap.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from winnow.errors import CorruptLogError, UnpredictedLoadError
from winnow.logdir.commit.recovery import in_range
from winnow.logdir.names import (
    CLEANED,
    DELETED,
    INDEX,
    INDEX_SUFFIXES,
    JAVA_INT,
    LOG,
    MAX_LONG,
    SNAPSHOT,
    SWAP,
    base_offset_of,
    seen,
    segment_file,
)
from winnow.start.segments import read_next_offset
from winnow.storage.contract import Entry, ReadOnly, Storage


class ListingCache(ReadOnly):
    """Reads of a storage that keep the last listing: all checks of a log see the same files, and
    only those that a broker sees.
    """

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._listed: tuple[str, tuple[Entry, ...]] | None = None

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        if self._listed is None or self._listed[0] != path:
            self._listed = path, tuple(seen(super().list_dir(path)))
        return self._listed[1]


@dataclass(frozen=True, slots=True)
class FinishedSwap:
    """What a loader does with `.swap` and `.cleaned` files before it opens segments (S6.3).

    It removes `.cleaned` files, and each `.swap` at or above the lowest of them. The other `.swap`
    files replace what is in their range. The range ends where the last of them ends, as
    `LogSegment.readNextOffset` reads it: no CRC is checked.
    """

    logs: tuple[str, ...]
    """The `.swap` logs that become segments, ascending."""
    dropped: tuple[str, ...]
    """The `.swap` logs that go, ascending."""
    end: int
    """Of the range that the `.swap` logs replace."""
    replaced: frozenset[str] = frozenset()
    """Files that go for the `.swap` files, or that these are renamed over."""
    removed: frozenset[str] = frozenset()
    """Files of an interrupted cleaning that go."""
    on_disk: Mapping[str, str] = field(default_factory=dict)
    """By name after the renames: the `.swap` file."""
    log_bytes_gone: int = 0
    """Bytes of the logs among `replaced` and `dropped`."""
    made: frozenset[str] = frozenset()
    """Offset indexes without entries. The loader makes them to find the end of a `.swap` log."""


def finished_swap(storage: Storage, directory: str) -> FinishedSwap | None:
    """Return what a loader does with the `.swap` files in a directory, or None if it has none.

    Raises CorruptLogError where the loader fails, and UnpredictedLoadError for a `.swap` or
    `.cleaned` file that is a link or has a name that no broker writes.
    """
    entries = storage.list_dir(directory)
    for entry in entries:
        if not entry.is_file and not entry.is_dir and entry.name.endswith((CLEANED, SWAP)):
            raise _not_a_file(entry.name, is_link=entry.is_link)
    sizes = {entry.name: entry.size for entry in entries if entry.is_file}
    swaps = sorted(name for name in sizes if name.endswith(SWAP))
    cleaned = [name for name in sizes if name.endswith(CLEANED)]
    lowest = min(map(_java_offset, cleaned), default=MAX_LONG)
    if not swaps:
        return None
    valid = [name for name in swaps if loader_offset(name) < lowest]
    logs = [name for name in valid if name.endswith(LOG + SWAP)]
    made = {
        index
        for name in logs
        if (index := segment_file(base_offset_of(name), INDEX)) + SWAP not in valid
    }
    first = base_offset_of(logs[0]) if logs else 0
    end = first
    for name in logs:
        index = segment_file(base_offset_of(name), INDEX)
        data = b"" if index in made else storage.read_bytes(f"{directory}/{index}{SWAP}")
        path = f"{directory}/{name}"
        end = max(end, read_next_offset(path, sizes[name], base_offset_of(name), data))
    on_disk = {name.removesuffix(SWAP): name for name in valid}
    others = {name for name in sizes if not name.endswith((SWAP, CLEANED, DELETED))}
    sources = {name for name in others if in_range(name, first, end)}
    replaced = sources | others & on_disk.keys()
    dropped = [name for name in swaps if name not in valid and name.endswith(LOG + SWAP)]
    gone = [*(name for name in replaced if name.endswith(LOG)), *dropped]
    return FinishedSwap(
        logs=tuple(logs),
        dropped=tuple(dropped),
        end=end,
        replaced=frozenset(replaced),
        log_bytes_gone=sum(sizes[name] for name in gone),
        removed=frozenset({*cleaned, *swaps} - {*valid}),
        on_disk=on_disk,
        made=frozenset(made),
    )


def loader_offset(name: str) -> int:
    """As `base_offset_of`. Raises UnpredictedLoadError for a number that a broker reads and never
    writes: it would look for the other files of the segment under other names.
    """
    try:
        return base_offset_of(name)
    except CorruptLogError as error:
        _java_offset(name)
        raise error.like(UnpredictedLoadError) from None


def _java_offset(name: str) -> int:
    """Return the offset in a name as `LogFileUtils.offsetFromFile` reads it. Raises CorruptLogError
    where a loader fails.
    """
    digits, dot, _ = name.partition(".")
    if dot and JAVA_INT.fullmatch(digits) and -MAX_LONG - 1 <= int(digits) <= MAX_LONG:
        return int(digits)
    return base_offset_of(name)


def _not_a_file(name: str, *, is_link: bool) -> CorruptLogError:
    return UnpredictedLoadError(
        "not a regular file",
        expected="a file",
        found="a symbolic link" if is_link else "something else",
        where=name,
        hint="A broker follows the link and uses the file. Put the file itself in the place of the "
        "link."
        if is_link
        else "No broker makes it. Find out who did, and move it elsewhere.",
    )


class Ascending:
    """Offsets in order. To add one at the end, or to remove one there, takes no longer if there are
    many.
    """

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._offsets = sorted(offsets)

    def __iter__(self) -> Iterator[int]:
        return iter(self._offsets)

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        place = self._place(offset)
        return place < len(self._offsets) and self._offsets[place] == offset

    @property
    def last(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def outside(self, after: int, upto: int) -> list[int]:
        """Return those that are not in (after, upto], ascending."""
        begin = bisect_right(self._offsets, after)
        end = max(begin, bisect_right(self._offsets, upto))
        return self._offsets[:begin] + self._offsets[end:]

    def add(self, offset: int) -> None:
        if offset not in self:
            self._offsets.insert(self._place(offset), offset)

    def discard(self, offset: int) -> None:
        if offset in self:
            del self._offsets[self._place(offset)]

    def _place(self, offset: int) -> int:
        return bisect_left(self._offsets, offset)


class PartitionFiles:
    """Lists the directory once. Raises CorruptLogError for a log, an index or a snapshot that is no
    regular file.

    New snapshots are kept here: nothing is written before the whole partition is planned.
    """

    def __init__(self, storage: Storage, directory: str, swap: FinishedSwap | None = None) -> None:
        entries = seen(storage.list_dir(directory))
        for entry in entries:
            if not entry.is_file and entry.name.endswith((LOG, *INDEX_SUFFIXES, SNAPSHOT)):
                raise _not_a_file(entry.name, is_link=entry.is_link)
        self._storage, self.directory = storage, directory
        found = {entry.name: entry.size for entry in entries if entry.is_file}
        self._on_disk: Mapping[str, str] = {} if swap is None else swap.on_disk
        self._made: Collection[str] = () if swap is None else swap.made
        gone: Collection[str] = ()
        if swap is not None:
            gone = {*swap.replaced, *swap.removed, *swap.on_disk.values()}
        self.sizes = {
            **{name: size for name, size in found.items() if name not in gone},
            **{name: found[swap_file] for name, swap_file in self._on_disk.items()},
            **dict.fromkeys(self._made, 0),
        }
        self.snapshots: dict[int, bytes | None] = {
            loader_offset(name): None for name in self.sizes if name.endswith(SNAPSHOT)
        }
        """The producer snapshots that a loader would have by now, by offset. None: the one on the
        disk.
        """
        self.snapshot_offsets = Ascending(self.snapshots)

    def write_snapshot(self, offset: int, data: bytes) -> None:
        self.snapshots[offset] = data
        self.snapshot_offsets.add(offset)

    def remove_snapshot(self, offset: int) -> None:
        self.snapshots.pop(offset, None)
        self.snapshot_offsets.discard(offset)

    def path(self, name: str) -> str:
        return f"{self.directory}/{self._on_disk.get(name, name)}"

    def read(self, name: str) -> bytes:
        return b"" if name in self._made else self._storage.read_bytes(self.path(name))

    def last_entry(self, name: str, entry_size: int) -> bytes:
        """Return the last whole entry of an index, which may be preallocated and large."""
        whole = self.sizes.get(name, 0) // entry_size * entry_size
        if name in self._made or not whole:
            return b""
        return self._storage.read_range(self.path(name), whole - entry_size, entry_size)

    def read_if_there(self, name: str) -> bytes:
        return self.read(name) if name in self.sizes else b""

    def snapshot(self, offset: int) -> bytes:
        written = self.snapshots.get(offset)
        return self.read(segment_file(offset, SNAPSHOT)) if written is None else written

    def differs(self, name: str, data: bytes) -> bool:
        return self.sizes.get(name) != len(data) or self.read(name) != data

    def orphans(self) -> tuple[str, ...]:
        return tuple(
            name
            for name in sorted(self.sizes)
            if name.endswith(INDEX_SUFFIXES)
            and segment_file(loader_offset(name), LOG) not in self.sizes
        )
