"""What this process knows of the objects of a bucket, so that it need not ask again.

A listing is a snapshot of a directory. What it names is read on the condition that it still has the
same tag (`If-Match`), or is remembered by its tag: an object with the same tag has the same bytes.
So a reader reads the directory as it was listed, or notices that it has changed. That an object is
missing is never remembered. Listings are forgotten after a while, and where a run or a stage of its
tasks begins (`Remembers.forget`).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from winnow.storage.contract import Entry

GOOD_S = 30.0
"""Seconds after which a listing is too old."""
_MOST_OBJECTS = 100_000
_MOST_TIMES = 100_000
_MOST_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as a request found it. Size in bytes, time in ns since the epoch."""

    key: str
    size: int
    etag: str
    modified_ns: int


@lru_cache(100_000)
def stamp_of(etag: str) -> int:
    """Return a number for a tag. The same bytes, written again, have the same tag."""
    return int.from_bytes(hashlib.sha256(etag.encode()).digest()[:8])


def parent(key: str) -> str:
    return key.rpartition("/")[0]


class Memory:
    """Threads may use it at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._directories: OrderedDict[str, dict[str, Stored]] = OrderedDict()
        self._since: dict[str, float] = {}
        """When each directory was listed, or first written to."""
        self._objects = 0
        self._times: dict[tuple[str, int, int], tuple[int, int | None]] = {}
        """The time in the metadata, and that of the upload if a listing told it."""
        self._beginnings: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0

    def find(self, key: str) -> Stored | None:
        """Return an object as it was last seen. None if it is unknown, or that was too long ago."""
        since = self._since.get(parent(key))
        if since is None or time.monotonic() - since > GOOD_S:
            return None
        return self._directories.get(parent(key), {}).get(key)

    def known_in(self, directory: str) -> list[Stored]:
        """Return the known objects directly below a prefix."""
        with self._lock:
            return [*self._directories.get(directory, {}).values()]

    def list_as(self, directory: str, objects: Mapping[str, Stored]) -> None:
        """Remember a listing, instead of all that was known there."""
        with self._lock:
            self._drop(directory)
            self._directories[directory] = dict(objects)
            self._since[directory] = time.monotonic()
            self._objects += len(objects)
            while self._objects > _MOST_OBJECTS and len(self._directories) > 1:
                self._drop(next(iter(self._directories)))

    def add(self, stored: Stored) -> None:
        """Remember an object that this process has written."""
        with self._lock:
            self._since.setdefault(parent(stored.key), time.monotonic())
            of = self._directories.setdefault(parent(stored.key), {})
            self._objects += stored.key not in of
            of[stored.key] = stored

    def forget(self) -> None:
        with self._lock:
            self._directories.clear()
            self._since.clear()
            self._objects = 0

    def remove(self, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                if self._directories.get(parent(key), {}).pop(key, None) is not None:
                    self._objects -= 1

    def forget_in(self, directories: Iterable[str]) -> None:
        """Forget the objects directly below these prefixes."""
        with self._lock:
            for directory in directories:
                self._drop(directory)

    def forget_below(self, directory: str) -> None:
        """Forget everything in a directory and its sub-directories."""
        with self._lock:
            for at in [*self._directories]:
                if at == directory or at.startswith(f"{directory}/"):
                    self._drop(at)

    def _drop(self, directory: str) -> None:
        self._since.pop(directory, None)
        self._objects -= len(self._directories.pop(directory, {}))

    def known_time(self, stored: Stored) -> tuple[int | None, bool]:
        """Return the time in the metadata, or that of the upload without one, and whether it is
        known to be of this very upload. None if unknown.

        The same bytes may have been written again, with the same tag and another time.
        """
        mtime_ns, written_ns = self._times.get(_identity(stored), (None, None))
        if written_ns is not None and written_ns != stored.modified_ns:
            return None, False
        return mtime_ns, written_ns is not None

    def time_of(self, stored: Stored) -> int | None:
        return self.known_time(stored)[0]

    def learn_time(self, stored: Stored, mtime_ns: int, *, listed: bool = False) -> None:
        """`listed`: a listing told when the object was uploaded, unless this process wrote it."""
        at = _identity(stored)
        listed &= self._times.get(at, (0, 0))[1] is not None
        self._learn_time(at, mtime_ns, stored.modified_ns if listed else None)

    def learn_time_of(self, key: str, entry: Entry, written_ns: int | None = None) -> None:
        """`written_ns`: the time of the upload that has this time, if it is known."""
        self._learn_time((key, entry.size, entry.stamp[0]), entry.mtime_ns, written_ns)

    def _learn_time(self, at: tuple[str, int, int], mtime_ns: int, written_ns: int | None) -> None:
        with self._lock:
            if len(self._times) >= _MOST_TIMES:
                self._times.clear()
            self._times[at] = mtime_ns, written_ns

    def beginning_of(self, stored: Stored, *, once: bool = False) -> bytes | None:
        """Return the first bytes of an object, or all of them. With `once`, forget them."""
        at = stored.key, stamp_of(stored.etag)
        with self._lock:
            found = self._beginnings.pop(at, None)
            if found is not None and once:
                self._bytes -= len(found)
            elif found is not None:
                self._beginnings[at] = found
            return found

    def learn_beginning(self, stored: Stored, data: bytes) -> None:
        self.learn_data(stored.key, stamp_of(stored.etag), data)

    def learn_data(self, key: str, stamp: int, data: bytes) -> None:
        """Learn the first bytes of the object with this key and tag, or all of them."""
        at = key, stamp
        with self._lock:
            self._bytes += len(data) - len(self._beginnings.pop(at, b""))
            self._beginnings[at] = data
            while self._bytes > _MOST_BYTES:
                self._bytes -= len(self._beginnings.popitem(last=False)[1])


def _identity(stored: Stored) -> tuple[str, int, int]:
    return stored.key, stored.size, stamp_of(stored.etag)
