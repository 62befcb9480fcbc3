"""Read the objects of a directory through its commit record, with few requests.

A listing shows whether there is a commit record, and the tag of each object. Without a record an
object is read on the condition that it still has this tag, so nobody needs to look for a record
again. If the condition fails, the directory is listed again.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from winnow.errors import CorruptLogError
from winnow.storage.contract import COMMIT_RECORD, Entry, Remembered, Storage, os_error
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.change import read_record
from winnow.storage.s3.client import ObjectChangedError, bucket_and_key
from winnow.storage.s3.memory import Memory, Stored, inside, key_of, name_of, parent, stamp_of
from winnow.storage.s3.record import Content, Copied
from winnow.storage.size_limits import check_size

Found = Stored | Copied | Content
"""What a key stands for. The source of a `Copied` is a key."""

_TIMED = ".log"
"""Listed files with this in their name have the time of their metadata, which a listing lacks. All
others have that of their upload. For logs it may be the only age that Kafka knows; the time of
other files has no meaning.
"""
_SEGMENT = (".log", ".index", ".timeindex", ".txnindex")
"""In the names of files that no run changes after it has listed them, unless it replaces them."""
_HEAD_BYTES = 4 * 2**10
_SMALL_LOG_BYTES = 128 * 2**10
_SMALL_BYTES = 2 * 2**20
"""An object of this size is read whole."""
_AHEAD_BYTES = 24 * 2**20
"""Bytes that are read ahead at once: fewer than are remembered."""
_TRIES = 3


def is_timed(key: str) -> bool:
    """Return whether the time of an object has a meaning."""
    return _TIMED in name_of(key)


def _is_segment(key: str) -> bool:
    return any(suffix in name_of(key) for suffix in _SEGMENT)


def _most_whole(key: str) -> int:
    return _SMALL_LOG_BYTES if is_timed(key) else _SMALL_BYTES


class Objects(Storage):
    """The objects of one bucket, as this process knows them: the part of `Storage` that reads."""

    def __init__(self, bucket: S3Bucket) -> None:
        self.bucket = bucket
        self.memory = Memory()

    def list_right_in(self, directory: str) -> tuple[dict[str, Found], set[str]]:
        """Return the files directly below a key, by key, and the names of directories there.
        Includes files that a commit record writes, not those that it deletes.
        """
        objects, directories = self.bucket.list_top(directory)
        found: dict[str, Found] = {one.key: one for one in objects}
        if key_of(directory, COMMIT_RECORD) not in found:
            self.memory.list_as(directory, objects)
            return found, set(directories)
        self.memory.forget_below(directory)
        record = read_record(self.bucket, directory)
        if record is None:
            return found, set(directories)
        for key in record.deletes:
            found.pop(key, None)
        for key, put in record.puts.items():
            name, is_deeper, _ = key.removeprefix(inside(directory)).partition("/")
            if is_deeper:
                directories.append(name)
            else:
                found[key] = put
        return found, set(directories)

    def find(self, key: str) -> Found:
        """Raises FileNotFoundError if there is no such file now."""
        known = self.memory.find(key)
        if known is not None:
            return known
        found = self.list_right_in(parent(key))[0].get(key)
        if found is None:
            raise os_error(errno.ENOENT, self.bucket.url(key))
        return found

    def read(self, key: str, start: int, length: int | None) -> bytes:
        """Return up to `length` bytes of a file; all of a small one for None."""
        for _ in range(_TRIES):
            found = self.find(key)
            try:
                return self.read_found(key, found, start, length)
            except (FileNotFoundError, ObjectChangedError):
                self.memory.forget_below(parent(key))
        raise ObjectChangedError(f"{self.bucket.url(key)}: it is replaced again and again")

    def read_found(self, key: str, found: Found, start: int, length: int | None) -> bytes:
        """Do the same for a file that was found. ObjectChangedError or FileNotFoundError if the
        object is not the same any more.
        """
        if length is None:
            check_size(self.bucket.url(key), found.size)
            length = found.size
        end = min(start + length, found.size)
        if isinstance(found, Content):
            return found.data[start:end]
        if start >= end:
            return b""
        if isinstance(found, Copied):
            try:
                return self.bucket.get_range(found.source, start, end - start, etag=found.etag)
            except (FileNotFoundError, ObjectChangedError):
                # The source is deleted or overwritten only when its copy is complete.
                return self.bucket.get_range(key, start, end - start)
        # Other files than segments are replaced by reading, changing and writing them.
        beginning = self.memory.beginning_of(found, once=not _is_segment(found.key))
        if beginning is None and (found.size <= _most_whole(found.key) or end <= _HEAD_BYTES):
            beginning = self._read_beginning(found)
            if _is_segment(found.key):
                self.memory.learn_beginning(found.identity, beginning)
        if beginning is not None and end <= len(beginning):
            return beginning[start:end]
        data = self.bucket.get_range(found.key, start, end - start, etag=found.etag)
        if len(data) < end - start:
            raise ObjectChangedError(f"{self.bucket.url(found.key)}: it is shorter")
        return data

    def _read_beginning(self, stored: Stored) -> bytes:
        whole = stored.size <= _most_whole(stored.key)
        data, mtime_ns = self.bucket.get_beginning(stored, stored.size if whole else _HEAD_BYTES)
        self._learn_time(stored, mtime_ns)
        return data

    def _learn_time(self, stored: Stored, mtime_ns: int) -> None:
        """Learn the time in the metadata. A listing told that of the upload, unless this process
        has written the object.
        """
        known, is_sure = self.memory.time_of(stored)
        written_ns = stored.modified_ns if known is None or is_sure else None
        self.memory.learn_time(stored.identity, mtime_ns, written_ns)

    def read_ahead(self, paths: Iterable[str]) -> None:
        """Directories that are not known are listed first."""
        wanted = [*map(key_in, paths)]
        unknown = {parent(key) for key in wanted if self.memory.find(key) is None}
        self.bucket.each(self._try_listing, sorted(unknown))
        small, left = [], _AHEAD_BYTES
        for key in wanted:
            one = self.memory.find(key)
            if one is not None and 0 < one.size <= min(left, _most_whole(one.key)):
                small.append(one)
                left -= one.size
        self.bucket.each(
            self._try_beginning, [one for one in small if self.memory.beginning_of(one) is None]
        )

    def _try_listing(self, directory: str) -> None:
        with suppress(OSError, CorruptLogError):  # whoever reads there finds out
            self.list_right_in(directory)

    def _try_beginning(self, stored: Stored) -> int:
        """Return the time of an object. Without one, if it is gone, that of its upload."""
        try:
            if stored.size:
                self.memory.learn_beginning(stored.identity, self._read_beginning(stored))
            else:
                self._learn_time(stored, self.bucket.look(stored.key)[1])
        except (FileNotFoundError, ObjectChangedError):
            return stored.modified_ns
        known, _ = self.memory.time_of(stored)
        return stored.modified_ns if known is None else known

    def _known_time(self, stored: Stored) -> tuple[int | None, bool]:
        """Return the time of an object, None if a request must tell it, and whether it is certain
        to be that of this very upload.
        """
        return self.memory.time_of(stored) if is_timed(stored.key) else (stored.modified_ns, True)

    def times_of(self, objects: Iterable[Stored]) -> dict[Stored, int]:
        """Return the time of each object, in ns since the epoch."""
        known = {one: self._known_time(one)[0] for one in objects}
        unknown = [one for one, time in known.items() if time is None]
        told = dict(zip(unknown, self.bucket.each(self._try_beginning, unknown), strict=True))
        return {one: told[one] if time is None else time for one, time in known.items()}

    def entries(self, found: Mapping[str, Found]) -> list[Entry]:
        """Return the entries of `found`, which is by key, in its order."""
        times = self.times_of(one for one in found.values() if isinstance(one, Stored))
        return [
            _entry(key, one, times[one] if isinstance(one, Stored) else one.mtime_ns)
            for key, one in found.items()
        ]

    def forget(self) -> None:
        """Forget listings, but not times and bytes: they belong to a tag."""
        self.memory.forget()

    def listed_in(self, directory: str) -> tuple[Remembered, ...]:
        """Makes no request."""
        known = [(one, *self._known_time(one)) for one in self.memory.known_in(key_in(directory))]
        return tuple(
            Remembered(_entry(one.key, one, mtime_ns), one.modified_ns if is_sure else None)
            for one, mtime_ns, is_sure in known
            if mtime_ns is not None
        )

    def learn(self, directory: str, listed: Iterable[Remembered]) -> None:
        for one in listed:
            entry, key = one.entry, key_of(key_in(directory), one.entry.name)
            if not entry.stamp:
                continue
            identity = key, entry.size, entry.stamp[0]
            if is_timed(key):
                self.memory.learn_time(identity, entry.mtime_ns, one.written_ns)

    def written(self, key: str, size: int, etag: str, mtime_ns: int | None) -> None:
        """Remember an object that this process has written."""
        stored = Stored(key, size, etag, time.time_ns())
        self.memory.learn_time(
            stored.identity, stored.modified_ns if mtime_ns is None else mtime_ns
        )
        self.memory.add(stored)


def key_in(url: str) -> str:
    return bucket_and_key(url)[1]


def _entry(key: str, found: Found, mtime_ns: int) -> Entry:
    # The same bytes, written again, have the same tag.
    stamp = () if isinstance(found, Content) else (stamp_of(found.etag),)
    return Entry(name_of(key), is_file=True, size=found.size, mtime_ns=mtime_ns, stamp=stamp)
