"""Read files as another user, so that nothing is reached that this user could not reach.

A run as root reads paths that a file of the broker's user names. A look at the mode of a file does
not show whether its owner may enter the directories above it. So the kernel decides: a thread
takes the identity of the user for file access, and gives it up when it ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from winnow.storage.guarded import status_of
from winnow.storage.permissions import user_name

_T = TypeVar("_T")
_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "s390x": 206, "ppc64le": 81}
"""Numbers of the system call. The function of the C library changes all threads."""
_NO_GROUP = 65534
_ASK = -1
"""Changes nothing: the calls return what is set."""


def writer_of(paths: Iterable[str]) -> int | None:
    """Return the user who may have written what lies at the end of these paths, a file and the
    directories above it: the only owner besides root. None if there are several, or if others may
    write where root is the only owner.
    """
    found = [status_of(path) for path in paths]
    users = {status.st_uid for status in found} - {0}
    if users:
        return users.pop() if len(users) == 1 else None
    shared = any(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for status in found)
    return None if shared else 0


def call_as(user: int, work: Callable[[], _T]) -> _T:
    """Call `work` and return its result. Its file access is that of `user`, if another user than
    this process's wrote down what to read. Root may have named any file.

    Raises PermissionError if this process can't act as that user.
    """
    if user in {0, os.geteuid()}:
        return work()
    group, groups = _groups_of(user)

    def run() -> _T:
        _become(user, group, groups)
        return work()

    with ThreadPoolExecutor(1, thread_name_prefix="winnow-as-user") as thread:
        return thread.submit(run).result()


@contextmanager
def acting_as(user: int, group: int) -> Iterator[None]:
    """Access files as `user`, in this thread, for the block. For a few calls: `call_as` costs a
    thread. Raises PermissionError if this process can't act as that user.
    """
    before = (os.geteuid(), os.getegid(), os.getgroups())
    try:
        _become(user, group, ())
        yield
    finally:
        _become(*before)


def _groups_of(user: int) -> tuple[int, list[int]]:
    try:
        entry = pwd.getpwuid(user)
    except KeyError:
        return _NO_GROUP, []
    return entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)


def _become(user: int, group: int, groups: Sequence[int]) -> None:
    """Take the identity, for file access of this thread and of threads that it starts."""
    library = _library()
    number = _SETGROUPS.get(os.uname().machine)
    if number is None:
        raise _refused(user, errno.ENOSYS)
    ids = (ctypes.c_uint * len(groups))(*groups)
    if library.syscall(ctypes.c_long(number), ctypes.c_size_t(len(groups)), ids) != 0:
        raise _refused(user, ctypes.get_errno())
    library.setfsgid(group)
    library.setfsuid(user)
    if (library.setfsgid(_ASK), library.setfsuid(_ASK)) != (group, user):
        raise _refused(user, errno.EPERM)


def _refused(user: int, number: int) -> PermissionError:
    words = f"this run can't read files as user {user_name(user)}: {os.strerror(number)}"
    return PermissionError(errno.EPERM, words)


@cache
def _library() -> Any:  # noqa: ANN401 - what ctypes makes of a C library has no type
    """Return the C library. Its calls concern the calling thread alone."""
    return ctypes.CDLL(None, use_errno=True)
