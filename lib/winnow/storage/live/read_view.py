"""A read view of a directory that another program is changing: its files as of one moment.

`storage_of` answers from the read views of the process, so all readers see the same moment. Bytes
come from the file that was open then, also after it was renamed or removed: the process that opened
the view holds the descriptors. Nothing is written, and no file is mapped: a map of a file that
becomes shorter kills the process (S8.11).
"""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from winnow.errors import CorruptLogError
from winnow.pickling import pickled_by_fields
from winnow.storage.contract import Entry, ReadOnly, Volume, os_error
from winnow.storage.guarded import held, open_file
from winnow.storage.live.page_cache import read_at
from winnow.storage.local import LocalStorage, stamp_of
from winnow.storage.private import read_private, write_unsynced
from winnow.storage.size_limits import check_size

_LOCAL = LocalStorage()
_MOST_BYTES = 2**32
"""Limit for the file in which views are passed to tasks."""


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class ViewedFile:
    """A file or a directory in a read view."""

    entry: Entry
    """`size` is the end of the file for readers of the view."""
    data: bytes | None = None
    """The content. None: it is read from the file."""
    descriptor: int | None = None
    """In the process that opened the view. None: the file is readable while it has its name."""
    tail: bytes = b""
    """Bytes of the view behind those of the file."""

    @property
    def bytes_in_file(self) -> int:
        """Return how many bytes of the view, from the first on, are in the file itself."""
        return 0 if self.data is not None else self.entry.size - len(self.tail)

    def cut(self, size: int, tail: bytes = b"") -> ViewedFile:
        """Return the file with its first bytes only, and `tail` behind them."""
        return replace(self, entry=replace(self.entry, size=size + len(tail)), tail=tail)


Files = dict[str, ViewedFile]
"""The files of a directory, by name."""


def with_content(entry: Entry, data: bytes | None) -> ViewedFile:
    """Return a file with this content; None: with the content of the file itself."""
    return ViewedFile(entry) if data is None else ViewedFile(replace(entry, size=len(data)), data)


@pickled_by_fields
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class ReadView:
    """A directory as of one moment. In the process that opened the view, the descriptors stay open
    for as long as this value exists.
    """

    root: str
    """Its canonical path."""
    pid: int
    """The process that holds the descriptors."""
    at_ms: int
    """When the view was opened, in ms since 1970."""
    directories: Mapping[str, Mapping[str, ViewedFile]]
    """By path: the names in a directory, ascending. Other directories are read as they are."""
    program: str = ""
    """Describes the program that changes the directory."""
    started_ms: int | None = None
    """When that program started, in ms since 1970. None: unknown."""
    properties: str | None = None
    """The properties file that the command of that program names. None: unknown."""
    gone: tuple[str, ...] = ()
    """Directories that were removed or renamed while the view was opened. They are left out."""
    changing: tuple[str, ...] = ()
    """Directories that changed during each attempt to read them. They are left out."""
    staging: str = ""
    """Name of the staging directories in which this run may write, one in each directory below the
    root. Empty: the run writes nothing.
    """

    def may_write(self, path: str) -> bool:
        """Return whether a path is one of this run's staging directories, or below."""
        below = path.removeprefix(f"{self.root}/").split("/", 2)
        return bool(self.staging) and len(below) > 1 and below[1].startswith(self.staging)

    def file_at(self, path: str) -> ViewedFile | None:
        """Return the file at a path. None: its directory is not part of the view.

        Raises FileNotFoundError if the view has no such file.
        """
        directory, _, name = path.rpartition("/")
        names = self.directories.get(directory)
        if names is not None and name in names:
            return names[name]
        if names is None and (path == self.root or not self._lacks(directory)):
            return None
        raise os_error(errno.ENOENT, path)

    def _lacks(self, directory: str) -> bool:
        """Return whether it is a directory right below the root that the view does not have."""
        above, _, name = directory.rpartition("/")
        return above == self.root and name not in self.directories[self.root]


_VIEWS: list[ReadView] = []
"""The read views of this process."""


