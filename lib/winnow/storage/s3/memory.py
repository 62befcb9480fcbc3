"""What this process knows of the objects of a bucket, so that it need not ask again.

A listing is a snapshot of a directory. What it names is read on the condition that it still has the
same tag (`If-Match`), or is remembered by its tag: an object with the same tag has the same bytes.
So a reader reads the directory as it was listed, or notices that it has changed. That an object is
missing is never remembered. Listings are forgotten after a while, and where a run or a stage of its
tasks begins (`Storage.forget`).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

GOOD_S = 30.0
"""Seconds after which a listing is too old."""
_MOST_OBJECTS = 100_000
_MOST_TIMES = 100_000
_MOST_BYTES = 32 * 2**20
Identity: TypeAlias = tuple[str, int, int]
"""Key, size, and `stamp_of` the tag. Objects with the same identity have the same bytes."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as a request found it. Size in bytes, time in ns since the epoch."""

    key: str
    size: int
    etag: str
    modified_ns: int

    @property
    def identity(self) -> Identity:
        return self.key, self.size, stamp_of(self.etag)


@lru_cache(100_000)
def stamp_of(etag: str) -> int:
    """Return a number for a tag. The same bytes, written again, have the same tag."""
    return int.from_bytes(hashlib.sha256(etag.encode()).digest()[:8])


def parent(key: str) -> str:
    return key.rpartition("/")[0]


def name_of(key: str) -> str:
    return key.rpartition("/")[2]


def inside(directory: str) -> str:
    """Return the prefix of all keys in a directory. The whole bucket is a directory, too."""
    return f"{directory}/" if directory else ""


def key_of(directory: str, name: str) -> str:
    return inside(directory) + name


def covers(directory: str, key: str) -> bool:
    """Return whether a key is that of the directory or lies below it."""
    return f"{key}/".startswith(inside(directory))


@dataclass(slots=True)
class _Directory:
    objects: dict[str, Stored] = field(default_factory=dict)
    """By key: those directly in the directory."""
    since: float = field(default_factory=time.monotonic)
    """When it was listed, or first written to."""


class Memory:
    """Threads may use it at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._directories: OrderedDict[str, _Directory] = OrderedDict()
        self._objects = 0
        """Known objects of all directories."""
        self._times: dict[Identity, tuple[int, int | None]] = {}
        """The time in the metadata, and that of the upload if a listing told it."""
        self._beginnings: OrderedDict[Identity, bytes] = OrderedDict()
        self._bytes = 0

    def find(self, key: str) -> Stored | None:
        """Return an object as it was last seen. None if it is unknown, or that was too long ago."""
        known = self._directories.get(parent(key))
        if known is None or time.monotonic() - known.since > GOOD_S:
            return None
        return known.objects.get(key)

    def known_in(self, directory: str) -> list[Stored]:
        """Return the known objects directly below a prefix."""
        with self._lock:
            return [*self._directories.get(directory, _Directory()).objects.values()]

    def list_as(self, directory: str, objects: Iterable[Stored]) -> None:
        """Remember a listing, instead of all that was known there."""
        with self._lock:
            self._drop(directory)
            listed = _Directory({one.key: one for one in objects})
            self._directories[directory] = listed
            self._objects += len(listed.objects)
            while self._objects > _MOST_OBJECTS and len(self._directories) > 1:
                self._drop(next(iter(self._directories)))

    def add(self, stored: Stored) -> None:
        """Remember an object that this process has written."""
        with self._lock:
            there = self._directories.setdefault(parent(stored.key), _Directory()).objects
            self._objects += stored.key not in there
            there[stored.key] = stored

    def remove(self, *keys: str) -> None:
        with self._lock:
            for key in keys:
                there = self._directories.get(parent(key))
                if there is not None and there.objects.pop(key, None) is not None:
                    self._objects -= 1

    def forget(self, which: Callable[[str], bool] = lambda _: True) -> None:
        """Forget the listings of these directories, by default of all."""
        with self._lock:
            for directory in filter(which, [*self._directories]):
                self._drop(directory)

    def forget_below(self, directory: str) -> None:
        """Forget everything in a directory and its sub-directories."""
        self.forget(lambda at: covers(directory, at))

    def _drop(self, directory: str) -> None:
        if (known := self._directories.pop(directory, None)) is not None:
            self._objects -= len(known.objects)

    def time_of(self, stored: Stored) -> tuple[int | None, bool]:
        """Return the time in the metadata, or that of the upload without one, and whether it is
        known to be of this very upload. None if unknown.

        The same bytes may have been written again, with the same tag and another time.
        """
        mtime_ns, written_ns = self._times.get(stored.identity, (None, None))
        if written_ns is not None and written_ns != stored.modified_ns:
            return None, False
        return mtime_ns, written_ns is not None

    def learn_time(self, of: Identity, mtime_ns: int, written_ns: int | None = None) -> None:
        """Remember the time in the metadata. `written_ns`: when that object was uploaded, if a
        listing told it.
        """
        with self._lock:
            if len(self._times) >= _MOST_TIMES:
                self._times.clear()
            self._times[of] = mtime_ns, written_ns

    def beginning_of(self, stored: Stored, *, once: bool = False) -> bytes | None:
        """Return the first bytes of an object, or all of them. With `once`, forget them."""
        with self._lock:
            found = self._beginnings.pop(stored.identity, None)
            if found is not None and once:
                self._bytes -= len(found)
            elif found is not None:
                self._beginnings[stored.identity] = found
            return found

    def learn_beginning(self, of: Identity, data: bytes) -> None:
        """Remember the first bytes of an object, all of a small one, so that reading them takes no
        request. The oldest are forgotten.
        """
        with self._lock:
            self._bytes += len(data) - len(self._beginnings.pop(of, b""))
            self._beginnings[of] = data
            while self._bytes > _MOST_BYTES:
                self._bytes -= len(self._beginnings.popitem(last=False)[1])
