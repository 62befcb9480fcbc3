"""Whether this process may replace files of a directory, and what it may do that a broker's own
user may.

A broker never changes owners. It writes a new file as itself and renames it over the old one. So a
run as the broker's user may do the same, even where it can't keep the old file's group. A run as
another user may not: the broker could not write the new files.
"""

from __future__ import annotations

import fcntl
import os
import pwd
from collections.abc import Iterable
from contextlib import suppress

from winnow.errors import LinkError
from winnow.storage.guarded import held, open_guarded, status_of
from winnow.storage.urls import is_remote

_GET_ATTRIBUTES = 0x80086601
"""FS_IOC_GETFLAGS of Linux on 64 bits."""
_ATTRIBUTES = {"i": 0x10, "a": 0x20}
"""As `lsattr` shows them: immutable, and only to be appended to."""


def may_stand_in(like: str, wanted: os.stat_result) -> bool:
    """Return whether a file of this process may replace `like`, whose status is `wanted`: it
    belongs to the same user, or this user owns the directory and may replace every file there.
    """
    user = os.geteuid()
    return user in {wanted.st_uid, status_of(os.path.dirname(like)).st_uid}


def why_not_replaceable(directory: str, names: Iterable[str]) -> str | None:
    """Return why this process can't replace these files of a local directory; None if it can. Files
    that are missing may be created.
    """
    if is_remote(directory):
        return None
    if (why := why_unchangeable(directory)) is not None:
        return why
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        owner = user_name(status_of(directory).st_uid)
        return (
            f"user {user_name(os.geteuid())} may not write to {directory}, which belongs to user "
            f"{owner}. Check its mode, and whether it is mounted read-only; or run as user {owner}"
        )
    is_root = os.geteuid() == 0
    for name in names:
        path = f"{directory}/{name}"
        if (why := why_unchangeable(path)) is not None:
            return why
        with suppress(FileNotFoundError):
            if not is_root and not may_stand_in(path, status := status_of(path)):
                owner = user_name(status.st_uid)
                return (
                    f"{path} belongs to user {owner}, and a new file of user "
                    f"{user_name(os.geteuid())} can't take its place. Run as user {owner}, or as "
                    "root"
                )
    return None


def why_unchangeable(path: str) -> str | None:
    """Return which attribute of a local file or directory keeps everybody from replacing it, root
    included. None if there is none, or none can be seen.
    """
    flags = bytearray(8)
    with suppress(OSError, LinkError), held(open_guarded(path, os.O_RDONLY), path) as descriptor:
        fcntl.ioctl(descriptor, _GET_ATTRIBUTES, flags)
    for letter, flag in _ATTRIBUTES.items():
        if flags[0] & flag:
            return (
                f"{path} can't be changed by anybody, not even root: `lsattr -d {path}` shows the "
                f"attribute {letter}. Find out who set it, and why; `chattr -{letter} {path}` "
                "removes it"
            )
    return None


def user_name(uid: int) -> str:
    """Return the name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
