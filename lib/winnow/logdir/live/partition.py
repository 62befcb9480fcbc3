"""Open the files of a partition while its broker runs, all as of one moment (S8.11)."""

from __future__ import annotations

import fcntl
import os
import resource
import time
from contextlib import ExitStack, suppress
from dataclasses import replace

from winnow.clock import now_ms
from winnow.errors import CorruptLogError
from winnow.logdir.live.active_segment import Stopped, as_stopped
from winnow.logdir.names import (
    CLEANED,
    DELETED,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    SWAP,
    is_staging,
)
from winnow.storage.contract import Entry
from winnow.storage.guarded import open_file
from winnow.storage.live.read_view import Files, ViewedFile, with_content
from winnow.storage.local import LocalStorage, entry_of

_LOCAL = LocalStorage()
ATTEMPTS = 8
IN_PROGRESS = (CLEANED, SWAP, DELETED)
"""Suffixes of files that a running broker is about to rename or to delete."""
_SMALL = (LEADER_EPOCHS, PARTITION_METADATA)
"""Files whose content is part of the view: the broker replaces them by a rename."""
_LEAST_DESCRIPTOR = 1024
"""Lower numbers are left to sockets: `select`, which PySpark calls, takes no higher ones."""
_NEW_MS = 60_000
"""A partition without `partition.metadata` that is older is not being created."""
_PAUSE_SECONDS = 0.05
"""Between two attempts to read a partition that is being created."""
_SPARE_DESCRIPTORS = 512
"""Descriptors that are left to the rest of the process."""


class ChangingError(Exception):
    """A partition changed during each attempt to read it."""


class Descriptors:
    """The open files of a view, up to the limit of the process."""

    def __init__(self, opened: ExitStack) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        used = max(_LEAST_DESCRIPTOR, *map(int, os.listdir("/proc/self/fd")))
        self._left = max(0, soft - used - _SPARE_DESCRIPTORS)
        self._opened = opened

    def keep(self, descriptor: int | None) -> int | None:
        """Keep a descriptor open until the view is gone. At the limit, close it and return None."""
        if descriptor is None:
            return None
        if self._left == 0:
            os.close(descriptor)
            return None
        self._left -= 1
        kept = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LEAST_DESCRIPTOR)
        os.close(descriptor)
        self._opened.callback(os.close, kept)
        return kept


def small_content(path: str) -> bytes | None:
    """Return a small file. None: there is none, or readers report what is wrong with it."""
    with suppress(OSError, CorruptLogError):
        return _LOCAL.read_bytes(path)
    return None


def open_partition(path: str, descriptors: Descriptors) -> Stopped:
    """Return the files of a partition at a moment at which none of its closed segments changed.

    Raises FileNotFoundError if the directory is gone, and ChangingError.
    """
    for _ in range(ATTEMPTS):
        with ExitStack() as attempt:
            files = _attempt(path, attempt)
            if files is None:
                continue
            if _is_being_created(files):
                time.sleep(_PAUSE_SECONDS)
                continue
            attempt.pop_all()
            kept = {
                name: replace(file, descriptor=descriptors.keep(file.descriptor))
                for name, file in files.items()
            }
            return as_stopped(path, kept)
    raise ChangingError


def _is_being_created(files: Files) -> bool:
    """Return whether the broker is creating the partition: it creates the first, empty segment
    before `partition.metadata`.
    """
    logs = [file.entry for name, file in files.items() if name.endswith(LOG)]
    if PARTITION_METADATA in files or any(log.size for log in logs):
        return False
    now = now_ms()
    return now - max((log.mtime_ms for log in logs), default=now) < _NEW_MS


def _attempt(path: str, opened: ExitStack) -> Files | None:
    """List the directory, open the files, and list it again. None: it changed meanwhile."""
    identity = small_content(f"{path}/{PARTITION_METADATA}")
    listed = _listed(path)
    active = max((name for name in listed if name.endswith(LOG)), default="").removesuffix(LOG)
    files: Files = {}
    for name, entry in listed.items():
        file = _opened(path, entry, opened)
        if file is None or not (may_grow(name, active) or is_same(file.entry, entry)):
            return None
        files[name] = file
    again = _listed(path)
    same = listed.keys() == again.keys() and all(
        may_grow(name, active) or is_same(again[name], entry) for name, entry in listed.items()
    )
    return files if same and small_content(f"{path}/{PARTITION_METADATA}") == identity else None


def _opened(path: str, entry: Entry, opened: ExitStack) -> ViewedFile | None:
    """Open a listed file. None: it is gone."""
    at = f"{path}/{entry.name}"
    if not entry.is_file:
        return ViewedFile(entry)
    if entry.name in _SMALL:
        data = small_content(at)
        return None if data is None else with_content(entry, data)
    try:
        descriptor = open_file(at)
    except FileNotFoundError:
        return None
    except (OSError, CorruptLogError):  # readers report why
        return ViewedFile(entry)
    opened.callback(os.close, descriptor)
    return ViewedFile(entry_of(entry.name, os.fstat(descriptor)), descriptor=descriptor)


def may_grow(name: str, active: str) -> bool:
    """Return whether a broker may write to a file or replace it while its partition is at rest."""
    of_active = bool(active) and name.startswith(active) and not name.endswith(SNAPSHOT)
    return of_active or name in _SMALL


def is_same(one: Entry, other: Entry) -> bool:
    """Return whether two entries are of the same file with the same bytes."""
    if not other.is_file:
        return True
    return (one.size, one.stamp[1:3]) == (other.size, other.stamp[1:3])


def _listed(path: str) -> dict[str, Entry]:
    """Return what is in a partition directory, without work in progress: the broker's, and what
    Winnow prepares (S8.12) or had staged when it was interrupted.
    """
    return {
        entry.name: entry
        for entry in _LOCAL.list_dir(path)
        if not entry.name.endswith((*IN_PROGRESS, ".tmp"))
        and not (entry.is_dir and is_staging(entry.name))
        # An entry without a type was deleted during the listing.
        and (entry.is_file or entry.is_dir or entry.is_link or entry.stamp)
    }
