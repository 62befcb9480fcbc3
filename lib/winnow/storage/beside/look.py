"""Read a directory that another program changes, as it was at one moment.

A `Look` lists names, sizes and files. In a process that has it (`looking`), `storage_of` answers
from it for every path below its directory, so that all readers see the same moment. Bytes are read
from the file that was found then, also after it was renamed or removed: the process that looked
holds it open. Nothing is written, and no file is mapped: it may become shorter (S8.11).
"""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from winnow.errors import CorruptLogError
from winnow.pickling import pickled_by_fields
from winnow.storage.beside.guest import read_at
from winnow.storage.contract import Entry, NewFile, Storage, Volume, os_error
from winnow.storage.guarded import held, open_file
from winnow.storage.local import LocalStorage, stamp_of
from winnow.storage.private import read_private, write_unsynced
from winnow.storage.size_limits import check_size

_LOCAL = LocalStorage()


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file or directory, as a look found it."""

    entry: Entry
    """`size` ends where the readers' view of the file ends."""
    data: bytes | None = None
    """All that readers see of it. None: it is read when it is asked for."""
    descriptor: int | None = None
    """In the process that looked. None: the file can be read only while it has its name."""
    grows: bool = False
    """Whether the other program may add to it meanwhile."""


@pickled_by_fields
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Look:
    """A directory as it was. What is below a directory that is not in `directories` is read as it
    is. In the process that looked, its descriptors are open for as long as this value is used.
    """

    root: str
    """Its canonical path."""
    pid: int
    """The process that holds the descriptors."""
    at_ms: int
    """When it looked, in ms since 1970."""
    directories: Mapping[str, Mapping[str, SeenFile]]
    """By path; the names in each, ascending."""
    program: str = ""
    """The program that changes it, in words."""
    gone: tuple[str, ...] = ()
    """Directories that were removed or renamed meanwhile. They are left out."""
    changing: tuple[str, ...] = ()
    """Directories that changed at each of several attempts. They are left out."""

    def file_at(self, path: str) -> SeenFile | None:
        """Return what is at a path. None: it is in a directory that was not looked into.

        Raises FileNotFoundError if there was nothing.
        """
        directory, _, name = path.rpartition("/")
        names = self.directories.get(directory)
        if names is None:
            if self.root == path or not self._is_known(directory):
                return None
            raise os_error(errno.ENOENT, path)
        if name not in names:
            raise os_error(errno.ENOENT, path)
        return names[name]

    def _is_known(self, directory: str) -> bool:
        """Whether it is a directory right below the root that was not there."""
        above, _, name = directory.rpartition("/")
        return above == self.root and name not in self.directories[self.root]

    def has_moved(self, directory: str) -> bool:
        """Return whether bytes of a file that does not grow were changed in place since, or bytes
        of one that grows were taken away. Only the process that looked knows.
        """
        return any(
            _differs(os.fstat(seen.descriptor), seen)
            for seen in self.directories.get(directory, {}).values()
            if seen.descriptor is not None
        )


def _differs(now: os.stat_result, seen: SeenFile) -> bool:
    if seen.grows:
        return now.st_size < seen.entry.size
    return (now.st_size, now.st_mtime_ns) != (seen.entry.size, seen.entry.mtime_ns)


_NUMBERS = count()
_MOST_BYTES = 2**32
_LOOKS: list[Look] = []
"""Those of this process."""


def look_at(path: str) -> Look | None:
    """Return the look that a path is read through, or None."""
    for look in _LOOKS:
        if path == look.root or path.startswith(f"{look.root}/"):
            return look
    return None


@contextmanager
def looking(*some: Look) -> Iterator[None]:
    """Read through these looks inside the block."""
    _LOOKS.extend(some)
    try:
        yield
    finally:
        for look in some:
            _LOOKS.remove(look)


