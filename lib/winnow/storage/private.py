"""Directories of this machine that only their user can read: of ledgers, reports, certificates and
key summaries, which have names of topics, groups or users in them. Another part of Winnow makes no
such directory; docs/safety.md lists all modes.

And what earlier runs wrote there. Whatever can't be read there is ignored by its reader: nothing
depends on it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from winnow.storage.output_file import PRIVATE, read_output

_OTHERS_WRITE = 0o002
_LEAST_FREE = 2**30
"""Bytes that must remain free: the next to be full would be the ledger."""


def let_others_not_write() -> None:
    """Add to the umask of this process that others never get write permission. So no umask lets
    them change the files that other programs create for Winnow, such as those of Delta.
    """
    os.umask(os.umask(_OTHERS_WRITE) | _OTHERS_WRITE)


def ensure_private(directory: str) -> None:
    """Create a directory and all missing parents, which only this user can read, whatever the
    umask. What exists keeps its mode: it may be meant for several users. Raises OSError.
    """
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        if not os.path.isdir(directory):
            raise
    except FileNotFoundError:
        above = os.path.dirname(directory.rstrip("/"))
        if above in {"", directory}:
            raise
        ensure_private(above)
        ensure_private(directory)


def make_private(directory: str) -> None:
    """Create a directory that only its user can read, or check that it is one. Raises OSError."""
    ensure_private(directory)
    check_private(directory)


def check_private(directory: str) -> None:
    """Raise OSError unless the directory belongs to this user alone."""
    status = os.lstat(directory)
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.geteuid()
        or stat.S_IMODE(status.st_mode) & 0o077
    ):
        raise PermissionError(f"{directory} is no directory that only its user can read")


def has_room(directory: str, size: int) -> bool:
    """Return whether a file of `size` bytes leaves enough space there."""
    space = os.statvfs(directory)
    return space.f_bavail * space.f_frsize - size >= _LEAST_FREE


def write_unsynced(path: str, data: bytes) -> None:
    """Write a file in place of whatever has its name. It is not synced, unlike those of
    `write_output`: its reader must find out whether it is whole. Raises OSError, and then leaves
    no file: half of one would take space on a full disk.
    """
    with suppress(FileNotFoundError):
        os.unlink(path)  # not opened: a pipe of this name would block
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(path, flags, PRIVATE)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
    except OSError:
        os.unlink(path)
        raise


def read_private(path: str, most: int) -> bytes:
    """Return a file of at most `most` bytes. Raises OSError for a longer one and for anything but a
    regular file.
    """
    data = read_output(path, most=most + 1)
    if len(data) > most:
        raise OSError(f"{path} has more than {most} bytes")
    return data
