"""Group changes of one directory in S3 so that they take effect at one moment.

The changes are collected first: the bucket has none of them before the commit, but their author
sees the directory with them. The commit record holds the net effect for each name
(`winnow.storage.s3.record`).
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from winnow.errors import CorruptLogError
from winnow.storage.contract import COMMIT_RECORD, os_error
from winnow.storage.s3.bucket import S3Bucket, inside, key_of
from winnow.storage.s3.client import ObjectChangedError
from winnow.storage.s3.memory import Stored, parent
from winnow.storage.s3.record import Content, Copied, Record, decode, encode

Node = Stored | Content | None
"""What a key stands for: an object, whatever its own key; bytes that are in no object yet; nothing.
"""


class Change:
    """A group of changes, open from its creation. Keys are absolute and lie below `directory`."""

    def __init__(
        self,
        bucket: S3Bucket,
        directory: str,
        *,
        times_of: Callable[[Iterable[Stored]], Mapping[Stored, int]],
    ) -> None:
        """`times_of` returns the times of objects, in ns since the epoch."""
        self.directory = directory
        self._bucket = bucket
        self._times_of = times_of
        self._before: dict[str, Stored] = {}
        self._directories: dict[str, list[str]] = {}
        """Names of the sub-directories of each directory that was listed."""
        self._now: dict[str, Node] = {}

    @property
    def seen(self) -> set[str]:
        """All directories with an object that the change may replace or remove."""
        return set(self._directories)

    def settle(self) -> None:
        """Complete or discard what an earlier change has left. Call this first: it lists."""
        self._list(self.directory)
        if self._key(COMMIT_RECORD) in self._before:
            settle(self._bucket, self.directory)
            self._before.clear()
            self._directories.clear()

    def find(self, key: str) -> Node:
        self._list(parent(key))
        return self._now[key] if key in self._now else self._before.get(key)

    def right_in(self, directory: str) -> tuple[dict[str, Stored | Content], set[str]]:
        """Return the files of a directory by key, and the names of its sub-directories."""
        names, touched = self._names(directory)
        return self._files(directory), {
            n for n in names if n not in touched or self.below(key_of(directory, n))
        }

    def is_directory(self, key: str) -> bool:
        """Return whether there is anything below a key."""
        if key == self.directory:
            return bool(self.below(key))
        return key.rpartition("/")[2] in self.right_in(parent(key))[1]

    def below(self, directory: str) -> dict[str, Stored | Content]:
        """Return all files of a directory and its sub-directories, by key."""
        found = self._files(directory)
        for name in self._names(directory)[0]:
            found |= self.below(key_of(directory, name))
        return found

    def put(self, key: str, node: Node) -> None:
        self._list(parent(key))
        self._now[key] = node

    def move(self, source: str, target: str) -> None:
        """Move a file, or everything below a directory. FileNotFoundError if there is neither."""
        node = self.find(source)
        moved = {source: node} if node is not None else self.below(source)
        if not moved:
            raise os_error(errno.ENOENT, source)
        for key, one in moved.items():
            self.put(key, None)
            self.put(target + key.removeprefix(source), one)

    def commit(self) -> list[tuple[Stored, int]]:
        """Make all changes take effect, then apply them. Return new objects, those that were
        copied among them, with their times.

        Raises CorruptLogError, with nothing changed, if somebody else has changed one of the
        objects meanwhile. An OSError may come before or after the moment when the changes take
        effect: `settle` finds out.
        """
        effects = {key: node for key, node in self._now.items() if node != self._before.get(key)}
        if not effects:
            return []
        only = next(iter(effects)) if len(effects) == 1 else None
        if only is not None and isinstance(content := effects[only], Content):
            # The write is the commit.
            before = self._before.get(only)
            return [(_write(self._bucket, only, content, before=before), content.mtime_ns)]
        return self._commit(effects)

    def _files(self, directory: str) -> dict[str, Stored | Content]:
        self._list(directory)
        keys = [key for key in {**self._before, **self._now} if parent(key) == directory]
        return {key: node for key in keys if (node := self.find(key)) is not None}

    def _names(self, directory: str) -> tuple[set[str], set[str]]:
        """Return the sub-directories of now and before, and those with changes."""
        start = inside(directory)
        deep = (key for key in self._now if key.startswith(start) and parent(key) != directory)
        touched = {key.removeprefix(start).partition("/")[0] for key in deep}
        return {*self._list(directory), *touched}, touched

    def _list(self, directory: str) -> list[str]:
        """Return the names of the sub-directories, as first listed."""
        if directory not in self._directories:
            objects, self._directories[directory] = self._bucket.list_top(directory)
            self._before |= {one.key: one for one in objects}
        return self._directories[directory]

    def _commit(self, effects: Mapping[str, Node]) -> list[tuple[Stored, int]]:
        record = self._record(effects)
        etag = self._prepare(record)
        involved = {*effects, *(node.key for node in effects.values() if isinstance(node, Stored))}
        now = self._bucket.list_right_in(map(parent, involved))
        for key in sorted(involved):
            before, found = self._before.get(key), now.get(key)
            if (before is None) != (found is None) or (
                before and found and before.etag != found.etag
            ):
                raise _changed(self._bucket, key)
        record = replace(record, state="decided")
        path = self._key(COMMIT_RECORD)
        try:
            self._bucket.replace(path, encode(record), etag=etag)
        except ObjectChangedError:
            if read_record(self._bucket, self.directory) != record:
                raise _changed(self._bucket, path) from None
        placed = roll_forward(self._bucket, self.directory, record, now)
        return [
            (placed[self._key(name)], put.mtime_ns)
            for name, put in record.puts.items()
            if isinstance(put, Copied)
        ]

    def _record(self, effects: Mapping[str, Node]) -> Record:
        """Return the commit record. It deletes only objects that exist."""
        puts: dict[str, Copied | Content] = {}
        moved = {key: node for key, node in effects.items() if isinstance(node, Stored)}
        times = self._times_of(moved.values())
        for key, node in moved.items():
            puts[self._name(key)] = Copied(self._name(node.key), node.size, node.etag, times[node])
        puts |= {
            self._name(key): node for key, node in effects.items() if isinstance(node, Content)
        }
        deletes = tuple(sorted(self._name(key) for key, node in effects.items() if node is None))
        return Record(id=uuid.uuid4().hex, state="prepared", puts=puts, deletes=deletes)

    def _prepare(self, record: Record) -> str:
        """Write the prepared record and return its tag. From here on, nobody else can decide."""
        path, data = self._key(COMMIT_RECORD), encode(record)
        try:
            return self._bucket.create(path, data)
        except FileExistsError:
            found, stored = self._bucket.get(path)
            if found == data:
                return stored.etag
            if decode(found, f"s3://{self._bucket.name}/{path}").state == "decided":
                raise _changed(self._bucket, path) from None
            try:
                return self._bucket.replace(path, data, etag=stored.etag)
            except ObjectChangedError:
                raise _changed(self._bucket, path) from None

    def _key(self, name: str) -> str:
        return key_of(self.directory, name)

    def _name(self, key: str) -> str:
        return key.removeprefix(inside(self.directory))


def read_record(bucket: S3Bucket, directory: str) -> Record | None:
    """Return a directory's change that has taken effect but is not complete."""
    path = key_of(directory, COMMIT_RECORD)
    try:
        data, _ = bucket.get(path)
    except FileNotFoundError:
        return None
    record = decode(data, f"s3://{bucket.name}/{path}")
    return record if record.state == "decided" else None


