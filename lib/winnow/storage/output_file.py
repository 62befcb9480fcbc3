"""Write what a run reports about itself: results, reports, metrics, events.

These files name topics, groups and hosts. So only their owner may read new ones, unless the caller
says otherwise. Their directory may be one that others write to, such as /tmp: links are never
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
"""Mode of files for other programs. The umask still applies."""
MOST_READ = 16 * 2**20
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def write_output(path: str | os.PathLike[str], data: bytes, *, mode: int = PRIVATE) -> None:
    """Write a whole file, like `replacing`."""
    with replacing(path, mode=mode) as file:
        file.write(data)


@contextmanager
def replacing(path: str | os.PathLike[str], *, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Yield a file that gets its name when the block ends without an error. It is on stable storage
    then.

    Replaces what has the name; a link is replaced, but not its target. Raises OSError.
    """
    target = os.fspath(path)
    directory, name = os.path.split(target)
    # Short, because the file's own name may have the maximum length.
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
    # The content is there. Whether its name survives a power failure is not worth an error.
    with suppress(OSError):
        _sync_directory(directory or ".")


def append_output(path: str | os.PathLike[str], data: bytes) -> None:
    """Append to a regular file; create a missing one. Raises OSError for any other kind."""
    fd = os.open(path, _FLAGS | os.O_APPEND | os.O_NONBLOCK, PRIVATE)
    try:
        _check_regular(fd, path)
        view = memoryview(data)
        while view.nbytes:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


def read_output(path: str | os.PathLike[str], *, most: int = MOST_READ) -> bytes:
    """Return what an earlier run wrote, up to `most` bytes. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        _check_regular(fd, path)
        return file.read(most)


def open_lock(path: str | os.PathLike[str]) -> int:
    """Return the descriptor of an empty lock file, for any user who may read its directory."""
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
