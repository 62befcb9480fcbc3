"""Walk the batch headers of whole segments, for facts that only the log itself contains and a plan
needs.

One task per segment. A segment's summary says where it may be split for the scan, what state its
batches leave of each producer, and how transactions run through it. Summaries of neighbours can be
folded. Records are parsed only to count the names in Kafka's own topics
(`winnow.scan.topic_usage`) or to scan on the way (`winnow.scan.prefetch`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import HeaderWalk
from winnow.logdir.indexes.checks import check_offset_index, least_named
from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, written_entries
from winnow.logdir.names import INDEX, LOG, TXNINDEX, segment_file
from winnow.pickling import pickled_by_fields
from winnow.policy.producers import Marker
from winnow.policy.transaction_runs import NO_RUNS, SegmentRuns, summarise
from winnow.scan.cut import Cutter, Split
from winnow.scan.plain_cut import GUESSED
from winnow.scan.prefetch import KeyKeeper, Prefetch
from winnow.scan.topic_usage import Holdings, HoldingsCounter
from winnow.scan.values import SegmentSummary
from winnow.storage.places import Places
from winnow.storage.segment_io import map_range, release
from winnow.survey.gather import NO_BATCHES, NONE_ABORTED, Gatherer, decode_aborted
from winnow.wire.batch import LEGACY, is_wrapper
from winnow.wire.buffers import Array, whole
from winnow.wire.internal_topics import INTERNAL_TOPICS

_INDEXED = np.dtype(
    [
        ("position", np.int64),
        ("last_offset", np.int64),
        ("least_named", np.int64),
        ("wrapper", np.bool_),
    ],
    align=True,
)
"""Columns that the offset index is compared with."""


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class SegmentWalk:
    """What the headers of a segment say. `next_offset` of an empty one: its base offset. One that
    is not read counts as empty.
    """

    base_offset: int
    next_offset: int
    batches: int = 0
    records: int = 0
    """See `guessed`."""
    legacy: bool = False
    """Has v0 or v1 batches."""
    guessed: bool = False
    """`records` is only a guess (`cut_kernel.sum_up`)."""
    splits: tuple[Split, ...] = ()
    last_batches: Array = field(default_factory=lambda: NO_BATCHES, repr=False)
    """BATCH rows whose replay gives the state of each producer, ascending by offset (see
    `policy.producers.traces`): the last batch of each, and more of those with transactions. Empty
    unless requested.
    """
    markers: Mapping[int, Marker] = field(default_factory=dict, repr=False)
    """The decoded control batches among `last_batches`, by base offset."""
    runs: SegmentRuns = field(default=NO_RUNS, repr=False)
    """How transactions run through the segment. Empty unless requested."""
    aborted: Array = field(default_factory=lambda: NONE_ABORTED, repr=False)
    """Its transaction index, dtype ABORTED. Empty unless requested."""
    first_live: int | None = None
    """Base offset of the first batch that ends at or above the log start offset. None: there is
    none, or `runs` were not requested.
    """
    holdings: Holdings | None = None
    """None unless requested; see also `HoldingsCounter`."""
    stays: SegmentSummary | None = None
    """Set if the segment was not read: what an earlier run knew of it (`cleaning.summaries`)."""


@pickled_by_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsWanted:
    """Requests `SegmentWalk.runs` and `aborted` from a walk."""

    high_watermark: int
    log_start_offset: int
    end_offset: int | None
    """Base offset of the next segment, if there is one."""
    txn_index: bool
    """Whether there is a `.txnindex` file."""
    rebuilt: bytes | None = None
    """The `.txnindex` that a broker rebuilds when it recovers the segment (S8.2). The file is then
    not read.
    """


def walk_segment(
    directory: str,
    base_offset: int,
    log_bytes: int,
    *,
    producers_from: int | None = None,
    check_index: bool = False,
    transactions: TransactionsWanted | None = None,
    topic: str | None = None,
    prefetch: Prefetch | None = None,
) -> SegmentWalk:
    """Read every batch header of a segment; read control batches whole if producers or transactions
    are requested.

    `producers_from`: requests `SegmentWalk.last_batches`, of the batches that end at or above this
    offset. `topic`: its name, if `SegmentWalk.holdings` is requested. `prefetch`: requests
    `Split.keys`, where possible. Only these two options read records.

    Raises CorruptLogError where a header is invalid, the log ends inside a batch, offsets do not
    ascend, (`check_index`) an entry of the offset index does not point at a batch that ends at its
    offset (S1.6), or (`transactions`) the transaction index does not match the log (S4.1).
    """
    path = f"{directory}/{segment_file(base_offset, LOG)}"
    log_start = None if transactions is None else transactions.log_start_offset
    first_live: int | None = None
    indexed: list[Array] = []
    cutter = Cutter(base_offset, path)
    with map_range(path, 0, log_bytes, gradually=True) as buf:
        gatherer = Gatherer(buf, path, producers_from=producers_from, log_start_offset=log_start)
        holders = HoldingsCounter(buf, topic) if topic in INTERNAL_TOPICS else None
        keeper = None if prefetch is None else KeyKeeper(buf, prefetch, holders)
        # A keeper reads bytes again, and releases pages itself.
        walk = HeaderWalk(buf, base_offset, gradually=True, passes=keeper is None)
        for seen in walk.whole(path):
            cutter.add(seen)
            gatherer.add(seen)
            if log_start is not None and first_live is None and walk.least_offset > log_start:
                row = np.searchsorted(seen["last_offset"], log_start)
                first_live = int(seen["base_offset"][row])
            if check_index:
                columns = np.empty(len(seen), _INDEXED)
                columns["position"], columns["last_offset"] = seen["position"], seen["last_offset"]
                columns["least_named"] = least_named(seen)
                columns["wrapper"] = is_wrapper(seen) if cutter.flags & GUESSED else False
                indexed.append(columns)
            if keeper is not None:
                keeper.add(seen, cutter.ended)
                release(buf, keeper.done)
            elif holders is not None:
                holders.add(seen)
        if check_index:
            _check_index(directory, base_offset, walk.end, indexed)
        splits = cutter.splits() if keeper is None else keeper.finish(cutter.splits())
        last_batches, markers = gatherer.last_batches()
        runs, aborted = NO_RUNS, NONE_ABORTED
        if transactions is not None:
            runs, aborted = _runs(directory, base_offset, gatherer, transactions)
    return SegmentWalk(
        base_offset=base_offset,
        next_offset=walk.least_offset,
        batches=cutter.batches,
        records=cutter.records,
        legacy=bool(cutter.flags & LEGACY),
        guessed=bool(cutter.flags & GUESSED),
        splits=splits,
        last_batches=last_batches,
        markers=markers,
        runs=runs,
        aborted=aborted,
        first_live=first_live,
        holdings=None if holders is None else holders.holdings(),
    )


def _runs(
    directory: str, base_offset: int, gatherer: Gatherer, wanted: TransactionsWanted
) -> tuple[SegmentRuns, Array]:
    events = gatherer.events()
    index, log = index_and_log(directory, base_offset)
    data = wanted.rebuilt
    if data is None:
        data = Places().read_bytes(index) if wanted.txn_index else b""
    if not data and not len(events):
        return NO_RUNS, NONE_ABORTED
    aborted = decode_aborted(data, index, base_offset, wanted.end_offset)
    runs = summarise(
        events,
        aborted,
        high_watermark=wanted.high_watermark,
        log_start_offset=wanted.log_start_offset,
        where=(index, log),
    )
    return runs, aborted


def index_and_log(directory: str, base_offset: int) -> tuple[str, str]:
    """Return the paths of a segment's transaction index and log."""
    log = f"{directory}/{segment_file(base_offset, LOG)}"
    return f"{directory}/{segment_file(base_offset, TXNINDEX)}", log


def _check_index(
    directory: str, base_offset: int, log_bytes: int, batches: Sequence[Array]
) -> None:
    """Compare the offset index with `batches`: dtype _INDEXED, of all batches, piece by piece."""
    path = f"{directory}/{segment_file(base_offset, INDEX)}"
    storage = Places()
    if not storage.exists(path):
        if log_bytes:
            raise CorruptLogError(
                "the segment has no offset index", expected=path, found="no such file"
            )
        return
    every = np.concatenate([whole(some) for some in (np.empty(0, _INDEXED), *batches)])
    data = written_entries(storage.read_bytes(path), OFFSET_ENTRY_SIZE)
    check_offset_index(
        data, path, every.view(_INDEXED), base_offset=base_offset, log_bytes=log_bytes
    )
