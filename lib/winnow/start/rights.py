"""Whether the broker may read and write its files. It is taken to run as the owner of the log
directory: Winnow often runs as root, and files that root has written are a broker's trouble.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from winnow.logdir.names import INDEX, LOG, TIMEINDEX
from winnow.storage.contract import Storage
from winnow.storage.guarded import may_access, status_of
from winnow.storage.permissions import user_name

_ALL = os.R_OK | os.W_OK | os.X_OK


def why_not_loaded(storage: Storage, log_dir: str, directory: str) -> str | None:
    """Return why a broker can't load a log for lack of rights, or None if it can.

    `LogLoader` asks of each file whether it can be read. It opens each log to write, and the
    indexes of the last one. The first thing that a leader writes is its epoch, in a file beside
    them.
    """
    with suppress(FileNotFoundError):
        return next(_problems(storage, status_of(log_dir), directory), None)
    return None


def why_not_used(log_dir: str) -> str | None:
    """Return why a broker can't use a log directory for lack of rights: it writes a lock first."""
    with suppress(FileNotFoundError):
        owner = status_of(log_dir)
        if not _may(owner, log_dir, _ALL):
            return f"user {user_name(owner.st_uid)}, who owns {log_dir}, may not write into it"
    return None


def _problems(storage: Storage, owner: os.stat_result, directory: str) -> Iterator[str]:
    who = f"user {user_name(owner.st_uid)}, who owns the log directory,"
    if not _may(owner, directory, _ALL):
        yield f"{who} may not read and write {directory}"
    names = [entry.name for entry in storage.list_dir(directory) if not entry.is_link]
    active = max((name for name in names if name.endswith(LOG)), default="").removesuffix(LOG)
    of_active = {f"{active}{INDEX}", f"{active}{TIMEINDEX}"}
    for name in names:
        written = name.endswith(LOG) or name in of_active
        wanted = os.R_OK | os.W_OK if written else os.R_OK
        if not _may(owner, f"{directory}/{name}", wanted):
            yield f"{who} may not {'read and write' if written else 'read'} {name}"


def _may(owner: os.stat_result, path: str, wanted: int) -> bool:
    """Membership in other groups is not known, and counts for the broker."""
    if owner.st_uid in {0, os.geteuid()}:
        return may_access(path, wanted)
    found = status_of(path)
    mode = stat.S_IMODE(found.st_mode)
    if owner.st_uid == found.st_uid:
        return (mode >> 6) & wanted == wanted
    return (mode >> 3) & wanted == wanted or mode & wanted == wanted