def views() -> tuple[ReadView, ...]:
    """Return the read views of this process."""
    return tuple(_VIEWS)


def view_of(path: str) -> ReadView | None:
    """Return the read view of a path, or None."""
    for view in _VIEWS:
        if path == view.root or path.startswith(f"{view.root}/"):
            return view
    return None


@contextmanager
def reading(*some: ReadView) -> Iterator[None]:
    """Let `storage_of` answer from these views inside the block."""
    _VIEWS.extend(some)
    try:
        yield
    finally:
        for view in some:
            _VIEWS.remove(view)


def write_views(directory: str) -> str:
    """Write the read views of this process to a file, for `use_views` in other processes. Return
    its path.

    `directory`: only its user can write there, because the file is unpickled.
    """
    path = f"{directory}/read-views"
    write_unsynced(path, pickle.dumps(tuple(_VIEWS), pickle.HIGHEST_PROTOCOL))
    return path


def use_views(path: str | None) -> None:
    """Replace the read views of this process by those of a file. None: by none."""
    if path is None and not _VIEWS:
        return
    found = () if path is None else _read_views(path)
    if not any(view.pid == os.getpid() for view in _VIEWS):
        _VIEWS[:] = found


@lru_cache(1)
def _read_views(path: str) -> tuple[ReadView, ...]:
    data = read_private(path, _MOST_BYTES)
    found: tuple[ReadView, ...] = pickle.loads(data)  # noqa: S301 - this run's private directory
    return found


def open_viewed(view: ReadView, path: str, file: ViewedFile) -> int:
    """Open a file of a view.

    Raises OSError (ESTALE) if another file has its name and the view has no descriptor of it, and
    CorruptLogError if it is no regular file.
    """
    if not file.entry.is_file:
        return open_file(path)
    wanted = file.entry.stamp[:2]
    try:
        descriptor = open_file(path)
    except (FileNotFoundError, CorruptLogError):
        pass  # renamed, removed, or replaced by a link
    else:
        if stamp_of(os.fstat(descriptor))[:2] == wanted:
            return descriptor
        os.close(descriptor)
    if file.descriptor is None:
        raise os_error(errno.ESTALE, path)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(f"/proc/{view.pid}/fd/{file.descriptor}", flags)
    except OSError:
        raise os_error(errno.ESTALE, path) from None
    if stamp_of(os.fstat(descriptor))[:2] != wanted:
        os.close(descriptor)
        raise os_error(errno.ESTALE, path)
    return descriptor


class ViewStorage(ReadOnly):
    """Implements `winnow.storage.contract.Storage` for a read view. Refuses every change."""

    def __init__(self, view: ReadView) -> None:
        super().__init__(_LOCAL)
        self._view = view

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        names = self._view.directories.get(path)
        if names is None:
            self.entry(path)
            return _LOCAL.list_dir(path)
        return tuple(file.entry for file in names.values())

    def entry(self, path: str) -> Entry:
        file = self._view.file_at(path)
        return _LOCAL.entry(path) if file is None else file.entry

    def read_bytes(self, path: str) -> bytes:
        file = self._view.file_at(path)
        if file is None:
            return _LOCAL.read_bytes(path)
        return self.read_range(path, 0, check_size(path, file.entry.size))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        file = self._view.file_at(path)
        if file is None:
            return _LOCAL.read_range(path, start, length)
        length = max(0, min(length, file.entry.size - start))
        if file.data is not None:
            return file.data[start : start + length]
        in_file, data = file.bytes_in_file, b""
        if start < in_file or not length:
            with held(open_viewed(self._view, path, file), path) as descriptor:
                data = read_at(descriptor, start, min(length, in_file - start))
                if len(data) < min(length, in_file - start):
                    return data
        at = start + len(data) - in_file
        return data + file.tail[at : at + length - len(data)] if file.tail else data

    def volume(self, path: str) -> Volume:
        """Return the file system; for a directory that the view still has, that of the root."""
        with suppress(FileNotFoundError):
            return _LOCAL.volume(path)
        self.entry(path)
        return _LOCAL.volume(self._view.root)
