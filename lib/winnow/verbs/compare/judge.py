"""Judge one bucket of keys by its digests: which records differ, and which are missing without a
reason.

The rules for records below `end` (docs/decisions/0023 gives the reasons):

- If two replicas have a record at an offset, it is the same record.
- From `every_record_from` on, all replicas have every record. Before it, they have the last record
  of each key.
- In a compacted log, a record may be missing if the replica has a later one of its key: an
  interrupted round has cleaned beyond the checkpoint.
- The last record of a key may be missing if it is a tombstone that the replica's cleaner has
  passed, and no older record of the key is left.
- A replica that was cleaned beyond `end` may have lost a record that a later record there
  superseded. If it has no record of the key up to where it was cleaned, this can't be decided, and
  the key is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from winnow.runtime.failure import Failure
from winnow.verbs.compare.replicas import Bounds
from winnow.verbs.compare.scan import ENTRY, Blob
from winnow.wire.buffers import Array

MOST_REPLICAS = 63
"""Each replica takes one bit. No real cluster has that many replicas."""


@dataclass(frozen=True, slots=True, order=True)
class Suspect:
    """A difference. `has`, `other`: replicas. `other` lacks the record or has a different one."""

    offset: int
    has: int
    other: int
    missing: bool


@dataclass(frozen=True, slots=True)
class BucketVerdict:
    """The verdict on one bucket, or on several. `first` is None if there is no difference."""

    differences: int = 0
    first: Suspect | None = None
    undecided: int = 0
    records: int = 0
    """Records that were read."""
    unreadable: tuple[int, Failure] | None = None
    """Number of the first replica that can't be read, and the reason."""

    def __add__(self, other: BucketVerdict) -> BucketVerdict:
        firsts = [one.first for one in (self, other) if one.first is not None]
        broken = [one.unreadable for one in (self, other) if one.unreadable is not None]
        return BucketVerdict(
            self.differences + other.differences,
            min(firsts, default=None),
            self.undecided + other.undecided,
            self.records + other.records,
            min(broken, key=lambda one: one[0], default=None),
        )


SAME = BucketVerdict()


def judge(blobs: Sequence[Blob], bounds: Bounds) -> BucketVerdict:
    """Judge all entries of one bucket, of all replicas."""
    records = _Records(blobs, len(bounds.cleaned_to))
    below = records.offset < bounds.end
    verdict = _contents(records, below)
    last = below & np.append(records.key[1:] != records.key[:-1], True) if len(below) else below
    last[:-1] |= below[:-1] & ~below[1:]
    needed = below & ((records.offset >= bounds.every_record_from) | last)
    for replica, cleaned in enumerate(bounds.cleaned_to):
        verdict += _missing(records, replica, cleaned, needed, last, bounds)
    return verdict


class _Records:
    """One item per key and offset, ascending in both. `key` is a number. `mask` has a bit for each
    replica that has the record.
    """

    def __init__(self, blobs: Sequence[Blob], replicas: int) -> None:
        self.replicas = replicas
        parts = [np.frombuffer(data, ENTRY) for _, data in blobs]
        entries = np.concatenate([np.empty(0, ENTRY), *parts])
        owners = [np.full(len(part), blob[0]) for blob, part in zip(blobs, parts, strict=True)]
        owner = np.concatenate([[], *owners]).astype(np.uint64)
        keys = np.ascontiguousarray(entries["key"])
        order = np.lexsort((owner, entries["offset"], keys[:, 1], keys[:, 0]))
        self._entries, self._owner, keys = entries[order], owner[order], keys[order]
        offset = self._entries["offset"]
        n = len(order)
        new_key = np.ones(n, np.bool_)
        new_key[1:] = (keys[1:] != keys[:-1]).any(axis=1)
        new = new_key.copy()
        new[1:] |= offset[1:] != offset[:-1]
        self.first = np.flatnonzero(new)
        self._record = np.cumsum(new) - 1
        self.offset = offset[self.first]
        self.key = (np.cumsum(new_key) - 1)[self.first]
        self.tombstone = self._entries["tombstone"][self.first]
        self.mask = (
            np.bitwise_or.reduceat(np.uint64(1) << self._owner, self.first)
            if n
            else np.empty(0, np.uint64)
        )
        self.owner = self._owner[self.first].astype(np.int64)

    def suspect(self, at: int, other: int, *, missing: bool) -> Suspect:
        return Suspect(int(self.offset[at]), int(self.owner[at]), int(other), missing=missing)

    def has(self, replica: int) -> Array:
        found: Array = (self.mask >> np.uint64(replica)) & np.uint64(1) != 0
        return found

    def disagreeing(self, among: Array) -> tuple[Array, Array]:
        """Return (record, replica) of entries unlike the first replica's at that offset."""
        content = self._entries["content"]
        other = (content != content[self.first][self._record]).any(axis=1) & among[self._record]
        return self._record[other], self._owner[other].astype(np.int64)

    def last_offset_of(self, replica: int, among: Array) -> Array:
        """Return, for each key, the last offset that a replica has among some records, or -1."""
        last = np.full(int(self.key[-1]) + 1 if len(self.key) else 0, -1, np.int64)
        mine = self.has(replica) & among
        last[self.key[mine]] = self.offset[mine]  # ascending, so the last one wins
        return last


def _contents(records: _Records, below: Array) -> BucketVerdict:
    record, replica = records.disagreeing(below)
    if not len(record):
        return SAME
    at = np.lexsort((replica, records.owner[record], records.offset[record]))[0]
    return BucketVerdict(len(record), records.suspect(record[at], replica[at], missing=False))


def _missing(
    records: _Records, replica: int, cleaned: int, needed: Array, last: Array, bounds: Bounds
) -> BucketVerdict:
    suspects = np.flatnonzero(needed & ~records.has(replica))
    if not len(suspects):
        return SAME
    key, offset = records.key[suspects], records.offset[suspects]
    everywhere = np.ones(len(records.key), np.bool_)
    latest = records.last_offset_of(replica, everywhere)[key]
    nothing_below = records.last_offset_of(replica, records.offset < bounds.end)[key] < 0
    excused = bounds.compacted & ~last[suspects] & (latest > offset)
    excused |= records.tombstone[suspects] & (offset < cleaned) & nothing_below
    beyond = nothing_below & ~excused if cleaned > bounds.end else np.zeros(len(suspects), np.bool_)
    undecided = int((beyond & (latest < 0)).sum())
    left = suspects[~excused & ~beyond]
    if not len(left):
        return BucketVerdict(undecided=undecided)
    # Two keys may claim one offset.
    at = left[np.lexsort((records.owner[left], records.offset[left]))[0]]
    return BucketVerdict(len(left), records.suspect(at, replica, missing=True), undecided)
