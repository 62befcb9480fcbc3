"""How files and directories come to be on this machine: they belong to whoever owns the directory that they are in.

Winnow often runs as root, and a broker as a user of its own: what root would own there, the broker could neither write
nor remove. Every other room creates through these functions; a test looks for those that do not.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

PRIVATE = 0o600
"""Of a new file. `Storage.copy_attributes` gives it the mode of what it replaces."""
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def create_file(path: str, *, flags: int = os.O_WRONLY, shared: bool = False) -> int:
    """Descriptor of a new, empty file that only its owner may read. FileExistsError if the name is taken.

    `shared`: whoever may read or write the directory may do the same with the file; others may never write.
    """
    above = os.stat(os.path.dirname(path) or ".")
    fd = os.open(path, flags | _NEW, PRIVATE)
    try:
        _give(fd, above, _mode(above) & 0o666 if shared else PRIVATE)
    except BaseException:
        os.close(fd)
        os.unlink(path)
        raise
    return fd


def create_directory(path: str) -> None:
    """A new directory with the owner, group and mode of the one that it is in; others may never write.

    FileExistsError if there is one.
    """
    above = os.stat(os.path.dirname(path.rstrip("/")) or ".")
    os.mkdir(path, 0o700)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _give(fd, above, _mode(above))
    finally:
        os.close(fd)


def ensure_directories(path: str) -> None:
    """Creates this directory and all above it that are missing. NotADirectoryError if a file is in the way."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path.rstrip("/"))
    if above and above != path:
        ensure_directories(above)
    try:
        create_directory(path)
    except FileExistsError:  # another thread's, or a file
        if not os.path.isdir(path):
            raise


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
