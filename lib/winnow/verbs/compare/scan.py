"""Read a replica's records as an offset and two digests each. Keys and values stay here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from winnow.errors import errors_inside
from winnow.kafka_log.ranges import ReadRange
from winnow.logdir.batches import Piece, TornLogError
from winnow.policy.transactions import aborted_batches
from winnow.scan.last_offsets import last_per_key
from winnow.storage.contract import Storage
from winnow.verbs.compare.replicas import Bounds
from winnow.wire.batch import CONTROL, MAX_MAGIC
from winnow.wire.buffers import RecordBlocks
from winnow.wire.columns import RecordPlaces, record_places
from winnow.wire.digests import record_digests
from winnow.wire.inflate import inflate_parts
from winnow.wire.records import check_crcs

ENTRY = np.dtype(
    [
        ("key", np.uint64, 2),
        ("content", np.uint64, 2),
        ("offset", np.int64),
        ("tombstone", np.bool_),
    ]
)
"""One record, with `key` and `content` as in `record_digests`. For a record without a key, `key` is
made of its offset, so it supersedes nothing.
"""
Entries = np.ndarray[Any, np.dtype[Any]]
Bits = np.ndarray[Any, np.dtype[np.bool_]]

_MOST = 1 << 20
"""Number of entries sent together. One batch may exceed it."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


Blob: TypeAlias = tuple[int, bytes]
"""Number of a replica, and some of its entries: dtype ENTRY, as bytes."""


def scan_range(
    storage: Storage, wanted: ReadRange, bounds: Bounds, secret: tuple[int, int]
) -> Iterator[Entries | int]:
    """Yield entries for the visible, committed records of a range that the bounds ask for, and
    between them how many of the records are within the bounds.

    From `every_record_from` up to `end`, this is each record. Before and after, it is the last
    record of each key among the batches that are read together, and none without a key. Raises
    CorruptLogError for anything that can't be read.
    """
    kept: list[Entries] = []
    size = 0
    for piece in _pieces(storage, wanted):
        for entries, keyless in _of_piece(piece, wanted, secret):
            yield int((entries["offset"] < bounds.end).sum())
            kept.append(entries[_chosen(entries, keyless, bounds)])
            size += len(kept[-1])
            if size >= _MOST:
                yield np.concatenate(kept)
                kept, size = [], 0
    if size:
        yield np.concatenate(kept)


def _pieces(storage: Storage, wanted: ReadRange) -> Iterator[Piece]:
    try:
        yield from wanted.pieces(storage)
    except TornLogError:
        if not wanted.may_be_torn:
            raise


def _where_they_count(blocks: RecordBlocks, places: RecordPlaces) -> RecordPlaces:
    """Return the records with offsets inside of those of their batches (S5.5)."""
    first, last = (blocks.rows[name][places.batch] for name in ("base_offset", "last_offset"))
    return places._replace(offset=np.clip(places.offset, first, last))


def _of_piece(
    piece: Piece, wanted: ReadRange, secret: tuple[int, int]
) -> Iterator[tuple[Entries, Bits]]:
    """Yield entries of all wanted records, and which of these have no key."""
    rows = piece.rows[wanted.touched(piece.rows)]
    rows = rows[(rows["attributes"] & CONTROL == 0) | (rows["magic"] < MAX_MAGIC)]
    rows = rows[~aborted_batches(rows, wanted.aborted)]
    with errors_inside(wanted.path, piece.start):
        check_crcs(piece.data, rows)
        for blocks in inflate_parts(piece.data, rows):
            places = _where_they_count(blocks, record_places(blocks))
            inside = (places.offset >= wanted.first) & (places.offset < wanted.end)
            if not inside.all():
                places = places.take(np.flatnonzero(inside))
            keyless = places.key.size < 0
            entries = np.empty(len(places.offset), ENTRY)
            entries["key"], entries["content"] = record_digests(blocks, places, secret)
            own = places.offset[keyless].astype(np.uint64) * _GOLDEN
            entries["key"][keyless] = np.stack([~own, own], axis=1)
            entries["offset"] = places.offset
            entries["tombstone"] = (places.value.size < 0) & ~keyless
            yield entries, keyless
            del blocks  # free it before the next part is read


def _chosen(entries: Entries, keyless: Bits, bounds: Bounds) -> Bits:
    keys, offset = np.ascontiguousarray(entries["key"]), entries["offset"]
    before, beyond = offset < bounds.every_record_from, offset >= bounds.end
    chosen: Bits = ~before & ~beyond
    for part in (before, beyond):
        chosen |= last_per_key(keys, part & ~keyless)
    return chosen


def by_bucket(entries: Entries, buckets: int) -> Iterator[tuple[int, Entries]]:
    """Yield the entries of each bucket of keys, in the order given."""
    high = entries["key"][:, 1] >> np.uint64(32)
    bucket = (high * np.uint64(buckets)) >> np.uint64(32)
    order = np.argsort(bucket, kind="stable")
    bounds = np.searchsorted(bucket[order], np.arange(buckets + 1, dtype=np.uint64))
    for number in np.flatnonzero(np.diff(bounds)).tolist():
        yield number, entries[order[bounds[number] : bounds[number + 1]]]
