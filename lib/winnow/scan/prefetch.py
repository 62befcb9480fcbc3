"""Scan a split while the walk over its headers has it in memory, and store its keys for later.

This saves one read of a log that is larger than memory. It requires that all tasks share a machine,
since the keys are stored in local files. Only partitions that are about to be compacted are
prefetched (docs/decisions/0034).
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.names import LOG, segment_file
from winnow.runtime.packing import TASKS_PER_CORE
from winnow.runtime.spool import Spooled, StoredKeys, joined, written
from winnow.scan.chunks import batches_of
from winnow.scan.cut import Split
from winnow.scan.job import BUCKET_RECORDS, buckets_for, fair_bucket_records
from winnow.scan.scan import KeyBlob, KeysWanted, packed_keys
from winnow.scan.topic_usage import HoldingsCounter
from winnow.storage.places import free_bytes
from winnow.storage.segment_io import Bytes, load, map_range
from winnow.wire.batch import BATCH
from winnow.wire.buffers import Rows, copy_rows

Keys: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
Hashes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
"""uint64[n, 2], as `RecordColumns.hash`."""

_log = logging.getLogger(__name__)

_RECORD_BYTES = 64
"""Assumed bytes of a record in a log: buckets must be chosen before records are counted."""
_MOST_IN_BUCKET = 2 * BUCKET_RECORDS
"""Keys per bucket. With more, a scan that knows the number would choose more buckets."""
_KEY_BYTES = 20
"""Bytes of a key in the spool: its hash and its record's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch:
    """Requests `Split.keys` from a walk."""

    wanted: KeysWanted
    end_offset: int
    """Segments that begin at or after it are not scanned."""
    spool: str
    """See `winnow.runtime.spool`."""
    most_keys: float
    """Keys per byte of log. With more keys, the buckets are too few and keys are not kept."""
    least_free: int
    """Bytes that must remain free beside the spool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A partition that is about to be compacted."""

    first_dirty_offset: int
    end_offset: int
    max_decompressed_bytes: int
    segments: Sequence[int]
    """Log bytes of the segments to scan."""
    known_bytes: int = 0
    """Log bytes of segments that are only scanned if they may change (`cleaning.summaries`)."""


def prefetch_of(
    expected: Mapping[str, Expected], secret: tuple[int, int], spool: str, parallelism: int
) -> dict[str, Prefetch]:
    """Return each partition's request to its walk; none if the walk of one segment would take
    longer than all others.

    One core walks a whole segment, while several can scan one.
    """
    sizes = [size for partition in expected.values() for size in partition.segments]
    if 2 * parallelism * max(sizes, default=0) > sum(sizes):
        return {}
    return requests_of(expected, secret, spool, parallelism)


