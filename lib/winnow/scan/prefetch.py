"""Scan a split while the walk over its headers has it in memory, and store its keys for later.

This saves one read of a log that is larger than memory. It requires that all tasks share a machine,
since the keys are stored in local files. Only partitions that are about to be compacted are
prefetched (docs/decisions/0034).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from winnow.errors import optional
from winnow.logdir.names import LOG, segment_file
from winnow.runtime.packing import TASKS_PER_CORE, packed
from winnow.runtime.spool import StoredKeys, StoredPart, joined, written
from winnow.scan.chunks import batches_of
from winnow.scan.cut import Split
from winnow.scan.job import BUCKET_RECORDS, buckets_for, fair_bucket_records
from winnow.scan.scan import KeyBlob, KeysWanted, packed_keys
from winnow.scan.topic_usage import HoldingsCounter
from winnow.storage.places import free_bytes
from winnow.storage.segment_io import Bytes, load, map_range
from winnow.wire.batch import BATCH
from winnow.wire.buffers import Rows, copied, whole

Keys: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
Hashes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
"""uint64[n, 2], as `RecordColumns.hash`."""


_UNEVEN = 1.25
"""Longest time of a walk of whole segments, relative to one that all cores share evenly."""
_RECORD_BYTES = 64
"""Assumed bytes of a record in a log: buckets must be chosen before records are counted."""
_MOST_IN_BUCKET = 2 * BUCKET_RECORDS
"""Keys per bucket. With more, a scan that knows the number would choose more buckets."""
_KEY_BYTES = 20
"""Bytes of a key in the spool: its hash and its record's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch(KeysWanted):
    """Requests `Split.keys` from a walk."""

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
    """Return each partition's request to its walk; none if some cores would be idle for long.

    One core walks a whole segment, while several can scan one.
    """
    sizes = [size for partition in expected.values() for size in partition.segments]
    busiest = max(map(sum, packed(sizes, sizes, tasks=parallelism)))
    if parallelism * busiest > _UNEVEN * sum(sizes):
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
            first_dirty_offset=partition.first_dirty_offset,
            buckets=buckets,
            secret=secret,
            max_decompressed_bytes=partition.max_decompressed_bytes,
            end_offset=partition.end_offset,
            spool=spool,
            most_keys=_MOST_IN_BUCKET * buckets / max(1, size),
            least_free=least_free,
        )
    return prefetches


@dataclass(slots=True)
class KeyKeeper:
    """Receives the rows of a walk, piece by piece, in order, and scans each split once it is
    complete.

    A split that can't be scanned is skipped: the regular scan will report why.
    """

    buf: Bytes
    """The log, with the batches."""
    prefetch: Prefetch
    holders: HoldingsCounter | None
    """Counts the names in all records, if given."""
    done: int = 0
    """Bytes of the log that are no longer needed."""
    _rows: list[Rows] = field(default_factory=list)
    """Rows of the split that is not complete."""
    _kept: list[StoredKeys | None] = field(default_factory=list)
    """The stored keys of each complete split, if it was scanned and they had room."""
    _scans: bool = True
    """False once the keys of a plain split were not stored."""

    def add(self, rows: Rows, ended: Sequence[Split]) -> None:
        """Add rows. `ended`: all splits complete by now."""
        for split in ended[len(self._kept) :]:
            end = bisect_left(rows, split.end, key=lambda row: int(row["position"]))
            self._keep(split, rows[:end])
            rows = rows[end:]
        self._rows.append(copied(rows))

    def finish(self, splits: Sequence[Split]) -> tuple[Split, ...]:
        """Return all splits, with their stored keys."""
        if len(splits) > len(self._kept):
            self._keep(splits[-1], np.empty(0, BATCH))
        return tuple(
            replace(split, keys=keys) for split, keys in zip(splits, self._kept, strict=True)
        )

    def _keep(self, split: Split, last: Rows) -> None:
        """Scan the split that these rows complete, and keep its keys."""
        rows = np.concatenate([whole(some) for some in (*self._rows, last)]).view(BATCH)
        self._rows.clear()
        self.done = split.end
        holders = self.holders
        named = None if holders is None else HoldingsCounter(self.buf, holders.topic)
        keys = None
        if self._scans and split.plain:
            with optional("reading keys with the headers"):
                load(self.buf, split.start, split.end)
                keys = _stored(self.buf, rows, split, self.prefetch, named)
            self._scans = keys is not None
        self._kept.append(keys)
        if holders is not None and named is not None:
            if keys is None:
                holders.add(rows)
            else:
                holders.add_all_of(named)


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
    """Scan a split and store its keys. None if the buckets are too few for them, or the free space
    is too small. Raises OSError and CorruptLogError.
    """
    parts = list(packed_keys(buf, rows, split.records, prefetch, holders=holders))
    keys = sum(len(part.numbers) for part in parts)
    room = free_bytes(prefetch.spool) - prefetch.least_free
    if keys > prefetch.most_keys * (split.end - split.start) or keys * _KEY_BYTES > room:
        return None
    stored = (
        StoredPart(
            part.dirty,
            *written(prefetch.spool, [part.starts, part.hashes, part.numbers, part.tombstones]),
        )
        for part in parts
    )
    return StoredKeys(prefetch.first_dirty_offset, prefetch.buckets, tuple(stored))


def with_usable_keys(splits: Sequence[Split], *, first_dirty_offset: int) -> tuple[Split, ...]:
    """Return all splits of a round, without keys that were read for another plan.

    Drop all keys if the splits that were not prefetched would make the buckets too large.
    """
    mine = [
        split
        if split.keys is None or split.keys.first_dirty_offset == first_dirty_offset
        else replace(split, keys=None)
        for split in splits
    ]
    buckets = next((split.keys.buckets for split in mine if split.keys is not None), 0)
    count = sum(
        split.records if split.keys is None else sum(part.count for part in split.keys.parts)
        for split in mine
    )
    if count > _MOST_IN_BUCKET * buckets:
        return tuple(replace(split, keys=None) for split in mine)
    return tuple(mine)


def blobs_of(keys: StoredKeys, split: int, buckets: Sequence[int]) -> Iterator[tuple[int, KeyBlob]]:
    """Yield what `scan_split` would yield of these buckets for the split with this number.

    Raises OSError for a file that is too short.
    """
    for part in keys.parts:
        starts = joined([part.starts], np.int64).tolist()
        for bucket in buckets:
            rows = starts[bucket], starts[bucket + 1]
            if rows[0] < rows[1]:
                hashes, numbers = part.hashes.rows(*rows, 16), part.numbers.rows(*rows, 4)
                yield bucket, KeyBlob(split, part.dirty, hashes, numbers)


def hashes_of(keys: StoredKeys, *, dirty: bool) -> Hashes:
    """Return the hashes of a split, uint64[n, 2], of its dirty or of its clean part. Raises OSError
    for a file that is too short.
    """
    blobs = [part.hashes for part in keys.parts if part.dirty == dirty]
    return joined(blobs, np.uint64).reshape(-1, 2)


def tombstones_of(keys: StoredKeys) -> Keys:
    """Return the upper halves of the hashes of dirty keys whose last record is a tombstone."""
    return joined([part.tombstones for part in keys.parts], np.uint64)
