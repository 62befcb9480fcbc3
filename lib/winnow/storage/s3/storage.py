"""Log directories in S3, cleaned in place: a prefix is a directory, an object a file.

S3 has no rename, link or lock. Changes that belong together are made inside `changing` and take
effect at once (`winnow.storage.s3.change`). If a commit record is not complete yet, readers of the
directory see its files as the record states. A directory exists as long as it contains anything.
Owners, groups and permission bits are those of the bucket.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from winnow.storage.contract import Entry, NewFile, Remembered, Storage, Volume, os_error
from winnow.storage.s3.bucket import AT_ONCE, S3Bucket, S3NewFile, inside
from winnow.storage.s3.change import Change, settle
from winnow.storage.s3.client import bucket_and_key
from winnow.storage.s3.objects import Found, Objects
from winnow.storage.s3.record import Content


class _Changes(threading.local):
    """The open changes of a thread, by directory. Other threads do not see them."""

    def __init__(self) -> None:
        self.by_directory: dict[str, Change] = {}


class S3Storage(Storage):
    """Implements `Storage` for one bucket. Each process has one. Threads may make changes of
    several directories at the same time.
    """

    def __init__(self, bucket: S3Bucket) -> None:
        self._bucket = bucket
        self._objects = Objects(bucket)
        self._changes = _Changes()
        self._locks: dict[str, threading.Lock] = {}
        """By directory; one thread at a time changes it."""

    def canonical(self, path: str) -> str:
        return self._url(_key(path))

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        key = _key(path)
        change = self._change_of(key)
        found: Mapping[str, Found]
        found, directories = (
            self._objects.list_right_in(key) if change is None else change.right_in(key)
        )
        top = {
            at.rpartition("/")[2]: one for at, one in found.items() if at.rpartition("/")[0] == key
        }
        directories |= {at.removeprefix(inside(key)).partition("/")[0] for at in found} - top.keys()
        entries = [*self._objects.entries(top), *(_directory(name) for name in directories)]
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def entry(self, path: str) -> Entry:
        found = self._find(_key(path))
        name = _key(path).rpartition("/")[2]
        if found is None:
            return _directory(name)
        return self._objects.entries({name: found})[0]

    def exists(self, path: str) -> bool:
        try:
            self._find(_key(path))
        except FileNotFoundError:
            return False
        return True

    def read_bytes(self, path: str) -> bytes:
        return self._read(path, 0, None)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._read(path, start, length)

    def calls_at_once(self, path: str) -> int:
        del path
        return AT_ONCE

    def read_ahead(self, paths: Iterable[str]) -> None:
        self._objects.read_ahead(map(_key, paths))

    def forget(self) -> None:
        """Forget which objects there are. What is known of each object remains true."""
        self._objects.memory.forget()

    def listed_in(self, directory: str) -> tuple[Remembered, ...]:
        return self._objects.listed_in(_key(directory))

    def learn(self, directory: str, listed: Iterable[Remembered]) -> None:
        self._objects.learn(_key(directory), listed)

    def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
        key = _key(path)
        change = self._change_of(key)
        if change is None:
            etag = self._bucket.create(key, data, mtime_ns=mtime_ns)
            self._objects.written(key, len(data), etag, mtime_ns)
            return
        if change.find(key) is not None:
            raise os_error(errno.EEXIST, path)
        change.put(key, Content(data, time.time_ns() if mtime_ns is None else mtime_ns))

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        key = _key(path)
        if self._change_of(key) is not None:
            raise _unsupported("large files inside a change", path)
        return S3NewFile(self._bucket, key, mtime_ns, self._objects.written)

    def rename(self, source: str, target: str) -> None:
        """Rename. Outside of a change: files only, and not atomic, so the source may remain."""
        key, other = _key(source), _key(target)
        change = self._change_of(key)
        if change is not None:
            change.move(key, self._inside(change, other))
            return
        if self._objects.memory.known_in(key) or self._find(key) is None:
            raise _unsupported("renaming a directory", source)
        self._bucket.copy(key, other)
        self._bucket.delete([key])
        self._objects.memory.remove([key, other])

    def link(self, source: str, target: str) -> None:
        """Create a second file with the same bytes and time."""
        key, other = _key(source), _key(target)
        change = self._change_of(key)
        if change is None:
            raise _unsupported("links", target)
        node = change.find(key)
        if node is None:
            raise os_error(errno.ENOENT, source)
        if change.find(other) is not None:
            raise os_error(errno.EEXIST, target)
        change.put(self._inside(change, other), node)

    def unlink(self, path: str) -> None:
        key = _key(path)
        change = self._change_of(key)
        if change is None:
            self._objects.find(key)
            self._bucket.delete([key])
            self._objects.memory.remove([key])
        elif change.find(key) is None:
            raise os_error(errno.ENOENT, path)
        else:
            change.put(key, None)

    def mkdir(self, path: str) -> None:
        """Nothing to do: a directory exists when it contains something."""

    def ensure_dir(self, path: str) -> None:
        """Nothing to do: a directory exists when it contains something."""

    def rmdir(self, path: str) -> None:
        """Raise OSError if it is not empty. It disappears with its last object."""
        if self.list_dir(path):
            raise os_error(errno.ENOTEMPTY, path)

    def copy_attributes(self, source: str, target: str) -> None:
        """Nothing to do: S3 has no attributes."""

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        """Set the time. Rewrites the object if it differs: metadata can't be changed."""
        key = _key(path)
        change = self._change_of(key)
        found = self._objects.find(key) if change is None else change.find(key)
        if found is None:
            raise os_error(errno.ENOENT, path)
        if change is not None and isinstance(found, Content):
            change.put(key, Content(found.data, mtime_ns))
        elif self._objects.time_of(found) != mtime_ns:
            if change is not None:
                raise _unsupported("setting a time inside a change", path)
            etag = self._bucket.rewrite(key, mtime_ns)
            self._objects.written(key, found.size, etag, mtime_ns)

    def volume(self, path: str) -> Volume:
        del path
        return Volume(("s3", self._bucket.name))

    def settle(self, directory: str) -> None:
        key = _key(directory)
        if self._change_of(key) is None:
            settle(self._bucket, key)
            self._objects.memory.forget_below(key)

    @contextmanager
    def changing(self, directory: str) -> Iterator[None]:
        """Group changes of a directory. A change inside an open one joins that one."""
        key = _key(directory)
        if self._change_of(key) is not None:
            yield
            return
        with self._locks.setdefault(key, threading.Lock()):
            yield from self._change(key)

    def _change(self, key: str) -> Iterator[None]:
        change = Change(self._bucket, key, times_of=self._objects.times_of)
        change.settle()
        self._changes.by_directory[key] = change
        try:
            yield
        finally:
            del self._changes.by_directory[key]
        try:
            placed = change.commit()
        finally:
            self._objects.memory.forget_in(change.seen)
        for stored, mtime_ns in placed:
            self._objects.memory.learn_time(stored, mtime_ns)
            self._objects.memory.add(stored)

    def _change_of(self, key: str) -> Change | None:
        covering = (
            one
            for at, one in self._changes.by_directory.items()
            if key == at or key.startswith(inside(at))
        )
        return max(covering, key=lambda one: len(one.directory), default=None)

    def _inside(self, change: Change, key: str) -> str:
        if self._change_of(key) is not change:
            raise _unsupported(
                "moving files between directories with separate changes", self._url(key)
            )
        return key

    def _find(self, key: str) -> Found | None:
        """Return what a key stands for now; None for a directory. FileNotFoundError for nothing."""
        change = self._change_of(key)
        if change is not None:
            found = change.find(key)
            if found is None and not change.is_directory(key):
                raise os_error(errno.ENOENT, self._url(key))
            return found
        known = self._objects.memory.find(key)
        if known is not None:
            return known
        if self._objects.memory.known_in(key):
            return None
        # Look inside first: a place above may be closed to this user.
        files, directories = self._objects.list_right_in(key)
        return None if files or directories or not key else self._objects.find(key)

    def _read(self, path: str, start: int, length: int | None) -> bytes:
        """Return bytes of a file, all of a small one if `length` is None."""
        key = _key(path)
        change = self._change_of(key)
        if change is None:
            return self._objects.read(key, start, length)
        found = change.find(key)
        if found is None:
            raise os_error(errno.ENOENT, path)
        return self._objects.read_found(key, found, start, length)

    def _url(self, key: str) -> str:
        return f"s3://{self._bucket.name}/{key}".rstrip("/")


def open_storage(url: str) -> S3Storage:
    """Return the storage of a bucket. UsageError if it is not the plain name of a bucket."""
    return S3Storage(S3Bucket(bucket_and_key(url)[0]))


def _key(path: str) -> str:
    return bucket_and_key(path)[1]


def _directory(name: str) -> Entry:
    return Entry(name=name, is_file=False, is_dir=True, size=0, mtime_ns=0)


def _unsupported(what: str, path: str) -> OSError:
    return OSError(errno.EOPNOTSUPP, f"S3 does not support {what}", path)
