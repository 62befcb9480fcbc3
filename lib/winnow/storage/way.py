"""Whether another user of this machine can change where a path leads.

A path can be looked at first only if nobody else can put a link in its place afterwards. Programs
that take paths, such as Delta, offer no better way: they can't be given a descriptor.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from winnow.storage.permissions import user_name

_MOST_LINKS = 40
"""As in Linux."""


def why_not_ours(path: str) -> str | None:
    """Return how another user can change where a path leads, or None if none can. Each directory
    and link on it must belong to this user or to root, and no other user may write there. Above
    the last directory anybody may, where only owners rename (the sticky bit), as in /tmp.

    A group of this user may write and own: for a ledger of several users, its user has made it so.
    What is missing is no reason. Raises OSError.
    """
    path = os.path.abspath(path)
    end = os.path.realpath(path)
    reasons = (_why_not(step, status, end=step == end) for step, status in _way(path))
    return next(filter(None, reasons), None)


def _why_not(step: str, status: os.stat_result, *, end: bool) -> str | None:
    mode, link = status.st_mode, stat.S_ISLNK(status.st_mode)
    shared = not link and mode & stat.S_IWGRP and status.st_gid in {os.getegid(), *os.getgroups()}
    if status.st_uid not in {0, os.geteuid()} and not shared:
        return f"{step} belongs to user {user_name(status.st_uid)}"
    if link or (mode & stat.S_ISVTX and not end):
        return None
    if mode & stat.S_IWOTH:
        return f"anybody can write to {step}"
    if mode & stat.S_IWGRP and not shared:
        return f"a group that {user_name(os.geteuid())} is not in can write to {step}"
    return None


def _way(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each existing directory and symbolic link on an absolute path, with its status."""
    at, rest, links = "/", path.split("/")[::-1], 0
    with suppress(FileNotFoundError):
        while True:
            status = os.lstat(at)
            yield at, status
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                rest += os.readlink(at).split("/")[::-1]
                at = "/" if not rest[-1] else os.path.dirname(at)
                continue
            while rest and rest[-1] in {"", "."}:
                rest.pop()
            if not rest:
                return
            name = rest.pop()
            at = os.path.dirname(at) if name == ".." else os.path.join(at, name)
