"""Walk the batch headers of whole segments: what only the log itself can tell before a plan is sure.

One task per segment, headers only, no record is parsed. A segment's summary says where it may be split for the scan,
whether it holds what this version does not clean, what its batches leave of each producer, and how transactions run
through it; summaries of neighbours fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from winnow.engine.chunks import counted, next_offset
from winnow.engine.gather import NO_BATCHES, Gatherer, aborted_rows
from winnow.engine.holders import Holdings, HoldingsCounter
from winnow.errors import CorruptLogError
from winnow.logdir.index import check_index_against, read_offset_index
from winnow.logdir.names import INDEX, LOG, TXNINDEX, segment_file
from winnow.logdir.txnindex import read_txn_index
from winnow.policy.producers import Marker
from winnow.policy.transaction_runs import NO_RUNS, SegmentRuns, summarise
from winnow.policy.transactions import ABORTED
from winnow.storage.places import Places
from winnow.storage.segment_io import Bytes, map_range, release
from winnow.wire.batch import BATCH, CODEC_MASK, CONTROL, HEADER_V2_SIZE, MAX_MAGIC, TRANSACTIONAL, is_wrapper
from winnow.wire.internal_topics import INTERNAL_TOPICS
from winnow.wire.record_kernels import SMALLEST_RECORD
from winnow.wire.walk import WalkStatus, describe, walk_batches

SPLIT_BYTES = 64 * 2**20
"""Log bytes that one scan task reads: enough to drown what a task costs, few enough to spread one partition."""

SPLIT_RECORDS = 2**24
"""Records that one scan task counts: what is compressed a thousandfold would be more than there is memory for."""
_DENSEST = np.array([1, 1032, 32, 255, 2**17 // 3, 1, 1, 1])
"""Bytes that one byte can become, by codec (S2.4): an end of block of gzip, copies of snappy and lz4, a run of zstd."""

_INDEXED = ["position", "last_offset", "magic", "attributes"]
_ROWS = 4_096
"""At once: of batches of 16 KiB, 64 MiB, which is what is in memory of a segment."""


@dataclass(frozen=True, slots=True)
class Split:
    """A run of whole batches of one segment. Records are numbered from 0 inside it."""

    base_offset: int
    """Of the segment."""
    start: int
    end: int
    records: int
    """As `chunks.counted` has it, which is only a guess for some of v0 and v1."""


@dataclass(frozen=True, slots=True)
class SegmentWalk:
    """What the headers of one segment say. `next_offset` is the base offset if the segment is empty."""

    base_offset: int
    next_offset: int
    batches: int
    records: int
    """See `guessed`."""
    control: bool
    transactional: bool
    legacy: bool
    """Has v0 or v1 batches."""
    guessed: bool
    """`records` is no more than a guess (see `chunks.counted`)."""
    splits: tuple[Split, ...]
    last_batches: np.ndarray[Any, Any] = field(repr=False)
    """BATCH rows whose replay leaves the state of each producer, ascending by offset (see `policy.producers.traces`):
    the last batch of each, and more of those with transactions. Empty unless asked for."""
    markers: Mapping[int, Marker] = field(default_factory=dict, repr=False)
    """The decoded control batches among `last_batches`, by base offset."""
    runs: SegmentRuns = field(default=NO_RUNS, repr=False)
    """How transactions run through the segment; nothing unless asked for."""
    aborted: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, ABORTED), repr=False)
    """Its transaction index, dtype ABORTED; empty unless asked for."""
    first_live: int | None = None
    """Base offset of the first batch that ends at or above the log start offset; None: there is none, or `runs` were
    not asked for."""
    holdings: Holdings | None = None
    """None unless asked for, and see `HoldingsCounter`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsWanted:
    """Asks a walk for `SegmentWalk.runs` and `aborted`."""

    high_watermark: int
    log_start_offset: int
    end_offset: int | None
    """Base offset of the next segment, if there is one."""
    txn_index: bool
    """There is a `.txnindex` file."""


def not_walked(base_offset: int) -> SegmentWalk:
    """What stands for the walk of a segment that nothing is to be known of, as if it were empty."""
    return SegmentWalk(
        base_offset=base_offset,
        next_offset=base_offset,
        batches=0,
        records=0,
        control=False,
        transactional=False,
        legacy=False,
        guessed=False,
        splits=(),
        last_batches=NO_BATCHES,
    )


def walk_segment(
    directory: str,
    base_offset: int,
    log_bytes: int,
    *,
    producers_from: int | None = None,
    check_index: bool = False,
    transactions: TransactionsWanted | None = None,
    topic: str | None = None,
) -> SegmentWalk:
    """Reads every batch header of a segment, and control batches whole if producers or transactions are wanted.

    `producers_from`: asks for `SegmentWalk.last_batches`, of the batches that end at or above this offset.
    `topic`: its name, if `SegmentWalk.holdings` is wanted. Only then records are looked into.

    Raises CorruptLogError where a header makes no sense, the log ends inside a batch, offsets do not ascend,
    (`check_index`) an entry of the offset index does not point at a batch that ends at its offset (S1.6), or
    (`transactions`) the transaction index is not that of the log (S4.1).
    """
    path = f"{directory}/{segment_file(base_offset, LOG)}"
    log_start = None if transactions is None else transactions.log_start_offset
    with map_range(path, 0, log_bytes, gradually=True) as buf:
        gatherer = None
        if producers_from is not None or transactions is not None:
            gatherer = Gatherer(buf, path, producers_from=producers_from, log_start_offset=log_start)
        holders = HoldingsCounter(buf, topic) if topic in INTERNAL_TOPICS else None
        walk = _walk(
            buf,
            path,
            directory,
            base_offset,
            gatherer=gatherer,
            holders=holders,
            check_index=check_index,
            log_start=log_start,
        )
        if gatherer is None:
            return walk
        last_batches, markers = gatherer.last_batches()
    walk = replace(walk, last_batches=last_batches, markers=markers)
    return walk if transactions is None else _with_runs(walk, directory, gatherer, transactions)


