"""Open files on this machine without ever following a symbolic link.

The paths of a run are canonical: `Storage.canonical` resolves links in the user's paths once. A
link found later was put there by somebody else and leads outside this log directory. The
directory's owner may put it there at any moment. So no path is checked first and opened afterwards:
the kernel refuses links while it opens the file. Type, size, owner and mode are read from the
descriptor.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from typing import Any

from winnow.errors import CorruptLogError, LinkError

_OPENAT2 = 437
"""Number of the system call; the same on every architecture."""
_HOW = struct.Struct("@QQQ")
"""`struct open_how`: flags, mode, resolve."""
_NO_SYMLINKS = 0x04
_SEE = os.O_PATH | os.O_NOFOLLOW
_KINDS = (
    (stat.S_ISREG, "a regular file"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda _: True, "a device"),
)


class _Kept(threading.local):
    def __init__(self) -> None:
        self.open: dict[str, int] = {}
        """Descriptors of directories, by path."""


_kept = _Kept()


@contextmanager
def kept_open(*directories: str) -> Iterator[None]:
    """Keep directories of this machine open in this thread. In the block, what lies right in them
    is found there, without another walk down the path: a commit asks a hundred times. It is found
    there also after somebody has renamed a directory, so a change needs the lock.
    """
    with ExitStack() as closing:
        for path in directories:
            if path.startswith("/") and path not in _kept.open:
                descriptor = open_guarded(path, os.O_RDONLY | os.O_DIRECTORY)
                closing.callback(os.close, descriptor)
                closing.callback(_kept.open.pop, path)
                _kept.open[path] = descriptor
        yield


def _from_kept(path: str) -> tuple[int | None, str]:
    """Return the descriptor of the directory of a path, if it is kept open, and the name there."""
    directory, _, name = path.rpartition("/")
    return _kept.open.get(directory) if name else None, name


def open_guarded(path: str, flags: int) -> int:
    """Open like `os.open`, with O_CLOEXEC. LinkError if `path` is a link or leads through one.

    With O_PATH and O_NOFOLLOW it may be a link itself. Never waits for the other end of a pipe.
    Creates nothing: `winnow.storage.creating` does that.
    """
    flags |= os.O_CLOEXEC | (0 if flags & os.O_PATH else os.O_NONBLOCK | os.O_NOCTTY)
    above, name = _from_kept(path)
    try:
        if above is not None and not flags & (os.O_PATH | os.O_DIRECTORY):
            return os.open(name, flags | os.O_NOFOLLOW, dir_fd=above)
        return _openat2(path, flags) if _has_openat2() else _open_by_steps(path, flags)
    except OSError as error:
        error.filename = path
        if error.errno == errno.ELOOP:
            raise link_on(path) from None
        raise


def open_file(path: str, flags: int = os.O_RDONLY) -> int:
    """Open an existing regular file. CorruptLogError for anything else of this name."""
    try:
        descriptor = open_guarded(path, flags)
    except OSError as error:
        # It is a socket, a pipe without a reader, or a directory opened for writing.
        if error.errno in {errno.ENXIO, errno.EISDIR}:
            raise not_a_file(path, status_of(path)) from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise not_a_file(path, status)
    return descriptor


def create_whole_path(path: str, mode: int) -> int:
    """Create a file for writing by one call, and return its descriptor. Unlike in
    `winnow.storage.creating`, no descriptor of its directory is held, which a broker may be
    removing. FileExistsError if the name is taken, LinkError if the path leads through a link.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return _openat2(path, flags, mode) if _has_openat2() else os.open(path, flags, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise link_on(path) from None
        raise


def open_dir(path: str) -> int:
    """Open a directory to list or sync it."""
    return open_guarded(path, os.O_RDONLY | os.O_DIRECTORY)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Give OSErrors of the block this path."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


class _Held(AbstractContextManager[int]):
    """A descriptor that is closed when the block ends, unless it is `kept` open longer."""

    __slots__ = ("_descriptor", "_kept", "_path")

    def __init__(self, descriptor: int, path: str, *, kept: bool = False) -> None:
        self._descriptor, self._path, self._kept = descriptor, path, kept

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not self._kept:
            os.close(self._descriptor)
        if isinstance(error, OSError):
            error.filename = self._path


def held(descriptor: int, path: str) -> AbstractContextManager[int]:
    """Close a descriptor when the block ends. OSErrors of the block get the path."""
    return _Held(descriptor, path)


def opened_dir(path: str) -> AbstractContextManager[int]:
    """Open a directory to list or sync it in the block."""
    descriptor = _kept.open.get(path)
    kept = descriptor is not None
    return _Held(open_dir(path) if descriptor is None else descriptor, path, kept=kept)


class _Parent(AbstractContextManager[tuple[int, str]]):
    __slots__ = ("_descriptor", "_kept", "_name", "_path")

    def __init__(self, path: str) -> None:
        directory, _, name = path.rstrip("/").rpartition("/")
        descriptor = _kept.open.get(directory)
        self._path, self._name, self._kept = path, name, descriptor is not None
        if descriptor is None:
            above = directory or ("/" if path.startswith("/") else ".")
            descriptor = open_guarded(above, os.O_PATH | os.O_DIRECTORY)
        self._descriptor = descriptor

    def __enter__(self) -> tuple[int, str]:
        return self._descriptor, self._name

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not self._kept:
            os.close(self._descriptor)
        if isinstance(error, OSError) and error.filename == self._name:
            error.filename = self._path


def parent_of(path: str) -> AbstractContextManager[tuple[int, str]]:
    """Open the directory of a name. The block gets its descriptor and the name, for calls on the
    name.
    """
    return _Parent(path)


def status_of(path: str) -> os.stat_result:
    """Return the status of the name itself, which may be a link."""
    above, name = _from_kept(path)
    if above is None:
        with held(open_guarded(path, _SEE), path) as descriptor:
            return os.fstat(descriptor)
    try:
        return os.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError as error:
        error.filename = path
        raise


def may_access(path: str, wanted: int) -> bool:
    """Return whether this process may use a file or directory so (`os.access`). A link: False."""
    above, name = _from_kept(path)
    if above is not None:
        is_link = stat.S_ISLNK(status_of(path).st_mode)
        return not is_link and os.access(name, wanted, dir_fd=above, effective_ids=True)
    with held(open_guarded(path, _SEE), path) as descriptor:
        return os.access(f"/proc/self/fd/{descriptor}", wanted, effective_ids=True)


def kind_of(status: os.stat_result) -> str:
    return next(name for is_one, name in _KINDS if is_one(status.st_mode))


def not_a_file(path: str, status: os.stat_result) -> CorruptLogError:
    return CorruptLogError(
        "not a regular file",
        expected="a regular file",
        found=kind_of(status),
        where=path,
        hint="Kafka puts only files and directories there. Find out who made it, and move it "
        "elsewhere.",
    )


def link_on(path: str) -> LinkError:
    """Return the error for a path through a link. It names the link if that can be found."""
    parts = path.split("/")
    starts = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return LinkError(
        "a path leads through a symbolic link",
        expected="files and directories only",
        found="a symbolic link",
        where=next((start for start in starts if start and os.path.islink(start)), path),
        hint="Winnow follows no links inside a log directory, because its lock does not guard "
        "their targets. Put the files themselves there.",
    )


@cache
def _has_openat2() -> bool:
    """Return whether openat2 works. Linux has it since 5.6; a container may forbid it."""
    try:
        os.close(_openat2("/", os.O_PATH | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return False
    return True


@cache
def _syscall() -> Any:  # noqa: ANN401 - what ctypes makes of a C function has no type
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    call.restype = ctypes.c_long
    return call


def _openat2(path: str, flags: int, mode: int = 0) -> int:
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    how = _HOW.pack(flags, mode, _NO_SYMLINKS)
    while True:
        descriptor: int = _syscall()(_OPENAT2, _AT_FDCWD, name, how, _HOW.size)
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)


_AT_FDCWD = -100


def _open_by_steps(path: str, flags: int) -> int:
    """The plain twin of `_openat2`: opens each directory relative to the last."""
    *steps, name = [step for step in path.split("/") if step not in {"", "."}] or ["."]
    at = os.open("/" if path.startswith("/") else ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps:
            below = os.open(step, _SEE | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
            _refuse_link(os.fstat(at))
        if flags & _SEE != _SEE:
            _refuse_link(os.stat(name, dir_fd=at, follow_symlinks=False))
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=at)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(at)


def _refuse_link(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def link_target(path: str) -> str | None:
    """Return where a symbolic link leads, as an absolute path that may not exist. None if the path
    is no link.
    """
    try:
        target = os.readlink(path)
    except (OSError, ValueError):
        return None
    return os.path.normpath(os.path.join(os.path.dirname(path), target))
