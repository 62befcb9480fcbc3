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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from winnow.storage.contract import Entry, NewFile, Volume, os_error
from winnow.storage.s3.bucket import S3Bucket, S3NewFile
from winnow.storage.s3.change import Change, settle
from winnow.storage.s3.client import bucket_and_key
from winnow.storage.s3.memory import Stored, covers, name_of
from winnow.storage.s3.objects import Found, Objects, key_in
from winnow.storage.s3.record import Content


class _Changes(threading.local):
    """The open changes of a thread, by directory. Other threads do not see them."""

    def __init__(self) -> None:
        self.by_directory: dict[str, Change] = {}


class S3Storage(Objects):
    """Implements `Storage` for one bucket. Each process has one. Threads may make changes of
    several directories at the same time.
    """

    def __init__(self, bucket: S3Bucket | str) -> None:
        """`bucket`: or its URL. UsageError if that is not the plain name of a bucket."""
        super().__init__(S3Bucket(bucket_and_key(bucket)[0]) if isinstance(bucket, str) else bucket)
        self._changes = _Changes()
        self._locks: dict[str, threading.Lock] = {}
        """By directory; one thread at a time changes it."""

    def canonical(self, path: str) -> str:
        return self.bucket.url(key_in(path))

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        key = key_in(path)
        change = self._change_of(key)
        found: Mapping[str, Found]
        found, directories = self.list_right_in(key) if change is None else change.right_in(key)
        entries = [*self.entries(found), *(Entry(name, is_dir=True) for name in directories)]
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def entry(self, path: str) -> Entry:
        key = key_in(path)
        found = self._find(key)
        return Entry(name_of(key), is_dir=True) if found is None else self.entries({key: found})[0]

    def exists(self, path: str) -> bool:
        try:
            self._find(key_in(path))
        except FileNotFoundError:
            return False
        return True

    def read_bytes(self, path: str) -> bytes:
        return self._read(key_in(path), 0, None)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._read(key_in(path), start, length)

    def _read(self, key: str, start: int, length: int | None) -> bytes:
        change = self._change_of(key)
        if change is None:
            return self.read(key, start, length)
        return self.read_found(key, change.file(key), start, length)

    def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
        key = key_in(path)
        change = self._change_of(key)
        if change is None:
            etag = self.bucket.create(key, data, mtime_ns=mtime_ns)
            self.written(key, len(data), etag, mtime_ns)
        else:
            change.add(key, Content(data, time.time_ns() if mtime_ns is None else mtime_ns))

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        key = key_in(path)
        if self._change_of(key) is not None:
            raise _unsupported("large files inside a change", path)

        def upload(file: IO[bytes]) -> None:
            size = file.tell()
            self.written(key, size, self.bucket.upload(key, file, mtime_ns=mtime_ns), mtime_ns)

        return S3NewFile(upload)

    def rename(self, source: str, target: str) -> None:
        """Rename. Outside of a change: files only, and not atomic, so the source may remain."""
        key, other = key_in(source), key_in(target)
        change = self._change_of(key)
        if change is not None:
            change.move(key, self._inside(change, other))
            return
        if self.memory.known_in(key) or self._find(key) is None:
            raise _unsupported("renaming a directory", source)
        self.bucket.copy(key, other)
        self.bucket.delete([key])
        self.memory.remove(key, other)

    def link(self, source: str, target: str) -> None:
        """Create a second file with the same bytes and time."""
        key, other = key_in(source), key_in(target)
        change = self._change_of(key)
        if change is None:
            raise _unsupported("links", target)
        change.add(self._inside(change, other), change.file(key))

    def unlink(self, path: str) -> None:
        key = key_in(path)
        change = self._change_of(key)
        if change is None:
            self.find(key)
            self.bucket.delete([key])
            self.memory.remove(key)
        else:
            change.file(key)
            change.put(key, None)

    def rmdir(self, path: str) -> None:
        """Raise OSError if it is not empty. It disappears with its last object."""
        if self.list_dir(path):
            raise os_error(errno.ENOTEMPTY, path)

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        """Set the time. Rewrites the object if it differs: metadata can't be changed."""
        key = key_in(path)
        change = self._change_of(key)
        found = self.find(key) if change is None else change.file(key)
        if change is not None and isinstance(found, Content):
            change.put(key, Content(found.data, mtime_ns))
        elif self._time_of(found) != mtime_ns:
            if change is not None:
                raise _unsupported("setting a time inside a change", path)
            etag = self.bucket.rewrite(key, mtime_ns, size=found.size)
            self.written(key, found.size, etag, mtime_ns)

    def _time_of(self, found: Found) -> int:
        """Return the time of a file of any kind, as its metadata has it."""
        if not isinstance(found, Stored):
            return found.mtime_ns
        known, _ = self.memory.time_of(found)
        return self.bucket.look(found.key)[1] if known is None else known

    def volume(self, path: str) -> Volume:
        del path
        return Volume(("s3", self.bucket.name))

    def settle(self, directory: str) -> None:
        key = key_in(directory)
        if self._change_of(key) is None:
            settle(self.bucket, key)
            self.memory.forget_below(key)

    @contextmanager
    def changing(self, directory: str) -> Iterator[None]:
        """Group changes of a directory. A change inside an open one joins that one."""
        key = key_in(directory)
        if self._change_of(key) is not None:
            yield
            return
        with self._locks.setdefault(key, threading.Lock()):
            change = Change(self.bucket, key, times_of=self.times_of)
            change.settle()
            self._changes.by_directory[key] = change
            try:
                yield
            finally:
                del self._changes.by_directory[key]
            try:
                placed = change.commit()
            finally:
                self.memory.forget(change.seen.__contains__)
            for stored, mtime_ns in placed:
                self.memory.learn_time(stored.identity, mtime_ns)
                self.memory.add(stored)

    def _change_of(self, key: str) -> Change | None:
        covering = (one for at, one in self._changes.by_directory.items() if covers(at, key))
        return max(covering, key=lambda one: len(one.directory), default=None)

    def _inside(self, change: Change, key: str) -> str:
        if self._change_of(key) is not change:
            what = "moving files between directories with separate changes"
            raise _unsupported(what, self.bucket.url(key))
        return key

    def _find(self, key: str) -> Found | None:
        """Return what a key stands for now; None for a directory. FileNotFoundError for nothing."""
        change = self._change_of(key)
        if change is not None:
            found = change.find(key)
            return found if found is not None or change.is_directory(key) else change.file(key)
        known = self.memory.find(key)
        if known is not None:
            return known
        if self.memory.known_in(key):
            return None
        # Look inside first: a place above may be closed to this user.
        files, directories = self.list_right_in(key)
        return None if files or directories or not key else self.find(key)


def _unsupported(what: str, path: str) -> OSError:
    return OSError(errno.EOPNOTSUPP, f"S3 does not support {what}", path)