def requests_of(
    expected: Mapping[str, Expected], secret: tuple[int, int], spool: str, parallelism: int
) -> dict[str, Prefetch]:
    """Return each partition's request to a scan before its job."""
    sizes = [size for partition in expected.values() for size in partition.segments]
    in_bucket = fair_bucket_records(sum(sizes) // _RECORD_BYTES, tasks=TASKS_PER_CORE * parallelism)
    least_free = free_bytes(spool) // 2
    prefetches = {}
    for directory, partition in expected.items():
        size = sum(partition.segments) + partition.known_bytes
        buckets = buckets_for(size // _RECORD_BYTES, in_bucket)
        prefetches[directory] = Prefetch(
            wanted=KeysWanted(
                first_dirty_offset=partition.first_dirty_offset,
                buckets=buckets,
                secret=secret,
                max_decompressed_bytes=partition.max_decompressed_bytes,
            ),
            end_offset=partition.end_offset,
            spool=spool,
            most_keys=_MOST_IN_BUCKET * buckets / max(1, size),
            least_free=least_free,
        )
    return prefetches


class KeyKeeper:
    """Receives the rows of a walk, piece by piece, in order, and scans each split once it is
    complete.

    A split that can't be scanned is skipped: the regular scan will report why.
    """

    def __init__(self, buf: Bytes, prefetch: Prefetch, holders: HoldingsCounter | None) -> None:
        """`buf`: contains the batches. `holders`: receives all records, if given."""
        self._buf = buf
        self._holders = holders
        self._prefetch = prefetch
        self._rows = np.empty(0, BATCH)
        self._filled = 0
        self._kept: list[StoredKeys | None] = []
        self._goes_on = True
        self.done = 0
        """Bytes of the log that are no longer needed."""

    def room(self, count: int) -> Rows:
        """Return room for the next `count` rows. Room returned before becomes invalid."""
        needed = self._filled + count
        if needed > len(self._rows):
            larger = np.empty(max(needed, 2 * len(self._rows)), BATCH)
            copy_rows(self._rows[: self._filled], larger[: self._filled])
            self._rows = larger
        return self._rows[self._filled : needed]

    def add(self, count: int, ended: Sequence[Split]) -> None:
        """Add the first `count` rows of the last room. `ended`: all splits complete by now."""
        self._filled += count
        first = 0
        for split in ended[len(self._kept) :]:
            end = bisect_left(
                self._rows, split.end, first, self._filled, key=lambda row: int(row["position"])
            )
            self._keep(split, self._rows[first:end])
            first = end
        if first:
            left = self._rows[first : self._filled]
            copy_rows(left, self._rows[: len(left)])
            self._filled = len(left)

    def finish(self, splits: Sequence[Split]) -> tuple[Split, ...]:
        """Return all splits, with their stored keys."""
        if len(splits) > len(self._kept):
            self._keep(splits[-1], self._rows[: self._filled])
        return tuple(
            replace(split, keys=keys) for split, keys in zip(splits, self._kept, strict=True)
        )

    def _keep(self, split: Split, rows: Rows) -> None:
        self.done = split.end
        named = None if self._holders is None else self._holders.another()
        keys = self._keys_of(split, rows, named) if self._goes_on and split.plain else None
        self._kept.append(keys)
        if self._holders is not None and named is not None:
            if keys is None:
                self._holders.add(rows)
            else:
                self._holders.add_all_of(named)

    def _keys_of(
        self, split: Split, rows: Rows, named: HoldingsCounter | None
    ) -> StoredKeys | None:
        try:
            load(self._buf, split.start, split.end)
            keys = _stored(self._buf, rows, split, self._prefetch, named)
        except FAILS_ONE_PARTITION as error:
            _log.debug("keys are not prefetched: %s", error)
            keys = None
        self._goes_on = keys is not None
        return keys


def keys_of_split(directory: str, split: Split, prefetch: Prefetch) -> StoredKeys | None:
    """Scan a split that was walked before, and store its keys. None if there is no room for them.

    Raises CorruptLogError as `scan_split` does.
    """
    path = f"{directory}/{segment_file(split.base_offset, LOG)}"
    with map_range(path, split.start, split.end) as buf:
        return _stored(buf, batches_of(buf, path, split.base_offset), split, prefetch)


def _stored(
    buf: Bytes,
    rows: Rows,
    split: Split,
    prefetch: Prefetch,
    holders: HoldingsCounter | None = None,
) -> StoredKeys | None:
    """Scan a split, and store each part's bucket starts, hashes and numbers, then the tombstones'
    hashes. None if they are more than the buckets are made for, or need too much space. Raises
    OSError and CorruptLogError.
    """
    wanted = prefetch.wanted
    parts = list(packed_keys(buf, rows, split.records, wanted, holders=holders))
    keys = sum(len(part.numbers) for part in parts)
    room = free_bytes(prefetch.spool) - prefetch.least_free
    if keys > prefetch.most_keys * (split.end - split.start) or keys * _KEY_BYTES > room:
        return None
    stored = written(
        prefetch.spool,
        (
            *(array for part in parts for array in (part.starts, part.hashes, part.numbers)),
            *(part.tombstones for part in parts),
        ),
    )
    return StoredKeys(
        path=stored.path,
        start=stored.start,
        first_dirty_offset=wanted.first_dirty_offset,
        buckets=wanted.buckets,
        parts=tuple((part.dirty, len(part.numbers)) for part in parts),
        tombstones=sum(len(part.tombstones) for part in parts),
    )


def with_usable_keys(splits: Sequence[Split], *, first_dirty_offset: int) -> tuple[Split, ...]:
    """Return all splits of a round, without keys that were read for another plan.

    Drop all keys if the splits that were not prefetched would make the buckets too large.
    """
    if all(split.keys is None for split in splits):
        return tuple(splits)
    mine = [
        split
        if split.keys is None or split.keys.first_dirty_offset == first_dirty_offset
        else replace(split, keys=None)
        for split in splits
    ]
    buckets = next((split.keys.buckets for split in mine if split.keys is not None), 0)
    count = sum(
        split.records if split.keys is None else sum(n for _, n in split.keys.parts)
        for split in mine
    )
    if count > _MOST_IN_BUCKET * buckets:
        return tuple(replace(split, keys=None) for split in mine)
    return tuple(mine)


def blobs_of(keys: StoredKeys, split: int, buckets: Sequence[int]) -> Iterator[tuple[int, KeyBlob]]:
    """Yield what `scan_split` would yield of these buckets for the split with this number.

    Raises OSError for a file that is too short.
    """
    at = keys.start
    for dirty, count in keys.parts:
        starts = joined([Spooled(keys.path, at, 8 * (keys.buckets + 1))], np.int64).tolist()
        hashes = at + 8 * len(starts)
        numbers = hashes + 16 * count
        at = numbers + 4 * count
        for bucket in buckets:
            first, end = starts[bucket], starts[bucket + 1]
            if first < end:
                yield (
                    bucket,
                    KeyBlob(
                        split,
                        dirty,
                        Spooled(keys.path, hashes + 16 * first, 16 * (end - first)),
                        Spooled(keys.path, numbers + 4 * first, 4 * (end - first)),
                    ),
                )


def hashes_of(keys: StoredKeys, *, dirty: bool) -> Hashes:
    """Return the hashes of a split, uint64[n, 2], of its dirty or of its clean part. Raises OSError
    for a file that is too short.
    """
    at, found = keys.start, [np.empty((0, 2), np.uint64)]
    for is_dirty, count in keys.parts:
        at += 8 * (keys.buckets + 1)
        if is_dirty == dirty:
            hashes = joined([Spooled(keys.path, at, 16 * count)], np.uint64)
            found.append(hashes.reshape(-1, 2))
        at += 20 * count
    return np.concatenate(found)


def tombstones_of(keys: StoredKeys) -> Keys:
    """Return the upper halves of the hashes of dirty keys whose last record is a tombstone."""
    at = keys.start + sum(8 * (keys.buckets + 1) + 20 * count for _, count in keys.parts)
    return joined([Spooled(keys.path, at, 8 * keys.tombstones)], np.uint64)
