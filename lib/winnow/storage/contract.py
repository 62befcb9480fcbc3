"""The one narrow interface between a log directory that is changed in place and what holds it: a
disk, HDFS or S3. `winnow.storage.file_tree` is for trees that are copied (decision 43).

A commit, a recovery, a retention and a checkpoint change files only through these few methods. So a
test can record each effect and stop before or after any of them. Paths are absolute strings; names
in an `Entry` are plain names.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from winnow.storage.io_counters import count_io

COMMIT_RECORD = ".winnow-commit"
"""A file of this name in a directory means: a group of changes there was started and is not
complete. `settle` completes it.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a directory. Size in bytes, mtime in ns since the epoch.

    A symbolic link is neither a file nor a directory. Its target is never touched.
    """

    name: str
    is_file: bool = False
    is_dir: bool = False
    size: int = 0
    mtime_ns: int = 0
    is_link: bool = False
    leads_to_dir: bool = False
    """True for a link to a directory, which Kafka would follow. Only `list_dir` sets it."""
    stamp: tuple[int, ...] = field(default=(), compare=False)
    """Changes with every change of the file, even one that sets size and mtime back. Or empty."""
    allocated: int | None = field(default=None, compare=False)
    """Bytes of the blocks that it takes, as `df` counts them: a sparse file takes less than its
    size. None: the storage has no blocks.
    """
    links: int = field(default=1, compare=False)
    """Names of the file."""

    @property
    def kind(self) -> str:
        """Return what it is, for people, if it is no regular file."""
        if self.is_dir:
            return "a directory"
        return "a symbolic link" if self.is_link else "a special file"

    @property
    def inode(self) -> tuple[int, ...]:
        """Device and inode of a local file: the same for as long as nobody replaces it. Empty for
        other files.
        """
        return self.stamp[:2] if len(self.stamp) > 2 else ()

    @property
    def mtime_ms(self) -> int:
        """The mtime in ms, as Java's `File.lastModified` returns it."""
        return self.mtime_ns // 1_000_000


@dataclass(frozen=True, slots=True)
class Remembered:
    """An object as a listing and its metadata describe it."""

    entry: Entry
    written_ns: int | None = None
    """Time of its upload, in ns since the epoch. The same bytes, written again, have the same tag
    but another time. None: the time of the entry may be that of another upload of the same bytes.
    """


@dataclass(frozen=True, slots=True)
class Volume:
    """The volume of a directory. Sizes in bytes; by default it is unlimited."""

    key: Hashable
    """The same for all directories of a volume."""
    free_bytes: int = sys.maxsize
    """Free for this process."""
    total_bytes: int = sys.maxsize
    free_files: int | None = None
    """Files that this process may still make. None: no limit is known."""
    read_only: bool = False
    used_bytes: int | None = None
    """Bytes of all files, as `df` counts them. None: unknown."""
    used_files: int | None = None
    """Inodes in use. None: unknown."""


class NewFile(Protocol):
    """A file that is being written from its start."""

    def write(self, data: memoryview) -> int:
        """Write some of `data`. Return how many bytes were accepted: at least one."""

    def finish(self) -> None:
        """Complete the file and bring it to stable storage."""

    def close(self) -> None:
        """Release the file. Without a `finish`, the caller must remove what was written."""


