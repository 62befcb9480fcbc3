"""Group changes of one directory in S3 so that they take effect at one moment.

The changes are collected first: the bucket has none of them before the commit, but their author
sees the directory with them. The commit record holds the net effect for each key
(`winnow.storage.s3.record`).
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from winnow.errors import CorruptLogError
from winnow.storage.contract import COMMIT_RECORD, os_error
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.client import ObjectChangedError
from winnow.storage.s3.memory import Stored, covers, inside, key_of, name_of, parent
from winnow.storage.s3.record import ChangeRecord, Content, Copied, decode, encode

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
        if key_of(self.directory, COMMIT_RECORD) in self._before:
            settle(self._bucket, self.directory)
            self._before.clear()
            self._directories.clear()

    def find(self, key: str) -> Node:
        self._list(parent(key))
        return self._now[key] if key in self._now else self._before.get(key)

    def file(self, key: str) -> Stored | Content:
        """Like `find`. FileNotFoundError if there is no file."""
        node = self.find(key)
        if node is None:
            raise os_error(errno.ENOENT, self._bucket.url(key))
        return node

    def right_in(self, directory: str) -> tuple[dict[str, Stored | Content], set[str]]:
        """Return the files of a directory by key, and the names of its sub-directories."""
        names, start = {*self._list(directory)}, inside(directory)
        deep = (key for key in self._now if key.startswith(start) and parent(key) != directory)
        touched = {key.removeprefix(start).partition("/")[0] for key in deep}
        return self._files(lambda key: parent(key) == directory), names - touched | {
            name for name in touched if self.below(key_of(directory, name))
        }

    def is_directory(self, key: str) -> bool:
        """Return whether there is anything below a key."""
        if key == self.directory:
            return bool(self.below(key))
        return name_of(key) in self.right_in(parent(key))[1]

    def below(self, directory: str) -> dict[str, Stored | Content]:
        """Return all files of a directory and its sub-directories, by key."""
        unlisted = [directory]
        while unlisted:
            listed = unlisted.pop()
            unlisted += (key_of(listed, name) for name in self._list(listed))
        return self._files(lambda key: covers(directory, parent(key)))

    def _files(self, are: Callable[[str], bool]) -> dict[str, Stored | Content]:
        found = {**self._before, **self._now}
        return {key: node for key, node in found.items() if node is not None and are(key)}

    def put(self, key: str, node: Node) -> None:
        self._list(parent(key))
        self._now[key] = node

    def add(self, key: str, node: Node) -> None:
        """Like `put`. FileExistsError if there is a file."""
        if self.find(key) is not None:
            raise os_error(errno.EEXIST, self._bucket.url(key))
        self.put(key, node)

    def move(self, source: str, target: str) -> None:
        """Move a file, or everything below a directory. FileNotFoundError if there is neither."""
        node = self.find(source)
        moved = {source: node} if node is not None else self.below(source)
        if not moved:
            raise os_error(errno.ENOENT, self._bucket.url(source))
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
            return [(_write(self._bucket, only, content, before), content.mtime_ns)]
        record = self._record(effects)
        etag = self._prepare(record)
        involved = {*effects, *(put.source for put in record.copies.values())}
        now = self._bucket.list_right_in(map(parent, involved))
        for key in sorted(involved):
            was, found = self._before.get(key), now.get(key)
            if (was and was.etag) != (found and found.etag):
                raise _changed(self._bucket, key)
        record = replace(record, state="decided")
        try:
            self._bucket.write(record.key, encode(record), over=etag)
        except ObjectChangedError:
            raise _changed(self._bucket, record.key) from None
        placed = roll_forward(self._bucket, record, now)
        return [(placed[key], copied.mtime_ns) for key, copied in record.copies.items()]

    def _list(self, directory: str) -> list[str]:
        """Return the names of the sub-directories, as first listed."""
        if directory not in self._directories:
            objects, self._directories[directory] = self._bucket.list_top(directory)
            self._before |= {one.key: one for one in objects}
        return self._directories[directory]

    def _record(self, effects: Mapping[str, Node]) -> ChangeRecord:
        """Return the commit record. It deletes only objects that exist."""
        moved = {key: node for key, node in effects.items() if isinstance(node, Stored)}
        times = self._times_of(moved.values())
        return ChangeRecord(
            self.directory,
            uuid.uuid4().hex,
            "prepared",
            {key: Copied(old.key, old.size, old.etag, times[old]) for key, old in moved.items()},
            {key: node for key, node in effects.items() if isinstance(node, Content)},
            tuple(sorted(key for key, node in effects.items() if node is None)),
        )

    def _prepare(self, record: ChangeRecord) -> str:
        """Write the prepared record and return its tag. From here on, nobody else can decide."""
        data = encode(record)
        try:
            return self._bucket.write(record.key, data, over=None)
        except ObjectChangedError:
            found, etag = _found(self._bucket, self.directory)
            if found.state == "decided":
                raise _changed(self._bucket, record.key) from None
        try:
            return self._bucket.replace(record.key, data, etag=etag)
        except ObjectChangedError:
            raise _changed(self._bucket, record.key) from None


def read_record(bucket: S3Bucket, directory: str) -> ChangeRecord | None:
    """Return a directory's change that has taken effect but is not complete."""
    try:
        record, _ = _found(bucket, directory)
    except FileNotFoundError:
        return None
    return record if record.state == "decided" else None


