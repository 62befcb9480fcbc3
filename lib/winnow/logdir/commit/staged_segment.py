"""Write a new segment into a staging directory. Every segment that Winnow makes is written here."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Self

import numpy as np

from winnow.errors import VerificationError
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX, segment_file
from winnow.runtime.side_by_side import side_by_side
from winnow.storage.contract import Entry, Storage
from winnow.storage.places import Places
from winnow.storage.segment_io import Bytes, SegmentWriter, drop_cached, map_range
from winnow.storage.urls import is_remote

_COMPARED_BYTES = 16 * 2**20


class StagedSegment:
    """The files of one new segment. Call `log`, `add_indexes` and `take_over_attributes` in this
    order. The caller creates and removes the directory `staging`. If the `with` block fails, the
    files are removed, because others may need the space.

    `unique`: each file name ends in a fresh id. So a task that Spark runs twice, or late, never
    overwrites another's files. Without it files have their final names.
    """

    def __init__(
        self, storage: Storage, staging: str, base_offset: int, *, unique: bool = True
    ) -> None:
        self.paths: dict[str, str] = {}
        """Of the files, by suffix. A file has its entry before it is created."""
        self._storage = storage
        self._staging = staging
        self._base_offset = base_offset
        self._mtime_ns: int | None = None
        self._indexes: dict[str, bytes] = {}
        self._end = f".{uuid.uuid4().hex}" if unique else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for path in self.paths.values():
                with suppress(OSError):
                    Places().unlink(path)

    def log(self, *, limit: int | None = None, mtime_ns: int | None = None) -> SegmentWriter:
        """Create the log. See `SegmentWriter`. Its time is that of the indexes, too."""
        self._mtime_ns = mtime_ns
        return SegmentWriter(self._new(LOG), limit=limit, mtime_ns=mtime_ns)

    def add_indexes(self, index: bytes, timeindex: bytes, txnindex: bytes | None) -> None:
        """Create the index files. None: no transaction index, which has a time of its own."""
        times = {INDEX: self._mtime_ns, TIMEINDEX: self._mtime_ns, TXNINDEX: None}
        self._indexes = {INDEX: index, TIMEINDEX: timeindex}
        if txnindex is not None:
            self._indexes[TXNINDEX] = txnindex
        creations = [
            partial(self._storage.create, self._new(suffix), data, mtime_ns=times[suffix])
            for suffix, data in self._indexes.items()
        ]
        side_by_side(creations, at_once=len(creations) if is_remote(self._staging) else 1)

    def take_over_attributes(self, owner: str, mtime_ns: int, *, txnindex: bool) -> None:
        """Give all files the owner and mode of the file `owner`, and the modification time. The
        files are synced on return.

        `txnindex`: the transaction index gets the time, too. Kafka's cleaner leaves it out (S5.9,
        S8.5).
        """
        for suffix, path in self.paths.items():
            self._storage.copy_attributes(owner, path)
            if txnindex or suffix != TXNINDEX:
                self._storage.set_mtime_ns(path, mtime_ns)
            self._storage.fsync_file(path)

    def compare(self, parts: Sequence[Bytes]) -> None:
        """Read the files back from the disk. Raises VerificationError if the log does not consist
        of `parts`, or an index differs from what was added.
        """
        path, wanted = self.paths[LOG], sum(len(part) for part in parts)
        drop_cached(path)
        if self._storage.entry(path).size != wanted:
            raise _different(path)
        position = 0
        with map_range(path, 0, wanted) as written:
            for part in parts:
                for at in range(0, len(part), _COMPARED_BYTES):
                    piece = part[at : at + _COMPARED_BYTES]
                    if not np.array_equal(written[position : position + len(piece)], piece):
                        raise _different(path)
                    position += len(piece)
            del written
        for suffix, content in self._indexes.items():
            drop_cached(self.paths[suffix])
            if self._storage.read_bytes(self.paths[suffix]) != content:
                raise _different(self.paths[suffix])

    def entries(self) -> dict[str, Entry]:
        """Return the files by suffix, as they are now."""
        return {suffix: self._storage.entry(path) for suffix, path in self.paths.items()}

    def _new(self, suffix: str) -> str:
        name = segment_file(self._base_offset, suffix)
        self.paths[suffix] = f"{self._staging}/{name}{self._end}"
        return self.paths[suffix]


def source_mtime_ns(storage: Storage, path: str) -> int:
    """Return the modification time of a source's log, in whole milliseconds, as Kafka sets it."""
    return storage.entry(path).mtime_ns // 1_000_000 * 1_000_000


def _different(path: str) -> VerificationError:
    return VerificationError(
        "a staged segment is not what was written",
        where=path,
        hint="The disk or the memory of this machine may be failing.",
    )
