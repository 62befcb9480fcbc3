"""Write staging directories in a log directory whose broker may be running.

When its topic is deleted, a broker first renames a partition directory, and later removes it with
everything inside. It shuts down if a file appears there meanwhile, or if its user may not remove
one (S8.12). So each name is created by one call with its whole path, which fails after the rename;
and every file and directory belongs to the owner of the partition directory from the start.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from winnow.storage.attributes import remember_made
from winnow.storage.contract import NewFile
from winnow.storage.creating import PRIVATE
from winnow.storage.guarded import create_whole_path, link_on, naming, status_of
from winnow.storage.local import LocalStorage, NewLocalFile

_DIRECTORY = 0o700


class StagingStorage(LocalStorage):
    """As `LocalStorage`, for paths of staging directories and what is in them."""

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        del mtime_ns  # set when the file is finished
        with _as_owner(path):
            descriptor = create_whole_path(path, PRIVATE)
        remember_made(path, descriptor)
        return NewLocalFile(path, descriptor)

    def mkdir(self, path: str) -> None:
        with _as_owner(path), naming(path):
            os.mkdir(path, _DIRECTORY)

    def ensure_dir(self, path: str) -> None:
        try:
            self.mkdir(path)
        except FileExistsError:
            if not stat.S_ISDIR(status_of(path).st_mode):
                raise

    def rename(self, source: str, target: str) -> None:
        with _as_owner(target), naming(source):
            os.rename(source, target)

    def unlink(self, path: str) -> None:
        with _as_owner(path), naming(path):
            os.unlink(path)

    def rmdir(self, path: str) -> None:
        with _as_owner(path), naming(path):
            os.rmdir(path)


@contextmanager
def _as_owner(path: str) -> Iterator[None]:
    """Access the file system as the owner of the directory of `path`, in this thread. So nothing is
    reached, through a link either, that this user could not reach.
    """
    above = os.path.dirname(path)
    owner = status_of(above)
    if not stat.S_ISDIR(owner.st_mode):
        raise link_on(above)
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    group, user = os.getegid(), os.geteuid()
    _library().setfsgid(owner.st_gid)
    _library().setfsuid(owner.st_uid)
    try:
        yield
    finally:
        _library().setfsuid(user)
        _library().setfsgid(group)


@cache
def _library() -> Any:  # noqa: ANN401 - what ctypes makes of a C library has no type
    """Return the C library. Its calls concern the calling thread alone."""
    return ctypes.CDLL(None)
