"""What a run writes about itself: results, reports, metrics, events. One way for all of them.

Topics, groups and hosts have names in there: new files are for their owner only, unless it is said
otherwise. Such a place may be in a directory that others write to, such as /tmp: links are never
followed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

PRIVATE = 0o600
READABLE = 0o644
"""For what another program reads. The umask still counts."""
MOST_READ = 16 * 2**20
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def write_output(path: str | os.PathLike[str], data: bytes, *, mode: int = PRIVATE) -> None:
    """As `replacing`."""
    with replacing(path, mode=mode) as file:
        file.write(data)


@contextmanager
def replacing(path: str | os.PathLike[str], *, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """A file that takes its name when the block ends without an error, and is on stable storage
    then.

    What had the name is replaced, also a link, but not what it leads to. Raises OSError.
    """
    target = os.fspath(path)
    directory, name = os.path.split(target)
    # Short: a file's own name may be as long as names can be.
    begun = os.path.join(directory, f".winnow-{secrets.token_hex(8)}.tmp")
    fd = os.open(begun, _FLAGS | os.O_EXCL, mode)
    try:
        with open(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(fd)
        os.rename(begun, os.path.join(directory, name))
    except BaseException:
        with suppress(OSError):
            os.unlink(begun)
        raise
    with suppress(OSError):  # that the name lasts is worth no error: the content is there
        _sync_directory(directory or ".")


def append_output(path: str | os.PathLike[str], data: bytes) -> None:
    """Adds to a regular file, which is created if it is missing. Raises OSError, also for any other
    kind of file.
    """
    fd = os.open(path, _FLAGS | os.O_APPEND | os.O_NONBLOCK, PRIVATE)
    try:
        _check_regular(fd, path)
        view = memoryview(data)
        while view.nbytes:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


def read_output(path: str | os.PathLike[str]) -> bytes:
    """What an earlier run wrote there, up to `MOST_READ` bytes. Raises OSError, also for what is no
    regular file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        _check_regular(fd, path)
        return file.read(MOST_READ)


def open_lock(path: str | os.PathLike[str]) -> int:
    """Descriptor of an empty file that is there to be locked, by any user who may read its
    directory.
    """
    return os.open(
        path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, READABLE
    )


def _check_regular(fd: int, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "this is not a regular file", os.fspath(path))


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
