"""What takes the space of a file system, as values: by log directory and by kind of file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SpaceKind(StrEnum):
    """What a file belongs to. Each file is counted once."""

    LOGS = "logs"
    INDEXES = "indexes"
    SNAPSHOTS = "snapshots"
    """Producer snapshots."""
    LEFTOVERS = "leftovers"
    """`.deleted`, `.cleaned` and `.swap` files, and staging directories of Winnow."""
    PREPARED = "prepared"
    """Staging directories that `commit` may install."""
    KEPT = "kept"
    """What Winnow keeps: `.winnow-kept-*` and `.winnow-quarantine-*`."""
    FUTURE = "future"
    """Directories of replicas that were being moved here."""
    DELETE = "delete"
    """Directories of replicas that a broker was deleting."""
    STRAY = "stray"
    """Directories of replicas that a broker has set aside."""
    METADATA_LOG = "metadata_log"
    """`__cluster_metadata-0`."""
    REMOTE_INDEX_CACHE = "remote_index_cache"
    SMALL = "small"
    """Checkpoints and other small files of a broker, and the directories themselves."""
    OTHER = "other"
    """All others: neither Kafka nor Winnow makes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What the files of one kind take."""

    kind: SpaceKind
    count: int
    """Directories for FUTURE, DELETE and STRAY; files for other kinds."""
    bytes: int
    """Of the blocks that they take, as `df` counts them."""
    apparent_bytes: int
    """The sum of their sizes: more than `bytes` for sparse files."""
    inodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Zeros:
    """Zeros at the end of indexes, which a broker preallocates and cuts when it stops. Counted only
    where they take blocks: most of such an index is a hole.
    """

    partitions: int = 0
    indexes: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVolume:
    """A symbolic link, or a directory on another file system. Its bytes are in no `Use`."""

    name: str
    target: str | None
    """Of the link. None: a file system is mounted there."""
    bytes: int | None
    """Of the blocks of the files right in the target. None: it can't be listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """What takes the space of the file system of one log directory."""

    log_dir: str
    uses: tuple[Use, ...]
    """Only kinds that exist, in the order of `SpaceKind`."""
    index_zeros: Zeros
    """Part of the bytes of INDEXES."""
    elsewhere: tuple[OtherVolume, ...]
    outside_bytes: int | None
    """Bytes on the file system that are in none of the given log directories: other files, the file
    system's own blocks, and removed files that a process holds open. None: unknown.
    """
    outside_inodes: int | None
    uncounted: tuple[str, ...] = ()
    """Directories that could not be listed, or are too deep. Their bytes are in `outside_bytes`."""

    @property
    def bytes(self) -> int:
        return sum(use.bytes for use in self.uses)

    @property
    def inodes(self) -> int:
        return sum(use.inodes for use in self.uses)