def settle(bucket: S3Bucket, directory: str) -> None:
    """Complete a change that has taken effect, and discard one that has not."""
    path = key_of(directory, COMMIT_RECORD)
    try:
        data, stored = bucket.get(path)
    except FileNotFoundError:
        return
    record = decode(data, f"s3://{bucket.name}/{path}")
    if record.state == "decided":
        roll_forward(bucket, directory, record, bucket.list_right_in(_places(directory, record)))
        return
    # Replace the record first, so that its author can't decide any more. Only then delete it.
    nothing = Record(id=uuid.uuid4().hex, state="prepared", puts={}, deletes=())
    bucket.replace(path, encode(nothing), etag=stored.etag)
    bucket.delete([path])


def roll_forward(
    bucket: S3Bucket, directory: str, record: Record, found: Mapping[str, Stored]
) -> Mapping[str, Stored]:
    """Complete a decided change. `found`: what is in the directories that the record names. Return
    what is there when all is copied. It may be interrupted anywhere and repeated.

    Raises CorruptLogError if an object that the record needs is at neither its source nor its
    target.
    """
    copies = {name: put for name, put in record.puts.items() if isinstance(put, Copied)}
    for step in record.in_order():
        pairs = []
        for name in step:
            source, target = (
                found.get(key_of(directory, copies[name].source)),
                found.get(key_of(directory, name)),
            )
            if source is not None and source.etag == copies[name].etag:
                pairs.append((source.key, key_of(directory, name)))
            elif target is None or target.size != copies[name].size:
                raise _lost(bucket, key_of(directory, copies[name].source), copies[name])
        bucket.each(lambda pair: bucket.copy(*pair), pairs)
    for name, put in record.puts.items():
        if isinstance(put, Content):
            key = key_of(directory, name)
            _write(bucket, key, put, before=found.get(key))
    now = bucket.list_right_in(parent(key_of(directory, name)) for name in record.puts)
    for name, put in record.puts.items():
        target = now.get(key_of(directory, name))
        if target is None or target.size != put.size:
            raise _lost(bucket, key_of(directory, name), put)
    bucket.delete(key_of(directory, name) for name in record.deletes)
    if read_record(bucket, directory) == record:
        bucket.delete([key_of(directory, COMMIT_RECORD)])
    return now


def _write(bucket: S3Bucket, key: str, content: Content, *, before: Stored | None) -> Stored:
    """Write one object. CorruptLogError if the existing object is not `before`."""
    try:
        if before is None:
            etag = bucket.create(key, content.data, mtime_ns=content.mtime_ns)
        else:
            etag = bucket.replace(key, content.data, etag=before.etag, mtime_ns=content.mtime_ns)
    except (FileExistsError, ObjectChangedError):
        # The client repeats a request whose answer is late, and then finds its own object.
        data, stored = bucket.get(key)
        if data != content.data:
            raise _changed(bucket, key) from None
        return stored
    return Stored(key, content.size, etag, content.mtime_ns)


def _places(directory: str, record: Record) -> set[str]:
    sources = (put.source for put in record.puts.values() if isinstance(put, Copied))
    return {parent(key_of(directory, name)) for name in (*record.puts, *sources, *record.deletes)}


def _lost(bucket: S3Bucket, key: str, put: Copied | Content) -> CorruptLogError:
    return CorruptLogError(
        "an object that a commit record needs is not there",
        expected=f"{put.size} bytes",
        where=f"s3://{bucket.name}/{key}",
        hint="Something else has removed or written it. "
        "Restore it from a copy or an older version of the object, then run `recover`.",
    )


def _changed(bucket: S3Bucket, key: str) -> CorruptLogError:
    return CorruptLogError(
        "the directory has changed since it was read",
        expected="no change by anybody else",
        found="an object that was written, replaced or removed since",
        where=f"s3://{bucket.name}/{key}",
        hint="Something else is writing there. Stop it and run again.",
    )
