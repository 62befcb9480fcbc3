"""Write staging directories in a log directory whose broker may be running.

When its topic is deleted, a broker first renames a partition directory, and later removes it with
everything inside. It shuts down if a file appears there meanwhile, or if its user may not remove
one (S8.12). So each name is created by one call with its whole path, which fails after the rename;
and every file and directory belongs to the owner of the partition directory from the start.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from winnow.storage.attributes import remember_made
from winnow.storage.contract import NewFile
from winnow.storage.creating import PRIVATE
from winnow.storage.guarded import create_whole_path, link_on, naming, status_of
from winnow.storage.live.identity import acting_as
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
    owner = _owner_of(os.path.dirname(path))
    if os.geteuid() != 0 or owner is None:
        yield
        return
    with acting_as(owner.st_uid, owner.st_gid):
        yield


def _owner_of(directory: str) -> os.stat_result | None:
    """Return the status of the deepest directory of a path that does not belong to root: its owner
    could put a link in place of what lies below, such as of a `lost+found`. None: all are root's.

    Raises PermissionError where others may put a link, and nobody knows who.
    """
    at = directory
    while True:
        status = status_of(at)
        if not stat.S_ISDIR(status.st_mode):
            raise link_on(at)
        if status.st_uid != 0:
            return status
        groups = stat.S_IWGRP if status.st_gid != 0 else 0
        if status.st_mode & (stat.S_IWOTH | groups) and not status.st_mode & stat.S_ISVTX:
            what = f"others may change {at}, and {directory} below it belongs to root"
            raise PermissionError(errno.EPERM, what, directory)
        if at == "/":
            return None
        at = os.path.dirname(at)
