"""A local directory as a `FileTree`."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from contextlib import suppress

from winnow.storage.contract import write_whole
from winnow.storage.creating import create_file, ensure_directories
from winnow.storage.file_tree import StorageTree, StoredFile, size_changed
from winnow.storage.guarded import held, open_dir, open_file, status_of
from winnow.storage.local import LocalStorage, NewLocalFile

_LOCAL = LocalStorage()


class LocalTree(StorageTree):
    """New sub-directories get the attributes of the directory that a file is put from."""

    def __init__(self, directory: str) -> None:
        self.local_path = os.path.realpath(directory)
        super().__init__(_LOCAL, self.local_path)

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
        self._make_directory(os.path.dirname(path), like=None)
        beside = f"{path}.{secrets.token_hex(4)}.new"
        write_whole(_LOCAL, beside, NewLocalFile(beside, shared=True), data)
        try:
            self._give_name(path, beside)
        finally:
            _LOCAL.unlink(beside)

    def put(self, name: str, path: str) -> None:
        target = self._at(name)
        self._make_directory(os.path.dirname(target), like=os.path.dirname(path))
        _LOCAL.fsync_file(path)
        self._give_name(target, path)

    def _give_name(self, path: str, other: str) -> None:
        """Give a whole file its name: under it, it is whole or missing."""
        _LOCAL.link(other, path)
        self._changed.add(os.path.dirname(path))

    def _make_directory(self, directory: str, *, like: str | None) -> None:
        for made in ensure_directories(directory):
            if like is not None:
                _give_directory(made, like=like.removesuffix(directory.removeprefix(made)))
            self._changed |= {os.path.dirname(made), made}


def make_directory(path: str, *, like: str | None) -> None:
    """Create a directory and its parents. `like`: whose owner and mode a new one gets."""
    if ensure_directories(path) and like is not None:
        _give_directory(path, like=like)


def remove_empty_directories(path: str) -> None:
    """Remove the empty directories below `path`, but not `path`."""
    for entry in _LOCAL.list_dir(path):
        if entry.is_dir:
            below = f"{path}/{entry.name}"
            remove_empty_directories(below)
            with suppress(OSError):  # not empty
                _LOCAL.rmdir(below)


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
