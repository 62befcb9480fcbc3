"""Find records: all of one key, by its exact bytes, or the one at an offset.

Keys are hashed as for a cleaning. Where a hash matches, the batch is read
again by slower code, and the key is compared byte by byte.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyspark import SparkContext

from winnow.errors import errors_inside
from winnow.logdir.batches import Piece, read_batches
from winnow.logdir.names import LOG, segment_file
from winnow.policy.transactions import ABORTED, Carried, judge
from winnow.runtime.failure import Failure, all_or_failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread
from winnow.state import Segment
from winnow.storage.places import Places
from winnow.survey.gather import control_columns
from winnow.wire.batch import CONTROL, MAX_MAGIC, TRANSACTIONAL
from winnow.wire.buffers import Array, RecordBlocks
from winnow.wire.inflate import inflate_parts
from winnow.wire.key_search import NOT_FOUND, find_keys, key_set_of
from winnow.wire.plain import Record, read_records
from winnow.wire.records import check_crcs


class UnreadableError(Exception):
    """A part of the log can't be read, so there is no explanation."""

    def __init__(self, why: Failure) -> None:
        super().__init__(why.message)
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecord:
    segment: int
    position: int
    """Byte in the segment's log at which its batch begins."""
    batch: Array = field(repr=False)
    """One row of dtype BATCH."""
    discardable: bool
    """True if its batch is data of an aborted transaction, or a marker without data
    (`canDiscardBatch` of S4.1).
    """
    offset: int
    timestamp: int
    key: bytes | None
    null_value: bool

    @property
    def place(self) -> int:
        """Where it counts (S5.5): its offset, but not outside of those of its batch."""
        least, most = (int(self.batch[name][0]) for name in ("base_offset", "last_offset"))
        return min(max(self.offset, least), most)

    @property
    def control(self) -> bool:
        return bool(int(self.batch["attributes"][0]) & CONTROL)

    @property
    def counts(self) -> bool:
        """Whether it counts as a record of its key, if it is in the round's dirty range (S4)."""
        return self.key is not None and not self.control and not self.discardable


Place: TypeAlias = tuple[Segment, Carried]
"""A segment, and the transactions carried over from earlier ones (S4.1)."""


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """What was found. `older`: how many records before them. `latest` is the offset of the key's
    last record that counts in the dirty range (S4), if there is one.
    """

    records: tuple[FoundRecord, ...]
    older: int
    latest: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What to look for, and where. Set `key` or `offset`; with neither, all records match."""

    directory: str
    key: bytes | None = None
    offset: int | None = None
    dirty: tuple[int, int] = (0, 0)
    """Offsets [first dirty, U') of the round."""
    aborted: Array = field(default_factory=lambda: np.empty(0, ABORTED))
    """Dtype ABORTED: the transaction indexes of the log."""
    most: int | None = None
    """Return at most this many records of a segment, the last ones; None: all."""
    max_decompressed_bytes: int


def find(
    sc: SparkContext, search: Search, places: Sequence[Place], progress: Progress, doing: str
) -> FoundRecords:
    """Search these segments, ascending. Raises UnreadableError.

    `doing` describes the search in the progress display.
    """
    found = all_or_failure(
        spread(
            sc,
            partial(find_in_segment, search),
            places,
            weights=[segment.log_bytes for segment, _ in places],
            name=doing,
            progress=progress,
        )
    )
    if isinstance(found, Failure):
        raise UnreadableError(found)
    return FoundRecords(
        tuple(record for one in found for record in one.records),
        sum(one.older for one in found),
        max((one.latest for one in found if one.latest is not None), default=None),
    )


def find_in_segment(search: Search, place: Place) -> FoundRecords:
    """Search one segment.

    Raises CorruptLogError for anything that can't be read. Checksums are verified.
    """
    records: deque[FoundRecord] = deque(maxlen=search.most)
    total = 0
    latest: int | None = None
    for record in _records(search, place):
        records.append(record)
        total += 1
        if search.dirty[0] <= record.place < search.dirty[1] and record.counts:
            latest = record.place if latest is None else max(latest, record.place)
    return FoundRecords(tuple(records), total - len(records), latest)


def _records(search: Search, place: Place) -> Iterator[FoundRecord]:
    segment, carried = place
    size, base = segment.log_bytes, segment.base_offset
    path = f"{search.directory}/{segment_file(base, LOG)}"
    for piece in read_batches(Places(), path, size=size, least_offset=base):
        rows = piece.rows
        with errors_inside(path, piece.start):
            discardable = np.zeros(len(rows), np.bool_)
            if (rows["attributes"] & (TRANSACTIONAL | CONTROL)).any():
                types = control_columns(piece.data, rows, path).type
                judged = judge(rows, types, aborted=search.aborted, before=carried)
                discardable, carried = judged.discardable, judged.after
            yield from _in_piece(search, base, piece, discardable)


def _in_piece(
    search: Search, base: int, piece: Piece, discardable: NDArray[np.bool_]
) -> Iterator[FoundRecord]:
    rows, first, stop = piece.rows, 0, len(piece.rows)
    if search.offset is not None:
        at = int(np.searchsorted(rows["last_offset"], search.offset))
        stop = min(at + 1, len(rows))
        # The last record of a wrapper can have a higher offset than the one it was given (S2.1).
        first = at - 1 if at and int(rows["magic"][at - 1]) < MAX_MAGIC else at
    check_crcs(piece.data, rows[first:stop])
    limit = search.max_decompressed_bytes
    for blocks in inflate_parts(piece.data, rows[first:stop], limit=limit):
        for i, record in _in_blocks(search, blocks):
            yield FoundRecord(
                segment=base,
                position=piece.position(first + i),
                batch=blocks.rows[i : i + 1].copy(),
                discardable=bool(discardable[first + i]),
                offset=record.offset,
                timestamp=record.timestamp,
                key=record.key,
                null_value=record.value is None,
            )
        first += len(blocks.rows)


def _in_blocks(search: Search, blocks: RecordBlocks) -> Iterator[tuple[int, Record]]:
    """Yield the records that match, each with the number of its batch."""
    rows = blocks.rows
    chosen = range(len(rows))
    if search.key is not None:
        secret = secrets.randbits(64), secrets.randbits(64)
        found = find_keys(blocks, key_set_of([search.key], secret)).number
        batch = np.repeat(np.arange(len(rows)), rows["record_count"])
        matching = np.unique(batch[found != NOT_FOUND])
        # A marker's key is not a user's key (S5.5).
        chosen = matching[(rows["attributes"][matching] & CONTROL) == 0].tolist()
    for i in chosen:
        for record in read_records(blocks.area(i), rows[i]):
            if search.offset in (None, record.offset) and search.key in (None, record.key):
                yield i, record
