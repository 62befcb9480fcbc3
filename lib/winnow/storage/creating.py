"""How files and directories come to be on this machine: they belong to whoever owns the directory
that they are in.

Winnow often runs as root, and a broker as a user of its own: what root would own there, the broker
could neither write nor remove. Every other room creates through these functions; a test looks for
those that do not.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from winnow.storage.attributes import remember_made
from winnow.storage.guarded import parent_of, status_of

PRIVATE = 0o600
"""Of a new file. `Storage.copy_attributes` gives it the mode of what it replaces."""
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def create_file(path: str, *, flags: int = os.O_WRONLY, shared: bool = False) -> int:
    """Descriptor of a new, empty file that only its owner may read. FileExistsError if the name is
    taken.

    `shared`: whoever may read or write the directory may do the same with the file; others may
    never write.
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


def write_new(path: str, data: bytes) -> None:
    """A `shared` file with this content in the place of what has its name. It is not on stable
    storage yet.
    """
    with parent_of(path) as (directory, name), suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    with open(create_file(path, shared=True), "wb") as file:
        file.write(data)


def create_directory(path: str) -> None:
    """A new directory with the owner, group and mode of the one that it is in; others may never
    write.

    FileExistsError if there is one.
    """
    with parent_of(path) as (directory, name):
        above = os.fstat(directory)
        os.mkdir(name, 0o700, dir_fd=directory)
        fd = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            # Somebody may have put another one in its place. An empty one holds nothing that may
            # not be theirs.
            if os.listdir(fd):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            _give(fd, above, _mode(above))
        finally:
            os.close(fd)


def ensure_directories(path: str) -> None:
    """Creates this directory and all above it that are missing. NotADirectoryError if a file is in
    the way.
    """
    if _is_dir(path):
        return
    above = os.path.dirname(path.rstrip("/"))
    if above and above != path:
        ensure_directories(above)
    try:
        create_directory(path)
    except FileExistsError:  # another thread's, or a file
        if not _is_dir(path):
            raise


def _is_dir(path: str) -> bool:
    try:
        return stat.S_ISDIR(status_of(path).st_mode)
    except FileNotFoundError:
        return False


def _mode(above: os.stat_result) -> int:
    """Of a directory in this one, whose owner may always write."""
    if above.st_mode & (stat.S_IWOTH | stat.S_ISVTX):  # /tmp, say: everybody's, and no model
        return 0o755
    return stat.S_IMODE(above.st_mode) | stat.S_IRWXU


def _give(fd: int, owner: os.stat_result, mode: int) -> None:
    have = os.fstat(fd)
    if (have.st_uid, have.st_gid) != (owner.st_uid, owner.st_gid):
        # Only root may give files away. Anyone else runs as the user who writes here anyway.
        with suppress(PermissionError):
            os.fchown(fd, -1, owner.st_gid)
        with suppress(PermissionError):
            os.fchown(fd, owner.st_uid, -1)
    os.fchmod(fd, mode)  # after fchown, which clears set-id bits
