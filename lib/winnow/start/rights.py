"""Whether the broker may read and write its files. It is taken to run as the owner of the log
directory: Winnow often runs as root, and files that root has written are a broker's trouble.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from winnow.logdir.names import INDEX, LOG, TIMEINDEX


def why_not_loaded(log_dir: str, directory: str) -> str | None:
    """Return why a broker can't load a log for lack of rights, or None if it can.

    `LogLoader` asks of each file whether it can be read. It opens each log to write, and the
    indexes of the last one. The first thing that a leader writes is its epoch, in a file beside
    them.
    """
    return next(_problems(log_dir, directory), None)


def why_not_used(log_dir: str) -> str | None:
    """Return why a broker can't use a log directory for lack of rights: it writes a lock first."""
    with suppress(FileNotFoundError):
        if not _may(os.stat(log_dir), log_dir, os.R_OK | os.W_OK | os.X_OK):
            return f"{_user(os.stat(log_dir))}, who owns {log_dir}, may not write into it"
    return None


def _problems(log_dir: str, directory: str) -> Iterator[str]:
    try:
        owner = os.stat(log_dir)
        if not _may(owner, directory, os.R_OK | os.W_OK | os.X_OK):
            yield f"{_user(owner)}, who owns {log_dir}, may not read and write {directory}"
        entries = [*os.scandir(directory)]
        active = max((entry.name for entry in entries if entry.name.endswith(LOG)), default="")[:-4]
        for entry in entries:
            written = entry.name.endswith(LOG) or entry.name in {
                f"{active}{INDEX}",
                f"{active}{TIMEINDEX}",
            }
            wanted = os.R_OK | os.W_OK if written else os.R_OK
            if not entry.is_symlink() and not _may(owner, entry.path, wanted):
                what = "read" if wanted == os.R_OK else "read and write"
                yield f"{_user(owner)}, who owns {log_dir}, may not {what} {entry.name}"
    except FileNotFoundError:
        return


def _may(owner: os.stat_result, path: str, wanted: int) -> bool:
    """Membership in other groups is not known, and counts for the broker."""
    if owner.st_uid in {0, os.geteuid()}:
        return os.access(path, wanted, effective_ids=True)
    found = os.stat(path)
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == owner.st_uid:
        return (mode >> 6) & wanted == wanted
    return (mode >> 3) & wanted == wanted or mode & wanted == wanted


def _user(owner: os.stat_result) -> str:
    return f"user {owner.st_uid}"