class Storage(Protocol):
    """What a log directory needs of a file system. Errors are `OSError`s, as Python raises them.

    Raises CorruptLogError where a path leads through a symbolic link or to anything but a regular
    file.

    The methods with a body here are for a storage whose changes are durable at once, with neither
    file attributes nor empty directories, and without a memory of listings. Others override them.
    """

    def canonical(self, path: str) -> str:
        """Return the one canonical name of a directory, however it was spelled."""

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        """Return all entries, ascending by name."""

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names of all entries, in any order."""
        return tuple(entry.name for entry in self.list_dir(path))

    def entry(self, path: str) -> Entry:
        """Return the current entry of one name. FileNotFoundError if there is none."""

    def exists(self, path: str) -> bool:
        """Return whether anything has this name. Errors are raised, so False is certain."""
        return entry_if_there(self, path) is not None

    def read_bytes(self, path: str) -> bytes:
        """Return a whole small file. CorruptLogError if it exceeds the limit in `size_limits`."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`; fewer only at the end of the file."""

    def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
        """Create a file with this content on stable storage. If that fails, no file remains.
        FileExistsError if there is one. `mtime_ns`: see `new_file`.
        """

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        """Start a file of any size. FileExistsError if there is one, now or at `finish`.

        `mtime_ns`: the time that `set_mtime_ns` will set, if known. Changing it later is expensive
        in some stores.
        """

    def rename(self, source: str, target: str) -> None:
        """Rename atomically; replaces a file at `target`."""

    def link(self, source: str, target: str) -> None:
        """Give a file a second name on its file system. FileExistsError if `target` exists."""

    def unlink(self, path: str) -> None: ...

    def truncate(self, path: str, size: int) -> None:
        """Cut a file to its first `size` bytes. CorruptLogError if it has fewer, or another name,
        which may be outside of the log directory. OSError where files can't be cut: in object
        stores and HDFS.
        """
        raise io.UnsupportedOperation(f"{path} can't be cut to {size} bytes")

    def fsync_file(self, path: str) -> None:
        del path

    def fsync_dir(self, path: str) -> None:
        """Make earlier changes of names in the directory survive a power failure."""
        del path

    def mkdir(self, path: str) -> None:
        del path

    def ensure_dir(self, path: str) -> None:
        """Like `mkdir`, but accepts an existing directory."""
        del path

    def rmdir(self, path: str) -> None: ...

    def copy_attributes(self, source: str, target: str) -> None:
        """Give `target` the owner, group and permission bits of `source` (S8.5)."""
        del source, target

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None: ...

    def volume(self, path: str) -> Volume:
        """Return the volume that holds a directory, as it is now."""

    def changing(self, directory: str) -> AbstractContextManager[None]:
        """Group changes of one directory and its files that belong together.

        A file system applies each change at once, in order. A store without renames makes all of
        them take effect at one moment, when the block ends. If the block raises, none takes effect.
        Such a store also detects changes by others: it raises CorruptLogError, and no change takes
        effect.
        """
        del directory
        return nullcontext()

    def settle(self, directory: str) -> None:
        """Complete a group of changes that has taken effect already. The caller holds the lock."""
        del directory

    def read_ahead(self, paths: Iterable[str]) -> None:
        """Read these files at once, as far as they are small, where reading them one by one takes a
        request each. Raises nothing for files that are gone.
        """
        del paths

    def forget(self) -> None:
        """Forget listings: the next reader lists again what it reads."""
        return

    def listed_in(self, directory: str) -> tuple[Remembered, ...]:
        """Return the files of a directory as it was last listed, but no log of unknown time.
        Nothing in a storage that remembers no listings.
        """
        del directory
        return ()

    def learn(self, directory: str, listed: Iterable[Remembered]) -> None:
        """Take over what `listed_in` returned in another process. It counts for objects that have
        the same size, tag and, if known, time of upload when they are listed again.
        """
        del directory, listed


def os_error(number: int, path: str) -> OSError:
    """Return the error of this number, as FileNotFoundError or the like, as Python raises it."""
    return OSError(number, os.strerror(number), path)


def write_whole(storage: Storage, path: str, file: NewFile, data: bytes) -> None:
    """Write a new file and finish it. If that fails, no file remains: half of one is useless and
    blocks a second attempt.
    """
    try:
        view = memoryview(data)
        while view.nbytes:
            view = view[file.write(view) :]
        file.finish()
    except OSError:
        with suppress(OSError):
            storage.unlink(path)
        raise
    finally:
        file.close()
    count_io(written=len(data), files=1)


def read_if_there(storage: Storage, path: str) -> bytes | None:
    """Return a whole small file, or None if there is none. An unreadable file is an error."""
    try:
        return storage.read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


class ReadOnly(Storage):
    """Reads of another storage. Every change is refused with an OSError (EROFS)."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def canonical(self, path: str) -> str:
        return self._storage.canonical(path)

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        return self._storage.list_dir(path)

    def entry(self, path: str) -> Entry:
        return self._storage.entry(path)

    def read_bytes(self, path: str) -> bytes:
        return self._storage.read_bytes(path)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._storage.read_range(path, start, length)

    def volume(self, path: str) -> Volume:
        return self._storage.volume(path)

    def _refuse(self, *paths: Any, **_: Any) -> NoReturn:  # noqa: ANN401 - of any change
        raise os_error(errno.EROFS, str(paths[0]))

    create = new_file = rename = link = unlink = truncate = _refuse
    mkdir = ensure_dir = rmdir = copy_attributes = set_mtime_ns = _refuse


def entry_if_there(storage: Storage, path: str) -> Entry | None:
    try:
        return storage.entry(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
