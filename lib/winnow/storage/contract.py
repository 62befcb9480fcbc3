"""The one narrow seam between a log directory and the file system.

Every effect of a commit, a recovery, a retention or a checkpoint goes through these few methods, so
that a test can record each of them and stop before or after any. Paths are absolute strings; names
in an `Entry` are plain names.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

COMMIT_RECORD = ".winnow-commit"
"""A file of this name in a directory: changes of it that belong together were begun, and are not
done (`settle`).
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a directory. Size in bytes, mtime in ns since the epoch.

    A symbolic link is neither a file nor a directory: nothing is ever done to what it leads to.
    """

    name: str
    is_file: bool
    is_dir: bool
    size: int
    mtime_ns: int
    is_link: bool = False
    """It is a symbolic link."""
    leads_to_dir: bool = False
    """As `list_dir` tells it: a link to a directory, which Kafka would follow."""
    stamp: tuple[int, ...] = field(default=(), compare=False)
    """What no change of the file leaves as it was, not even one that sets size and mtime back;
    empty: can't be told.
    """

    @property
    def mtime_ms(self) -> int:
        """As Java's `File.lastModified` tells it."""
        return self.mtime_ns // 1_000_000


@dataclass(frozen=True, slots=True)
class Volume:
    """What a directory's files take their room from. Sizes in bytes; what has no limit is
    `sys.maxsize` large.
    """

    key: Hashable
    """The same for all directories of a volume."""
    free_bytes: int
    """For this process."""
    total_bytes: int


class NewFile(Protocol):
    """A file that is being written from its start."""

    def write(self, data: memoryview) -> int:
        """Bytes of `data` that were taken: at least one."""
        ...

    def finish(self) -> None:
        """It is whole and on stable storage."""
        ...

    def close(self) -> None:
        """Lets go of it. Without `finish` before it, what is left of the file is the caller's to
        remove.
        """
        ...


class Storage(Protocol):
    """What a log directory needs of a file system. Errors are `OSError`s, as Python raises them.

    CorruptLogError where a path leads through a symbolic link, or to something else than a regular
    file.
    """

    def canonical(self, path: str) -> str:
        """The one name of a directory, however it was spelled."""
        ...

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        """All entries, ascending by name."""
        ...

    def entry(self, path: str) -> Entry:
        """What `list_dir` has for one name, now. FileNotFoundError if there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is anything of this name. False only where that is known: an error is
        raised.
        """
        ...

    def read_bytes(self, path: str) -> bytes:
        """A whole small file. CorruptLogError if it is larger than its kind ever is
        (`size_limits`).
        """
        ...

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start`; fewer only where the file ends."""
        ...

    def create(self, path: str, data: bytes) -> None:
        """A new file with this content, on stable storage; no file if it fails. FileExistsError if
        there is one.
        """
        ...

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        """For content of any size. FileExistsError if there is one, now or when it is finished.

        `mtime_ns`: what `set_mtime_ns` will be told, where that is known: some stores can't change
        it for nothing.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a file at `target`."""
        ...

    def link(self, source: str, target: str) -> None:
        """A second name for the same file, on the same file system. FileExistsError if `target` is
        there already.
        """
        ...

    def unlink(self, path: str) -> None: ...

    def fsync_file(self, path: str) -> None: ...

    def fsync_dir(self, path: str) -> None:
        """After it, every creation, rename and removal made in the directory before it survives a
        power cut.
        """
        ...

    def mkdir(self, path: str) -> None: ...

    def ensure_dir(self, path: str) -> None:
        """Like `mkdir`, but content with a directory that is there."""
        ...

    def rmdir(self, path: str) -> None: ...

    def copy_attributes(self, source: str, target: str) -> None:
        """Gives `target` the owner, group and permission bits of `source` (S8.5)."""
        ...

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None: ...

    def volume(self, path: str) -> Volume:
        """That a directory is on, as it is now."""
        ...

    def changing(self, directory: str) -> AbstractContextManager[None]:
        """Around the changes that belong together, of one directory and what is in it.

        A file system does each of them as it comes, in order. A store without renames makes all of
        them count at one moment, when the block ends, and none of them if it ends by an exception.
        There nobody else's changes of these files go unnoticed: CorruptLogError, and none of them
        counts.
        """
        ...

    def settle(self, directory: str) -> None:
        """Does what is left of changes of a directory that count already. Hold the lock."""
        ...
