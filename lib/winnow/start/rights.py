"""Whether the broker may read and write its files. It is taken to run as the owner of the log
directory: Winnow often runs as root, and files that root has written are a broker's trouble. If
another user has written the high watermarks, nothing tells which of both it runs as.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from winnow.logdir.names import (
    HIGH_WATERMARK_CHECKPOINT,
    INDEX,
    INDEX_SUFFIXES,
    LEADER_EPOCHS,
    LOCK,
    LOG,
    OFFSET_CHECKPOINTS,
    TIMEINDEX,
    TXNINDEX,
    DirectoryKind,
)
from winnow.logdir.unflushed import unflushed_from
from winnow.start.files import loader_offset
from winnow.start.loaded import LogToLoad
from winnow.start.values import Fate
from winnow.storage.contract import Storage
from winnow.storage.guarded import kept_open, may_access, status_of
from winnow.storage.permissions import user_name, why_unchangeable

_ALL = os.R_OK | os.W_OK | os.X_OK


@dataclass(frozen=True, slots=True)
class Forbidden:
    """What the broker may not do, and what follows."""

    words: str
    fate: Fate


def users_of(log_dir: str) -> tuple[int, ...]:
    """Return the users as whom the broker of a log directory may run."""
    found = dict[int, None]()
    for path in (log_dir, f"{log_dir}/{HIGH_WATERMARK_CHECKPOINT}"):
        with suppress(OSError):  # such as a checkpoint that is missing, or a link
            found[status_of(path).st_uid] = None
    return (*found,)


def why_not_loaded(storage: Storage, log: LogToLoad) -> Forbidden | None:
    """Return why a broker can't load a log for lack of rights, or None if it can.

    `LogLoader` asks of each file whether it can be read. It opens each log and transaction index to
    write, the other indexes of the last log, and those of each log that it recovers. The first
    thing that a leader writes is its epoch, in a file beside them.
    """
    return _of_users(log.users, lambda user: _problems(storage, user, log))


def why_not_used(log_dir: str) -> Forbidden | None:
    """Return why a broker can't use a log directory for lack of rights: it writes `.lock` when it
    starts, and the checkpoints some seconds later.
    """
    return _of_users(users_of(log_dir), lambda user: _problems_of_dir(user, log_dir))


def _of_users(users: Sequence[int], problems: Callable[[int], Iterator[str]]) -> Forbidden | None:
    found = dict[int, str | None]()
    for user in users:
        with suppress(OSError):  # such as a file that has gone meanwhile
            found[user] = next(problems(user), None)
    words = [problem for problem in found.values() if problem is not None]
    if not words:
        return None
    if len(words) == len(found):
        return Forbidden(words[0], Fate.OFFLINE)
    others = " or ".join(user_name(uid) for uid, one in found.items() if one is None)
    return Forbidden(
        f"{words[0]}; it is not known whether the broker runs as {others}", Fate.UNKNOWN
    )


def _problems_of_dir(user: int, log_dir: str) -> Iterator[str]:
    who = f"user {user_name(user)}, who owns {log_dir} or its files,"
    if not _may(user, log_dir, _ALL):
        yield why_unchangeable(log_dir) or f"{who} may not write into it"
    for name in (LOCK, *(f"{checkpoint}.tmp" for checkpoint in OFFSET_CHECKPOINTS)):
        with suppress(FileNotFoundError):
            path = f"{log_dir}/{name}"
            if not _may(user, path, os.W_OK):
                yield why_unchangeable(path) or f"{who} may not write {name}"


def _problems(storage: Storage, user: int, log: LogToLoad) -> Iterator[str]:
    who = f"user {user_name(user)}, who owns the log directory or its files,"
    directory = log.directory
    if not _may(user, directory, _ALL):
        yield why_unchangeable(directory) or f"{who} may not read and write {directory}"
    entries = {entry.name: entry for entry in storage.list_dir(directory) if not entry.is_link}
    logs = sorted(name for name in entries if name.endswith(LOG))
    recovered = [] if log.clean_shutdown else logs[_flushed(logs, log.recovery_point) :]
    stems = [name.removesuffix(LOG) for name in recovered]
    written = {f"{stem}{suffix}" for stem in stems for suffix in INDEX_SUFFIXES}
    written |= {
        f"{name.removesuffix(LOG)}{one}" for name in logs[-1:] for one in (INDEX, TIMEINDEX)
    }
    if log.kind in {DirectoryKind.CURRENT, DirectoryKind.FUTURE}:
        written.add(f"{LEADER_EPOCHS}.tmp")
    with kept_open(directory):
        for name, entry in entries.items():
            is_written = name.endswith((LOG, TXNINDEX)) or name in written
            wanted = os.R_OK | os.W_OK if is_written else os.R_OK
            path = f"{directory}/{name}"
            if not entry.is_link and not _may(user, path, wanted):
                words = f"{who} may not {'read and write' if is_written else 'read'} {name}"
                yield why_unchangeable(path) or words
    epochs = entries.get(f"{LEADER_EPOCHS}.tmp")
    if epochs is not None and epochs.is_dir and epochs.name in written:
        yield f"{epochs.name} is a directory, where the broker writes a file"


def _flushed(logs: list[str], recovery_point: int) -> int:
    return unflushed_from([loader_offset(name) for name in logs], recovery_point)


def _may(user: int, path: str, wanted: int) -> bool:
    """Membership in other groups is not known, and counts for the broker."""
    if user in {0, os.geteuid()}:
        return may_access(path, wanted)
    # Root may write every file but those that nobody may change.
    if os.geteuid() == 0 and wanted & os.W_OK and not may_access(path, os.W_OK):
        return False
    found = status_of(path)
    mode = stat.S_IMODE(found.st_mode)
    if user == found.st_uid:
        return (mode >> 6) & wanted == wanted
    return (mode >> 3) & wanted == wanted or mode & wanted == wanted
