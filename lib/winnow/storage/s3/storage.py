"""Log directories in S3, cleaned in place: a prefix is a directory, an object a file.

S3 has no rename, link or lock. Changes that belong together are made inside `changing` and take
effect at once (`winnow.storage.s3.change`). If a commit record is not complete yet, readers of the
directory see its files as the record states. A directory exists as long as it contains anything.
Owners, groups and permission bits are those of the bucket.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from winnow.storage.contract import COMMIT_RECORD, Entry, NewFile, Volume
from winnow.storage.s3.bucket import S3Bucket, S3NewFile, Stored, inside, key_of
from winnow.storage.s3.change import Change, read_record, settle
from winnow.storage.s3.client import ObjectChangedError, bucket_and_key
from winnow.storage.s3.record import Content, Copied

_TIMED = ".log"
"""Listed files with this in their name get the time of their metadata, which takes a request each.
All others get that of their upload. For logs it may be the only age that Kafka knows; the time of
other files has no meaning.
"""
_TIMES = 100_000
"""How many are remembered: an object keeps its metadata as long as it is unchanged."""
_Found = Stored | Copied | Content
"""The source of a `Copied` is a key."""


class _Changes(threading.local):
    """The open changes of a thread, by directory. No thread sees the directory as another one is
    about to leave it.
    """

    def __init__(self) -> None:
        self.by_directory: dict[str, Change] = {}


class S3Storage:
    """Implements `Storage` for one bucket. Each process has one. Threads may make changes at the
    same time, if each has its own directories.
    """

    def __init__(self, bucket: S3Bucket) -> None:
        self._bucket = bucket
        self._changes = _Changes()
        self._times: dict[Stored, int] = {}

    def canonical(self, path: str) -> str:
        return self._url(_key(path))

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        key = _key(path)
        change = self._change_of(key)
        found: Mapping[str, _Found]
        found, directories = self._seen(key) if change is None else change.right_in(key)
        top = {
            at.rpartition("/")[2]: one for at, one in found.items() if at.rpartition("/")[0] == key
        }
        directories |= {at.removeprefix(inside(key)).partition("/")[0] for at in found} - top.keys()
        entries = [*self._entries(top), *(_directory(name) for name in directories)]
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def entry(self, path: str) -> Entry:
        key = _key(path)
        name, change, found = key.rpartition("/")[2], self._change_of(key), self._find(key)
        if found is not None:
            return next(iter(self._entries({name: found}, all_timed=True)))
        if change is None and key:
            with suppress(FileNotFoundError):
                looked = self._bucket.look(key)
                return _file(name, looked.stored, looked.mtime_ns)
        if change.below(key) if change is not None else self._bucket.is_prefix(key):
            return _directory(name)
        raise _missing(path)

    def exists(self, path: str) -> bool:
        try:
            self.entry(path)
        except FileNotFoundError:
            return False
        return True

    def read_bytes(self, path: str) -> bytes:
        key = _key(path)
        found = self._find_or_raise(key)
        if isinstance(found, Content):
            return found.data
        if isinstance(found, Copied):
            return self._read_copied(key, found, 0, found.size)
        return self._bucket.get(key if found is None else found.key)[0]

    def read_range(self, path: str, start: int, length: int) -> bytes:
        key = _key(path)
        found = self._find_or_raise(key)
        if isinstance(found, Content):
            return found.data[start : start + length]
        if isinstance(found, Copied):
            return self._read_copied(key, found, start, length)
        if isinstance(found, Stored):
            return self._bucket.get_range(found.key, start, length, etag=found.etag)
        return self._bucket.get_range(key, start, length)

    def create(self, path: str, data: bytes) -> None:
        key = _key(path)
        change = self._change_of(key)
        if change is None:
            self._bucket.create(key, data)
            return
        if change.find(key) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        change.put(key, Content(data, time.time_ns()))

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        key = _key(path)
        if self._change_of(key) is not None:
            raise _unsupported("large files inside a change", path)
        return S3NewFile(self._bucket, key, mtime_ns)

    def rename(self, source: str, target: str) -> None:
        """Rename. Outside of a change: files only, and not atomic, so the source may remain."""
        key, other = _key(source), _key(target)
        change = self._change_of(key)
        if change is not None:
            change.move(key, self._inside(change, other))
            return
        try:
            self._bucket.copy(key, other)
        except FileNotFoundError:
            if self._bucket.is_prefix(key):
                raise _unsupported("renaming a directory", source) from None
            raise
        self._bucket.delete([key])

    def link(self, source: str, target: str) -> None:
        """Create a second file with the same bytes and time."""
        key, other = _key(source), _key(target)
        change = self._change_of(key)
        if change is None:
            raise _unsupported("links", target)
        node = change.find(key)
        if node is None:
            raise _missing(source)
        if change.find(other) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        change.put(self._inside(change, other), node)

    def unlink(self, path: str) -> None:
        key = _key(path)
        change = self._change_of(key)
        if (change.find(key) if change is not None else self._bucket.look(key)) is None:
            raise _missing(path)
        if change is not None:
            change.put(key, None)
        else:
            self._bucket.delete([key])

    def truncate(self, path: str, size: int) -> None:
        raise io.UnsupportedOperation(f"{path} can't be cut to {size} bytes")

    def fsync_file(self, path: str) -> None:
        """Nothing to do: S3 answers when a change is durable."""

    def fsync_dir(self, path: str) -> None:
        """Nothing to do: S3 answers when a change is durable."""

    def mkdir(self, path: str) -> None:
        """Nothing to do: a directory exists when it contains something."""

    def ensure_dir(self, path: str) -> None:
        """Nothing to do: a directory exists when it contains something."""

    def rmdir(self, path: str) -> None:
        """Raise OSError if it is not empty. It disappears with its last object."""
        if self.list_dir(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)

    def copy_attributes(self, source: str, target: str) -> None:
        """Nothing to do: S3 has no attributes."""

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        """Set the time. Rewrites the object if it differs: metadata can't be changed."""
        key = _key(path)
        change = self._change_of(key)
        node = None if change is None else self._find_or_raise(key)
        if change is not None and isinstance(node, Content):
            change.put(key, Content(node.data, mtime_ns))
        elif self.entry(path).mtime_ns != mtime_ns:
            if change is not None:
                raise _unsupported("setting a time inside a change", path)
            self._bucket.rewrite(key, mtime_ns)
            self._times.clear()  # the new object may look like the old one

    def volume(self, path: str) -> Volume:
        del path
        return Volume(
            key=("s3", self._bucket.name), free_bytes=sys.maxsize, total_bytes=sys.maxsize
        )

    def settle(self, directory: str) -> None:
        key = _key(directory)
        if self._change_of(key) is None:
            settle(self._bucket, key)

    @contextmanager
    def changing(self, directory: str) -> Iterator[None]:
        """Group changes of a directory. A change inside an open one joins that one."""
        key = _key(directory)
        if self._change_of(key) is not None:
            yield
            return
        settle(self._bucket, key)
        change = self._changes.by_directory[key] = Change(self._bucket, key)
        try:
            yield
        finally:
            del self._changes.by_directory[key]
        change.commit()

    def _change_of(self, key: str) -> Change | None:
        """Return the open change that covers a key."""
        covering = (
            one
            for at, one in self._changes.by_directory.items()
            if key == at or key.startswith(inside(at))
        )
        return max(covering, key=lambda one: len(one.directory), default=None)

    def _inside(self, change: Change, key: str) -> str:
        if self._change_of(key) is not change:
            raise _unsupported(
                "moving files between directories with separate changes",
                self._url(key),
            )
        return key

    def _seen(self, key: str) -> tuple[dict[str, _Found], set[str]]:
        """Return the files directly below a key, by key, and the names of directories there.
        Includes files that a commit record writes, not those that it deletes.
        """
        objects, directories = self._bucket.list_top(key)
        found: dict[str, _Found] = {one.key: one for one in objects}
        record = read_record(self._bucket, key) if key_of(key, COMMIT_RECORD) in found else None
        if record is not None:
            found = {
                at: one
                for at, one in found.items()
                if at.removeprefix(inside(key)) not in record.deletes
            }
            found |= {key_of(key, name): _absolute(put, key) for name, put in record.puts.items()}
        return found, set(directories)

    def _find(self, key: str) -> _Found | None:
        """Return what a change or a commit record has for a key.

        None: it is not in the change, or neither exists and only the bucket knows.
        FileNotFoundError if the commit record deletes it.
        """
        change = self._change_of(key)
        if change is not None:
            return change.find(key)
        directory, _, name = key.rpartition("/")
        record = read_record(self._bucket, directory)
        if record is None:
            return None
        if name in record.deletes:
            raise _missing(self._url(key))
        put = record.puts.get(name)
        return None if put is None else _absolute(put, directory)

    def _find_or_raise(self, key: str) -> _Found | None:
        found = self._find(key)
        if found is None and self._change_of(key) is not None:
            raise _missing(self._url(key))
        return found

    def _read_copied(self, key: str, copied: Copied, start: int, length: int) -> bytes:
        try:
            return self._bucket.get_range(copied.source, start, length, etag=copied.etag)
        except (FileNotFoundError, ObjectChangedError):
            # The source is deleted or overwritten only when its copy is complete.
            return self._bucket.get_range(key, start, length)

    def _entries(self, found: Mapping[str, _Found], *, all_timed: bool = False) -> Iterable[Entry]:
        """Yield the entries of `found`, which is by name, in its order."""
        timed = [
            one
            for name, one in found.items()
            if isinstance(one, Stored) and (all_timed or _TIMED in name)
        ]
        if len(self._times) > _TIMES:
            self._times.clear()
        times = {one: known for one in timed if (known := self._times.get(one)) is not None}
        new = [one for one in timed if one not in times]
        for one, looked in zip(new, self._bucket.look_at_all(one.key for one in new), strict=True):
            times[one] = one.modified_ns if looked is None else looked.mtime_ns
        self._times |= times
        for name, put in found.items():
            yield _file(
                name,
                put,
                times.get(put, put.modified_ns) if isinstance(put, Stored) else put.mtime_ns,
            )

    def _url(self, key: str) -> str:
        return f"s3://{self._bucket.name}/{key}".rstrip("/")


def open_s3(authority: str) -> S3Storage:
    """Return the storage of a bucket. UsageError if it is not the plain name of a bucket."""
    return S3Storage(S3Bucket(bucket_and_key(f"s3://{authority}")[0]))


def _key(path: str) -> str:
    return bucket_and_key(path)[1]


def _absolute(put: Copied | Content, directory: str) -> Copied | Content:
    if isinstance(put, Content):
        return put
    return Copied(key_of(directory, put.source), put.size, put.etag, put.mtime_ns)


def _file(name: str, found: _Found, mtime_ns: int) -> Entry:
    # The same bytes, written again, have the same tag.
    stamp = (
        ()
        if isinstance(found, Content)
        else (int.from_bytes(hashlib.sha256(found.etag.encode()).digest()[:8]),)
    )
    return Entry(
        name=name, is_file=True, is_dir=False, size=found.size, mtime_ns=mtime_ns, stamp=stamp
    )


def _directory(name: str) -> Entry:
    return Entry(name=name, is_file=False, is_dir=True, size=0, mtime_ns=0)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _unsupported(what: str, path: str) -> OSError:
    return OSError(errno.EOPNOTSUPP, f"S3 does not support {what}", path)
