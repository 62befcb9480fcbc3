"""Create files and directories on this machine that belong to the owner of their directory.

Winnow often runs as root, and a broker as its own user. The broker could neither write nor remove
files that root owns. All other folders create files through these functions; a test looks for code
that does not.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from threading import RLock

from winnow.storage.attributes import remember_made
from winnow.storage.contract import os_error
from winnow.storage.guarded import parent_of, status_of

PRIVATE = 0o600
"""Mode of a new file. `Storage.copy_attributes` gives it the mode of the file that it replaces."""
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_making = RLock()
"""Held until a new directory has its owner and mode. Before, no other thread may use it."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def create_file(path: str, *, flags: int = os.O_WRONLY, shared: bool = False) -> int:
    """Create an empty file that only its owner may read, and return its descriptor. FileExistsError
    if the name is taken.

    `shared`: users who may read or write the directory may do the same with the file. Others never
    get write permission.
    """
    with parent_of(path) as (directory, name):
        above = os.fstat(directory)
        fd = os.open(name, flags | _NEW, PRIVATE, dir_fd=directory)
        try:
            _give(fd, above, _mode(above) & 0o666 if shared else PRIVATE)
            remember_made(path, fd)
        except BaseException:
            os.close(fd)
            os.unlink(name, dir_fd=directory)
            raise
    return fd


def create_directory(path: str) -> None:
    """Create a directory with the owner, group and mode of its parent. Others never get write
    permission.

    FileExistsError if there is one.
    """
    with parent_of(path) as (directory, name):
        above = os.fstat(directory)
        os.mkdir(name, 0o700, dir_fd=directory)
        fd = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            # Somebody may have replaced it with another directory. An empty one holds nothing that
            # must not change its owner.
            if os.listdir(fd):
                raise os_error(errno.EEXIST, path)
            _give(fd, above, _mode(above))
        finally:
            os.close(fd)


def ensure_directories(path: str) -> list[str]:
    """Create this directory and all missing parents. Return what was created, from the top.
    NotADirectoryError if a file is in the way.
    """
    with _making:
        if _is_dir(path):
            return []
        above = os.path.dirname(path.rstrip("/"))
        made = ensure_directories(above) if above and above != path else []
        try:
            create_directory(path)
        except FileExistsError:  # made by another process, or a file
            if not _is_dir(path):
                raise
            return made
        return [*made, path]


def _is_dir(path: str) -> bool:
    """Return whether it is a directory. Errors of the file system are raised."""
    try:
        return stat.S_ISDIR(status_of(path).st_mode)
    except FileNotFoundError:
        return False


def _mode(above: os.stat_result) -> int:
    """Return the mode of a new directory below `above`. Its owner may always write."""
    # Everybody's, like /tmp: its mode is no model.
    if above.st_mode & (stat.S_IWOTH | stat.S_ISVTX):
        return 0o755
    return stat.S_IMODE(above.st_mode) | stat.S_IRWXU


def _give(fd: int, owner: os.stat_result, mode: int) -> None:
    have = os.fstat(fd)
    if (have.st_uid, have.st_gid) != (owner.st_uid, owner.st_gid):
        # Only root may change owners. Other users run as the user who writes here anyway.
        with suppress(PermissionError):
            os.fchown(fd, -1, owner.st_gid)
        with suppress(PermissionError):
            os.fchown(fd, owner.st_uid, -1)
    os.fchmod(fd, mode)  # after fchown, which clears set-id bits