def _with_runs(walk: SegmentWalk, directory: str, gatherer: Gatherer, wanted: TransactionsWanted) -> SegmentWalk:
    index, log = (f"{directory}/{segment_file(walk.base_offset, suffix)}" for suffix in (TXNINDEX, LOG))
    aborted = aborted_rows(
        read_txn_index(Places(), index, base_offset=walk.base_offset, end_offset=wanted.end_offset)
        if wanted.txn_index
        else ()
    )
    runs = summarise(
        gatherer.events(),
        aborted,
        high_watermark=wanted.high_watermark,
        log_start_offset=wanted.log_start_offset,
        where=(index, log),
    )
    return replace(walk, runs=runs, aborted=aborted)


def _walk(
    buf: Bytes,
    path: str,
    directory: str,
    base_offset: int,
    *,
    gatherer: Gatherer | None,
    holders: HoldingsCounter | None,
    check_index: bool,
    log_start: int | None,
) -> SegmentWalk:
    rows = np.empty(_ROWS, BATCH)
    position, least_offset = 0, base_offset
    batches = records = 0
    attributes = 0
    legacy = guessed = False
    first_live: int | None = None
    splits: list[Split] = []
    split_start = split_records = 0
    index_rows: list[np.ndarray[Any, Any]] = []
    status = WalkStatus.FULL
    while status == WalkStatus.FULL:
        count, position, status = walk_batches(buf, position, least_offset, rows)
        if status not in (WalkStatus.FULL, WalkStatus.END):
            raise describe(status, buf, position, least_offset=next_offset(rows[:count], least_offset), file_name=path)
        if count == 0:
            break
        seen = rows[:count]
        _refuse_wild_counts(seen, path)
        least_offset = int(seen["last_offset"][-1]) + 1
        if log_start is not None and first_live is None and least_offset > log_start:
            first_live = int(seen["base_offset"][np.searchsorted(seen["last_offset"], log_start)])
        batches += count
        attributes |= int(np.bitwise_or.reduce(seen["attributes"]))
        legacy |= bool((seen["magic"] < 2).any())
        counts = counted(seen)
        records += int(counts.sum())
        guessed |= bool(is_wrapper(seen).any())
        ends = seen["position"] + seen["size"]
        through = np.cumsum(counts)
        done = 0
        while True:
            # The first batch that fills the split ends it.
            full = done + SPLIT_RECORDS - split_records
            cut = int(min(np.searchsorted(ends, split_start + SPLIT_BYTES), np.searchsorted(through, full)))
            if cut >= count:
                break
            split_records += int(through[cut]) - done
            splits.append(Split(base_offset, split_start, int(ends[cut]), split_records))
            split_start, split_records, done = int(ends[cut]), 0, int(through[cut])
        split_records += int(through[-1]) - done
        if gatherer is not None:
            gatherer.add(seen)
        if holders is not None:
            holders.add(seen)
        if check_index:
            index_rows.append(seen[_INDEXED].copy())
        release(buf, position)
    if position > split_start:
        splits.append(Split(base_offset, split_start, position, split_records))
    if check_index:
        _check_index(directory, base_offset, position, index_rows)
    return SegmentWalk(
        base_offset=base_offset,
        next_offset=least_offset,
        batches=batches,
        records=records,
        control=bool(attributes & CONTROL),
        transactional=bool(attributes & TRANSACTIONAL),
        legacy=legacy,
        guessed=guessed,
        splits=tuple(splits),
        last_batches=NO_BATCHES,
        first_live=first_live,
        holdings=None if holders is None else holders.holdings(),
    )


def _refuse_wild_counts(rows: np.ndarray[Any, Any], path: str) -> None:
    """Counts decide how much memory and how many tasks a run takes, long before the records themselves are read."""
    counts = rows["record_count"].astype(np.int64)
    room = rows["last_offset"] - rows["base_offset"] + 1
    densest = _DENSEST[rows["attributes"] & CODEC_MASK]
    room = np.minimum(room, (rows["size"] - HEADER_V2_SIZE) * densest // SMALLEST_RECORD)
    wild = np.flatnonzero((counts > room) & (rows["magic"] == MAX_MAGIC))
    if len(wild):
        row = rows[wild[0]]
        raise CorruptLogError(
            "a batch can't hold as many records as it says",
            expected=f"at most {int(room[wild[0]])}",
            found=str(int(row["record_count"])),
            where=f"{path} at byte {int(row['position'])}",
            hint="Copy the partition from another replica.",
        )


def _check_index(directory: str, base_offset: int, log_bytes: int, chunks: list[np.ndarray[Any, Any]]) -> None:
    path = f"{directory}/{segment_file(base_offset, INDEX)}"
    storage = Places()
    if not storage.exists(path):
        if log_bytes:
            raise CorruptLogError("the segment has no offset index", expected=path, found="no such file")
        return
    index = read_offset_index(storage, path, base_offset=base_offset, log_bytes=log_bytes)
    if not len(index):
        return
    batches = np.concatenate(chunks) if chunks else np.empty(0, BATCH)[_INDEXED]
    check_index_against(index, batches, file=path, wrappers=is_wrapper(batches))
