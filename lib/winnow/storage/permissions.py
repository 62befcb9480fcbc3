"""Whether this process may replace files of a directory, and what it may do that a broker's own
user may.

A broker never changes owners. It writes a new file as itself and renames it over the old one. So a
run as the broker's user may do the same, even where it can't keep the old file's group. A run as
another user may not: the broker could not write the new files.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from contextlib import suppress

from winnow.storage.guarded import status_of
from winnow.storage.urls import is_remote


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
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        owner = user_name(status_of(directory).st_uid)
        return (
            f"user {user_name(os.geteuid())} may not write to {directory}, which belongs to user "
            f"{owner}. Check its mode, and whether it is mounted read-only; or run as user {owner}"
        )
    if os.geteuid() == 0:
        return None
    for name in names:
        path = f"{directory}/{name}"
        with suppress(FileNotFoundError):
            status = status_of(path)
            if not may_stand_in(path, status):
                owner = user_name(status.st_uid)
                return (
                    f"{path} belongs to user {owner}, and a new file of user "
                    f"{user_name(os.geteuid())} can't take its place. Run as user {owner}, or as "
                    "root"
                )
    return None


def user_name(uid: int) -> str:
    """Return the name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
