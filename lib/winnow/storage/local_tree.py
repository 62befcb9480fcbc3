"""A local directory as a `FileTree`."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from winnow.errors import UsageError
from winnow.storage.contract import entry_if_there
from winnow.storage.creating import create_directory, create_file, ensure_directories
from winnow.storage.file_tree import StoredFile, size_changed
from winnow.storage.guarded import held, open_dir, open_file, status_of
from winnow.storage.local import LocalStorage

_LOCAL = LocalStorage()


class LocalTree:
    """Implements `winnow.storage.file_tree.FileTree`. New sub-directories get the attributes of the
    directory that a file is put from.
    """

    def __init__(self, directory: str) -> None:
        self._root = os.path.realpath(directory)
        self._changed: set[str] = set()

    @property
    def url(self) -> str:
        return self._root

    @property
    def local_path(self) -> str | None:
        return self._root

    def list_tree(self) -> tuple[StoredFile, ...]:
        if _is_dir(self._root):
            return tuple(sorted(_walk(self._root, ""), key=lambda file: file.name))
        return ()

    def list_top(self) -> tuple[str, ...]:
        if not _is_dir(self._root):
            return ()
        return tuple(
            sorted(entry.name + "/" * entry.is_dir for entry in _LOCAL.list_dir(self._root))
        )[:1000]

    def neighbours(self) -> Iterable[str]:
        return ()  # a disk is not a cluster's bucket

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return _LOCAL.read_range(self._at(name), start, length)

    def fetch(self, file: StoredFile, path: str) -> None:
        at = self._at(file.name)
        with open(open_file(at), "rb") as source, open(create_file(path), "wb") as target:
            shutil.copyfileobj(source, target, 2**20)
            found = target.tell()
            status = os.fstat(source.fileno())
            target.flush()
            _give(target.fileno(), status)
            os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        if found != file.size:
            raise size_changed(self, file, found)
        _give_directory(os.path.dirname(path), like=os.path.dirname(at))

    def create(self, name: str, data: bytes) -> None:
        path = self._at(name)
        directory = os.path.dirname(path)
        self._make_directory(directory, like=None)
        beside = f"{path}.{os.getpid()}.new"  # under its own name the file is whole or missing
        fd = create_file(beside, shared=True)
        try:
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(fd)
            _LOCAL.link(beside, path)
        finally:
            _LOCAL.unlink(beside)
        self._changed.add(directory)

    def put(self, name: str, path: str) -> None:
        target = self._at(name)
        self._make_directory(os.path.dirname(target), like=os.path.dirname(path))
        _LOCAL.fsync_file(path)
        _LOCAL.link(path, target)
        self._changed.add(os.path.dirname(target))

    def delete(self, name: str) -> None:
        path = self._at(name)
        with suppress(FileNotFoundError):
            _LOCAL.unlink(path)
        self._changed.add(os.path.dirname(path))
        # As in an object store, a directory without files does not exist.
        while (path := os.path.dirname(path)) != self._root and path:
            try:
                _LOCAL.rmdir(path)
            except OSError:
                break
            self._changed.discard(path)

    def settle(self) -> None:
        for directory in sorted(self._changed, reverse=True):
            if _is_dir(directory):
                _LOCAL.fsync_dir(directory)
        self._changed.clear()

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _make_directory(self, directory: str, *, like: str | None) -> None:
        if _is_dir(directory):
            return
        parent = os.path.dirname(directory)
        self._make_directory(parent, like=None if like is None else os.path.dirname(like))
        with suppress(FileExistsError):  # made by another thread
            create_directory(directory)
        if like is not None:
            _give_directory(directory, like=like)
        self._changed |= {parent, directory}


def make_directory(path: str, *, like: str | None) -> None:
    """Create a directory and its parents. `like`: whose owner and mode a new one gets."""
    if not _is_dir(path):
        ensure_directories(path)
        if like is not None:
            _give_directory(path, like=like)


def remove_empty_directories(path: str) -> None:
    """Remove the empty directories below `path`, but not `path`."""
    for entry in _LOCAL.list_dir(path):
        if entry.is_dir:
            below = f"{path}/{entry.name}"
            remove_empty_directories(below)
            with suppress(OSError):  # not empty
                _LOCAL.rmdir(below)


def _is_dir(path: str) -> bool:
    """Return whether it is a directory. Errors of the file system are raised."""
    found = entry_if_there(_LOCAL, path)
    return found is not None and found.is_dir


def _walk(directory: str, prefix: str) -> Iterator[StoredFile]:
    for entry in _LOCAL.list_dir(directory):
        name = f"{prefix}{entry.name}"
        if entry.is_dir:
            yield from _walk(f"{directory}/{entry.name}", f"{name}/")
        elif entry.is_file:
            yield StoredFile(name, entry.size, entry.mtime_ns, " ".join(map(str, entry.stamp)))
        else:
            raise UsageError(
                "neither a file nor a directory",
                found="a symbolic link" if entry.is_link else "a special file",
                where=f"{directory}/{entry.name}",
                hint="Winnow copies only files and directories. Replace it with one.",
            )


def _give_directory(path: str, *, like: str) -> None:
    wanted = status_of(like)
    with held(open_dir(path), path) as descriptor:
        _give(descriptor, wanted)


def _give(descriptor: int, wanted: os.stat_result) -> None:
    """Set the mode, and the owner if this process may: the user who restores a backup need not be
    the broker's.

    The owner may always write, because a copy of read-only files must be cleaned and a broker must
    run on it.
    """
    with suppress(PermissionError):
        os.fchown(descriptor, wanted.st_uid, wanted.st_gid)
    own = stat.S_IRWXU if stat.S_ISDIR(wanted.st_mode) else stat.S_IRUSR | stat.S_IWUSR
    os.fchmod(descriptor, stat.S_IMODE(wanted.st_mode) | own)