def settle(bucket: S3Bucket, directory: str) -> None:
    """Complete a change that has taken effect, and discard one that has not."""
    try:
        record, etag = _found(bucket, directory)
    except FileNotFoundError:
        return
    if record.state == "decided":
        sources = (copied.source for copied in record.copies.values())
        named = (*record.puts, *sources, *record.deletes)
        roll_forward(bucket, record, bucket.list_right_in(map(parent, named)))
        return
    # Replace the record first, so that its author can't decide any more. Only then delete it.
    nothing = ChangeRecord(directory, uuid.uuid4().hex, "prepared", {}, {}, ())
    bucket.replace(record.key, encode(nothing), etag=etag)
    bucket.delete([record.key])


def _found(bucket: S3Bucket, directory: str) -> tuple[ChangeRecord, str]:
    """Return the record of a directory, in any state, and its tag."""
    key = key_of(directory, COMMIT_RECORD)
    data, stored = bucket.get(key)
    return decode(data, directory, bucket.url(key)), stored.etag


def roll_forward(
    bucket: S3Bucket, record: ChangeRecord, found: Mapping[str, Stored]
) -> Mapping[str, Stored]:
    """Complete a decided change. `found`: what is in the directories that the record names. Return
    what is there when all is copied. It may be interrupted anywhere and repeated.

    Raises CorruptLogError if an object that the record needs is at neither its source nor its
    target.
    """
    for step in record.in_order():
        pairs = []
        for key in step:
            copied = record.copies[key]
            source, target = found.get(copied.source), found.get(key)
            if source is not None and source.etag == copied.etag:
                pairs.append((copied.source, key))
            elif target is None or target.size != copied.size:
                raise _lost(bucket, copied.source, copied)
        bucket.each(lambda pair: bucket.copy(*pair), pairs)
    for key, content in record.contents.items():
        _write(bucket, key, content, found.get(key))
    now = bucket.list_right_in(map(parent, record.puts))
    for key, put in record.puts.items():
        target = now.get(key)
        if target is None or target.size != put.size:
            raise _lost(bucket, key, put)
    bucket.delete(record.deletes)
    if read_record(bucket, record.directory) == record:
        bucket.delete([record.key])
    return now


def _write(bucket: S3Bucket, key: str, content: Content, before: Stored | None) -> Stored:
    """Write one object. CorruptLogError if the existing object is not `before`."""
    over = None if before is None else before.etag
    try:
        etag = bucket.write(key, content.data, over=over, mtime_ns=content.mtime_ns)
    except ObjectChangedError:
        raise _changed(bucket, key) from None
    return Stored(key, content.size, etag, content.mtime_ns)


def _lost(bucket: S3Bucket, key: str, put: Copied | Content) -> CorruptLogError:
    return CorruptLogError(
        "an object that a commit record needs is not there",
        expected=f"{put.size} bytes",
        where=bucket.url(key),
        hint="Something else has removed or written it. "
        "Restore it from a copy or an older version of the object, then run `recover`.",
    )


def _changed(bucket: S3Bucket, key: str) -> CorruptLogError:
    return CorruptLogError(
        "the directory has changed since it was read",
        expected="no change by anybody else",
        found="an object that was written, replaced or removed since",
        where=bucket.url(key),
        hint="Something else is writing there. Stop it and run again.",
    )
