"""A directory of this machine as a `Store`."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from winnow.errors import UsageError
from winnow.storage.creating import create_directory, create_file, ensure_directories
from winnow.storage.local import LocalStorage, stamp_of
from winnow.storage.store import StoredFile, size_changed


class LocalStore:
    """Implements `winnow.storage.store.Store`. Sub-directories that it makes are as the one a file is put from."""

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
        return tuple(sorted(_walk(self._root, ""), key=lambda file: file.name)) if os.path.isdir(self._root) else ()

    def list_top(self) -> tuple[str, ...]:
        if not os.path.isdir(self._root):
            return ()
        with os.scandir(self._root) as found:
            return tuple(sorted(item.name + "/" * item.is_dir() for item in found))[:1000]

    def neighbours(self) -> Iterable[str]:
        return ()  # a disk is no bucket of a cluster's

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return LocalStorage().read_range(self._at(name), start, length)

    def fetch(self, file: StoredFile, path: str) -> None:
        with open(self._at(file.name), "rb") as source, open(create_file(path), "wb") as target:
            shutil.copyfileobj(source, target, 2**20)
            found = target.tell()
            status = os.fstat(source.fileno())
        if found != file.size:
            raise size_changed(self, file, found)
        _give(path, status)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        directory = os.path.dirname(path)
        _give(directory, os.stat(os.path.dirname(self._at(file.name))))

    def create(self, name: str, data: bytes) -> None:
        path = self._at(name)
        directory = os.path.dirname(path)
        self._make_directory(directory, like=None)
        beside = f"{path}.{os.getpid()}.new"  # under its own name it is whole or not at all
        fd = create_file(beside, shared=True)
        try:
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(fd)
            os.link(beside, path)
        finally:
            os.unlink(beside)
        self._changed.add(directory)

    def put(self, name: str, path: str) -> None:
        target = self._at(name)
        self._make_directory(os.path.dirname(target), like=os.path.dirname(path))
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.link(path, target)
        self._changed.add(os.path.dirname(target))

    def delete(self, name: str) -> None:
        path = self._at(name)
        with suppress(FileNotFoundError):
            os.unlink(path)
        self._changed.add(os.path.dirname(path))
        # As in an object store, a directory without a file is none.
        while (path := os.path.dirname(path)) != self._root and path:
            try:
                os.rmdir(path)
            except OSError:
                break
            self._changed.discard(path)

    def settle(self) -> None:
        for directory in sorted(self._changed, reverse=True):
            if os.path.isdir(directory):
                LocalStorage().fsync_dir(directory)
        self._changed.clear()

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _make_directory(self, directory: str, *, like: str | None) -> None:
        if os.path.isdir(directory):
            return
        parent = os.path.dirname(directory)
        self._make_directory(parent, like=None if like is None else os.path.dirname(like))
        with suppress(FileExistsError):  # another thread's
            create_directory(directory)
        if like is not None:
            _give(directory, os.stat(like))
        self._changed |= {parent, directory}


def make_directory(path: str, *, like: str | None) -> None:
    """With all above it, unless it is there; `like`: the directory whose owner and mode a new one gets."""
    if not os.path.isdir(path):
        ensure_directories(path)
        if like is not None:
            _give(path, os.stat(like))


def remove_empty_directories(path: str) -> None:
    """Below `path`, which stays."""
    for directory, _, _ in os.walk(path, topdown=False):
        if directory != path:
            with suppress(OSError):  # it is not empty
                os.rmdir(directory)


def _walk(directory: str, prefix: str) -> Iterator[StoredFile]:
    with os.scandir(directory) as found:
        for item in found:
            status = item.stat(follow_symlinks=False)
            name = f"{prefix}{item.name}"
            if stat.S_ISDIR(status.st_mode):
                yield from _walk(item.path, f"{name}/")
            elif stat.S_ISREG(status.st_mode):
                stamp = " ".join(map(str, stamp_of(status)))
                yield StoredFile(name, status.st_size, status.st_mtime_ns, stamp)
            else:
                raise UsageError(
                    "neither a file nor a directory",
                    found="a symbolic link" if stat.S_ISLNK(status.st_mode) else "a special file",
                    where=item.path,
                    hint="A copy of it would lead back to what it stands for. Put the files themselves there.",
                )


def _give(path: str, wanted: os.stat_result) -> None:
    """Mode, and owner where this process may give files away: who restores a backup need not be the broker's user.

    The owner may always write: a copy of what is read-only is to be cleaned, and a broker is to run on it.
    """
    with suppress(PermissionError):
        os.chown(path, wanted.st_uid, wanted.st_gid)
    own = stat.S_IRWXU if stat.S_ISDIR(wanted.st_mode) else stat.S_IRUSR | stat.S_IWUSR
    os.chmod(path, stat.S_IMODE(wanted.st_mode) | own)
