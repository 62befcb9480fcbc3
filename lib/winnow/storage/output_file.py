"""Write what a run reports about itself: results, reports, metrics, events.

These files name topics, groups and hosts. So only their owner may read new ones, unless the caller
says otherwise. Their directory may be one that others write to, such as /tmp: links are never
followed. Only a regular file is ever replaced: a link, a device or a pipe stays what it is.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from winnow.errors import NO_SPACE, NoSpaceError, UsageError, WinnowError
from winnow.storage.guarded import held, kind_of
from winnow.storage.permissions import user_name
from winnow.storage.turns import sync

PRIVATE = 0o600
READABLE = 0o644
"""Mode of files for other programs. The umask still applies."""
MOST_READ = 16 * 2**20
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_A_LOG_DIR_HAS = "meta.properties"


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that the user wants from a run. It is complete or absent, and errors say which option
    named it.
    """

    path: str
    option: str
    what: str
    """What is in it, as in `the result`."""
    mode: int = PRIVATE

    def check(
        self, log_dirs: Sequence[str] = (), *, room: int | None = None, appended: bool = False
    ) -> None:
        """Raise UsageError if the file can't be written, or `appended` to. For use before a log is
        changed.

        A full disk is no mistake, because the run may free it. With `room`, it is one: raises
        NoSpaceError unless this many bytes can be written beside it.
        """
        refuse_in_log_dir(self.path, log_dirs)
        try:
            _check_replaceable(self.path)
            if appended:
                with suppress(FileNotFoundError):
                    _check_private(os.lstat(self.path), self.path)
            _try_beside(self.path, room or 0)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise UsageError(
                    f"{self.option} can't be written",
                    expected="a regular file, or no file yet, in a directory that you may write to",
                    found=error.strerror,
                    where=self.path,
                    hint=f"Name another file with {self.option}.",
                ) from error
            if room is not None:
                raise self._failed(error) from error

    def write(self, data: bytes) -> None:
        """Write the whole file. Raises WinnowError; then what was there before is still there."""
        with self._reporting(), replacing(self.path, mode=self.mode) as file:
            file.write(data)

    def append(self, data: bytes) -> None:
        """Append all of the data to a regular file, or nothing; create a missing one. Raises
        WinnowError, also for a file of any other kind.
        """
        with self._reporting(), held(self.open_appended(), self.path) as fd:
            append_whole(fd, data)

    def open_appended(self) -> int:
        """Open the file to append private text; create a missing one. Raises OSError for anything
        but a regular file, and for one that another user may have made to read along.
        """
        fd = os.open(self.path, _FLAGS | os.O_APPEND | os.O_NONBLOCK, PRIVATE)
        try:
            _check_regular(fd, self.path)
            _check_private(os.fstat(fd), self.path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def remove(self) -> None:
        """Remove an older file of this name, if there is one. Raises WinnowError."""
        with self._reporting(), suppress(FileNotFoundError):
            os.unlink(self.path)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> WinnowError:
        full = error.errno in NO_SPACE
        return (NoSpaceError if full else WinnowError)(
            f"{self.what} could not be written",
            expected="free space" if full else "a regular file in a directory that can be written",
            found=error.strerror or str(error),
            where=self.path,
            hint=f"Free space there, or name a file on another disk with {self.option}."
            if full
            else f"Name another file with {self.option}.",
        )


def refuse_in_log_dir(path: str, log_dirs: Sequence[str]) -> None:
    """Raise UsageError if the file would be in one of the directories, however their paths are
    written, or in any other directory of a broker.
    """
    known = {os.path.realpath(log_dir) for log_dir in log_dirs}
    for directory in map(str, Path(os.path.realpath(path)).parents):
        if directory in known or os.path.isfile(f"{directory}/{_A_LOG_DIR_HAS}"):
            raise UsageError(
                "an output file can't be inside a log directory",
                expected="a file elsewhere",
                found=path,
                where=directory,
                hint="A broker refuses to start if it finds an unknown file.",
            )


def write_output(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a whole file, like `replacing`."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: str | os.PathLike[str], *, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Yield a file that gets its name when the block ends without an error. It is on stable storage
    then.

    Replaces a regular file of that name. Raises OSError, also if the name is that of a link, a
    directory, a pipe or a device.
    """
    target = os.fspath(path)
    _check_replaceable(target)
    begun = _beside(target)
    fd = os.open(begun, _FLAGS | os.O_EXCL, mode)
    try:
        with open(fd, "wb") as file:
            yield file
            file.flush()
            sync(fd)
        _check_replaceable(target)
        os.rename(begun, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(begun)
        raise
    # The content is there. Whether its name survives a power failure is not worth an error.
    flags, place = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, os.path.dirname(target) or "."
    with suppress(OSError), held(os.open(place, flags), place) as above:
        sync(above)


def append_whole(fd: int, data: bytes) -> None:
    """Write all of the data to a file opened with O_APPEND, or remove what was written of it.

    Raises OSError.
    """
    before, view = os.fstat(fd).st_size, memoryview(data)
    try:
        while view.nbytes:
            view = view[os.write(fd, view) :]
    except BaseException:
        # Unless another process has appended meanwhile.
        if os.fstat(fd).st_size == before + len(data) - view.nbytes:
            with suppress(OSError):
                os.ftruncate(fd, before)
        raise


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


def _check_replaceable(path: str) -> None:
    """Raise OSError unless the name is free or that of a regular file."""
    if not os.path.basename(path):
        raise OSError(errno.EISDIR, "this is a directory", path)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"this is {kind_of(status)}", path)


def _beside(path: str) -> str:
    """Return a new name in the same directory. Short, because the file's own name may have the
    maximum length.
    """
    return os.path.join(os.path.dirname(path), f".winnow-{secrets.token_hex(8)}.tmp")


def _try_beside(path: str, room: int) -> None:
    """Create a file of this size beside it, and remove it. Raises OSError."""
    probe = _beside(path)
    fd = os.open(probe, _FLAGS | os.O_EXCL, PRIVATE)
    try:
        if room:
            os.posix_fallocate(fd, 0, room)
    finally:
        os.close(fd)
        os.unlink(probe)


def _check_private(status: os.stat_result, path: str) -> None:
    """Raise OSError unless the file is this user's or root's, has one name, and can be read and
    changed by no others. Its group may: the user has chosen it.
    """
    found = None
    if status.st_uid not in {0, os.geteuid()}:
        found = f"it belongs to user {user_name(status.st_uid)}"
    elif status.st_mode & stat.S_IRWXO:
        found = "everybody can read or change it: `chmod o=` takes that away"
    elif status.st_nlink > 1:
        found = f"it has {status.st_nlink} names"
    if found is not None:
        raise PermissionError(errno.EPERM, found, path)


def _check_regular(fd: int, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "this is not a regular file", os.fspath(path))