def write_looks(directory: str) -> str | None:
    """Write the looks of this process to a file that only its user can read, for other processes.
    Return its path, or None if there are none.
    """
    if not _LOOKS:
        return None
    path = f"{directory}/looks-{os.getpid()}-{next(_NUMBERS)}"
    write_unsynced(path, pickle.dumps(tuple(_LOOKS), pickle.HIGHEST_PROTOCOL))
    return path


def use_looks(path: str | None) -> None:
    """Read through the looks of a file of `write_looks`, and no others. None: none."""
    if path is None and not _LOOKS:
        return
    looks = () if path is None else _read_looks(path)
    if not any(look.pid == os.getpid() for look in _LOOKS):
        _LOOKS[:] = looks


@lru_cache(1)
def _read_looks(path: str) -> tuple[Look, ...]:
    data = read_private(path, _MOST_BYTES)
    looks: tuple[Look, ...] = pickle.loads(data)  # noqa: S301 - of this run, in its own directory
    return looks


def open_seen(look: Look, path: str, seen: SeenFile) -> int:
    """Open the file that was found under this name.

    Raises OSError (ESTALE) if another file has its name, and nobody holds the first.
    """
    wanted = seen.entry.stamp[:2]
    try:
        descriptor = open_file(path)
    except (FileNotFoundError, CorruptLogError):
        pass  # renamed or removed
    else:
        if stamp_of(os.fstat(descriptor))[:2] == wanted:
            return descriptor
        os.close(descriptor)
    if seen.descriptor is None:
        raise os_error(errno.ESTALE, path)
    try:
        descriptor = os.open(
            f"/proc/{look.pid}/fd/{seen.descriptor}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        )
    except OSError:
        raise os_error(errno.ESTALE, path) from None
    if stamp_of(os.fstat(descriptor))[:2] != wanted:
        os.close(descriptor)
        raise os_error(errno.ESTALE, path)
    return descriptor


class LookStorage(Storage):
    """Implements `winnow.storage.contract.Storage` for what a look has seen. Changes are refused:
    the directory is another program's.
    """

    def __init__(self, look: Look) -> None:
        self._look = look

    def canonical(self, path: str) -> str:
        return _LOCAL.canonical(path)

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        names = self._look.directories.get(path)
        if names is None:
            self.entry(path)
            return _LOCAL.list_dir(path)
        return tuple(seen.entry for seen in names.values())

    def entry(self, path: str) -> Entry:
        seen = self._look.file_at(path)
        return _LOCAL.entry(path) if seen is None else seen.entry

    def read_bytes(self, path: str) -> bytes:
        seen = self._look.file_at(path)
        if seen is None:
            return _LOCAL.read_bytes(path)
        return self.read_range(path, 0, check_size(path, seen.entry.size))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        seen = self._look.file_at(path)
        if seen is None:
            return _LOCAL.read_range(path, start, length)
        length = max(0, min(length, seen.entry.size - start))
        if seen.data is not None:
            return seen.data[start : start + length]
        with held(open_seen(self._look, path, seen), path) as descriptor:
            return read_at(descriptor, start, length)

    def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
        del data, mtime_ns
        raise os_error(errno.EROFS, path)

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        del mtime_ns
        raise os_error(errno.EROFS, path)

    def rename(self, source: str, target: str) -> None:
        del target
        raise os_error(errno.EROFS, source)

    def link(self, source: str, target: str) -> None:
        del source
        raise os_error(errno.EROFS, target)

    def unlink(self, path: str) -> None:
        raise os_error(errno.EROFS, path)

    def mkdir(self, path: str) -> None:
        raise os_error(errno.EROFS, path)

    def ensure_dir(self, path: str) -> None:
        raise os_error(errno.EROFS, path)

    def rmdir(self, path: str) -> None:
        raise os_error(errno.EROFS, path)

    def copy_attributes(self, source: str, target: str) -> None:
        del source
        raise os_error(errno.EROFS, target)

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        del mtime_ns
        raise os_error(errno.EROFS, path)

    def volume(self, path: str) -> Volume:
        return _LOCAL.volume(path)


def looks() -> tuple[Look, ...]:
    """Return those of this process."""
    return tuple(_LOOKS)
