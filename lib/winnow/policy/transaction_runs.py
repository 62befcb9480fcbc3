"""How transactions span the segments of a log, from summaries of its segments (S4.1, S5.8).

Each segment is summarised alone. Per producer the summary has the data before its first marker
there, that marker, the last marker, and the data after it. Everything in between begins and ends
inside the segment and is settled there. Folding the summaries in order gives what depends on the
whole log: which producers have data of an unfinished transaction at each segment's start, which
transactions are undecided, and whether the transaction index agrees with the log.

A transactional batch without a producer id belongs to no transaction: a broker ignores it, and so
nothing is undecided because of it. Kafka's cleaner does not look for the id (S4.1). So such batches
count for `Carried`, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.advice import COPY, REBUILD
from winnow.errors import CorruptLogError
from winnow.policy.producers import Transaction
from winnow.policy.transactions import NOTHING_CARRIED, Carried, Sequence, sequence
from winnow.wire.batch import NO_PRODUCER
from winnow.wire.control import ControlType

EVENT = np.dtype(
    [("producer_id", np.int64), ("offset", np.int64), ("kind", np.int8), ("live", np.bool_)]
)
"""A transactional data batch or a marker: base offset, DATA or a `ControlType`, and whether it ends
at or above the log start offset. A broker reads a log from there on. It knows of nothing below it
except through a snapshot.
"""

RUN = np.dtype(
    [
        ("producer_id", np.int64),
        # Offset of the first data before the first marker, or at all without a marker; -1.
        ("head", np.int64),
        ("live_head", np.int64),  # likewise, for the first live data
        ("first_marker", np.int64),  # -1: none
        ("first_aborted", np.bool_),
        # First offset in the index entry of the first marker, -1: no entry.
        ("first_entry", np.int64),
        ("last_marker", np.int64),
        ("tail", np.int64),  # offset of the first data after the last marker, -1: none
        ("live_tail", np.int64),
        # After the markers that follow the first: 1 yes, 0 no, -1 same as after the first.
        ("lingers", np.int8),
    ]
)

_ABORT = int(ControlType.ABORT)
_HINT = f"Aborted records would come back, or committed ones would be lost. {COPY} {REBUILD}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRuns:
    runs: NDArray[np.void]
    """Dtype RUN."""
    undecided: Transaction | None = None
    """The earliest one inside the segment with live data below the high watermark and a marker at
    or above it.
    """


NO_RUNS = SegmentRuns(runs=np.empty(0, RUN))
"""A shared object: pickle writes the same object only once."""


def reduced(events: NDArray[np.void]) -> NDArray[np.void]:
    """Return the markers and, of the data between two of them, the first of each producer and the
    first live one. Nothing else matters.
    """
    seen = sequence(events["kind"], events["producer_id"], events["offset"])
    first, live = seen.first(), seen.first(events["live"])
    return np.asarray(
        events[np.sort(seen.rows[seen.end | (first == seen.offset) | (live == seen.offset)])]
    )


@dataclass(frozen=True, slots=True)
class _Matched:
    """The events of one segment by producer (`policy.transactions.sequence`), each with the index
    entry of its ABORT marker. All arrays have one item for each event.
    """

    events: Sequence
    first: NDArray[np.int64]
    """Offset of the producer's first data since its previous marker, -1: none."""
    live: NDArray[np.int64]
    """Likewise, of its first live data."""
    aborting: NDArray[np.bool_]
    """Whether the event is an ABORT marker."""
    has_entry: NDArray[np.bool_]
    entry_first: NDArray[np.int64]
    """First offset in the index entry, -1: no entry."""


def summarise(
    events: NDArray[np.void],
    aborted: NDArray[np.void],
    *,
    high_watermark: int,
    log_start_offset: int = 0,
    where: tuple[str, str],
) -> SegmentRuns:
    """Summarise one segment whose `events` (dtype EVENT) are in log order. `aborted`: its index,
    dtype ABORTED. The reference is `tests.twins.transactions`.

    `where`: paths of the index and of the log. An ABORT marker with live data needs an entry. One
    without may lack it: Kafka's cleaner drops entries that end below the log start offset, and a
    broker that read the log from there on knows no transaction to write an entry for. Raises
    CorruptLogError if index and log disagree in the segment.
    """
    if not len(events) and not len(aborted):
        return NO_RUNS
    matched = _match(events, aborted, where)
    _check(matched, where)
    runs = _runs(matched)
    runs["lingers"] = _lingering(matched, runs["producer_id"], log_start_offset)
    return SegmentRuns(runs=runs, undecided=_undecided(matched, high_watermark))


def _match(events: NDArray[np.void], aborted: NDArray[np.void], where: tuple[str, str]) -> _Matched:
    """Match ABORT markers and index entries by offset and producer. Raises CorruptLogError for an
    entry without a marker.
    """
    seen = sequence(events["kind"], events["producer_id"], events["offset"])
    aborting = seen.end & (events["kind"][seen.rows] == _ABORT)
    row = np.full(len(seen.rows), -1)  # in `aborted`
    markers = np.flatnonzero(aborting)
    _, at, found = np.intersect1d(seen.offset[markers], aborted["last_offset"], return_indices=True)
    same = seen.producer_id[markers[at]] == aborted["producer_id"][found]
    row[markers[at[same]]] = found[same]
    for number in np.setdiff1d(np.arange(len(aborted)), row):
        producer, _, marker, _ = aborted[number]
        raise _disagree(
            f"an ABORT marker of producer {producer} at offset {marker}, as the index says",
            "none there in the log",
            where,
        )
    return _Matched(
        events=seen,
        first=seen.first(),
        live=seen.first(events["live"]),
        aborting=aborting,
        has_entry=row >= 0,
        entry_first=np.append(aborted["first_offset"], -1)[row],
    )


def _check(matched: _Matched, where: tuple[str, str]) -> None:
    """Raise CorruptLogError for an ABORT marker whose live data is not in its entry, and for an
    entry that begins before the producer's previous marker.
    """
    seen, live, first = matched.events, matched.live, matched.entry_first
    unindexed = (seen.producer_id > NO_PRODUCER) & matched.aborting & (live >= 0)
    unindexed &= ~matched.has_entry | (live < first)
    for n in np.flatnonzero(unindexed).tolist():
        raise _without_entry(seen.producer_id[n], live[n], seen.offset[n], where)
    for n in np.flatnonzero(matched.has_entry & (seen.previous >= first)).tolist():
        raise _across_marker(seen.producer_id[n], first[n], seen.offset[n], seen.previous[n], where)


def _undecided(matched: _Matched, high_watermark: int) -> Transaction | None:
    """Return the earliest transaction with live data below the high watermark and a marker at or
    above it.
    """
    seen, live = matched.events, matched.live
    straddling = np.flatnonzero(
        (seen.producer_id > NO_PRODUCER)
        & seen.end
        & (live >= 0)
        & (live < high_watermark)
        & (seen.offset >= high_watermark)
    )
    if not len(straddling):
        return None
    n = straddling[np.argmin(live[straddling])]
    return Transaction(int(live[n]), int(seen.producer_id[n]), int(seen.offset[n]))


def _runs(matched: _Matched) -> NDArray[np.void]:
    """Return one row of dtype RUN for each producer, without `lingers`."""
    seen = matched.events
    lasts = np.flatnonzero(seen.last)
    runs = np.zeros(len(lasts), RUN)
    runs["producer_id"] = seen.producer_id[lasts]
    runs["last_marker"] = np.where(seen.end[lasts], seen.offset[lasts], seen.previous[lasts])
    without_marker = runs["last_marker"] < 0
    for head, tail, of in (
        ("head", "tail", matched.first),
        ("live_head", "live_tail", matched.live),
    ):
        runs[tail] = np.where(seen.end[lasts] | without_marker, -1, of[lasts])
        runs[head] = np.where(without_marker, of[lasts], -1)
    runs["first_marker"] = runs["first_entry"] = -1
    firsts = np.flatnonzero(seen.end & (seen.previous < 0))
    rows = np.searchsorted(runs["producer_id"], seen.producer_id[firsts])
    runs["head"][rows], runs["live_head"][rows] = matched.first[firsts], matched.live[firsts]
    runs["first_marker"][rows] = seen.offset[firsts]
    runs["first_aborted"][rows] = matched.aborting[firsts]
    runs["first_entry"][rows] = matched.entry_first[firsts]
    return runs


def _lingering(
    matched: _Matched, producers: NDArray[np.int64], log_start_offset: int
) -> NDArray[np.int8]:
    """Return the field `lingers` of RUN for each of the producers, ascending.

    Data of an aborted transaction without a known marker counts as committed (see
    `Carried.lingering`).
    """
    seen = matched.events
    begins = matched.aborting & (matched.first >= 0)
    begins &= ~matched.has_entry | (seen.offset < log_start_offset)
    ends = seen.end & ~matched.aborting
    changes = np.flatnonzero((begins | ends) & (seen.previous >= 0))
    lingers = np.full(len(producers), -1, np.int8)
    # The last change of each producer wins: it is assigned last.
    lingers[np.searchsorted(producers, seen.producer_id[changes])] = begins[changes]
    return lingers


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What the segments of a log say about its transactions together."""

    carried: tuple[Carried, ...]
    """Per segment, from everything before it."""
    opened: Mapping[int, int]
    """Producer id -> first offset of its transaction that is open at the log's end."""
    undecided: Transaction | None
    """The earliest transaction with live data that is open at the log's end, or ends at or above
    the high watermark.
    """


def fold(
    segments: Iterable[SegmentRuns],
    *,
    high_watermark: int,
    log_start_offset: int = 0,
    where: Callable[[int], tuple[str, str]],
) -> Fold:
    """Combine the summaries of all segments in order. `where`: returns the paths of index and log
    of the segment with this number, for errors.

    Raises CorruptLogError if the index of a segment disagrees with the log of earlier ones.
    """
    opened: dict[int, tuple[int, int]] = {}
    ended: dict[int, int] = {}
    lingers: frozenset[int] = frozenset()
    carried: list[Carried] = []
    undecided: list[Transaction] = []
    for number, segment in enumerate(segments):
        carried.append(
            Carried(frozenset(opened), lingers) if opened or lingers else NOTHING_CARRIED
        )
        if segment.undecided is not None:
            undecided.append(segment.undecided)
        for run in segment.runs.tolist():
            producer, _, _, marker, aborted, entry, last, _, _, after = run
            first, live = advance(opened, run)
            if marker < 0:
                continue
            if producer <= NO_PRODUCER:
                live = -1
            if aborted and live >= 0 and not 0 <= entry <= live:
                raise _without_entry(producer, live, marker, where(number))
            if 0 <= entry <= ended.get(producer, -1):
                raise _across_marker(producer, entry, marker, ended[producer], where(number))
            if 0 <= live < high_watermark <= marker:
                undecided.append(Transaction(live, producer, marker))
            if after < 0 and not aborted:
                after = 0
            elif after < 0 <= first and (entry < 0 or marker < log_start_offset):
                after = 1
            if after >= 0:
                lingers = lingers | {producer} if after else lingers - {producer}
            ended[producer] = last
    known = {producer: at for producer, at in opened.items() if producer > NO_PRODUCER}
    undecided += [Transaction(live, pid, None) for pid, (_, live) in known.items() if live >= 0]
    return Fold(
        carried=tuple(carried),
        opened={producer: first for producer, (first, _) in known.items()},
        undecided=min(undecided, key=lambda u: (u.first_offset, u.producer_id), default=None),
    )


def advance(opened: dict[int, tuple[int, int]], run: tuple[Any, ...]) -> tuple[int, int]:
    """Apply one row of dtype RUN to the open transactions: producer id -> first offset, and first
    live offset or -1. Return these two for the transaction that the first marker of the run ends,
    -1 and -1 if there is no marker or no transaction.
    """
    producer, head, live_head, marker, _, _, _, tail, live_tail, _ = run
    if head >= 0:
        first, live = opened.get(producer, (head, -1))
        opened[producer] = first, live_head if live < 0 else live
    if marker < 0:
        return -1, -1
    ended = opened.pop(producer, (-1, -1))
    if tail >= 0:
        opened[producer] = tail, live_tail
    return ended


def _without_entry(
    producer: int, first: int, marker: int, where: tuple[str, str]
) -> CorruptLogError:
    return _disagree(
        f"an entry for the transaction of producer {producer} from offset {first} to its ABORT "
        f"marker at {marker}",
        "none in the index",
        where,
    )


def _across_marker(
    producer: int, first: int, last: int, marker: int, where: tuple[str, str]
) -> CorruptLogError:
    return _disagree(
        f"no end of a transaction of producer {producer} between {first} and {last}, which the "
        "index calls one",
        f"a marker at offset {marker}",
        where,
    )


def _disagree(expected: str, found: str, where: tuple[str, str]) -> CorruptLogError:
    return CorruptLogError(
        "the transaction index and the markers in the log disagree",
        expected=expected,
        found=found,
        where=" and ".join(where),
        hint=_HINT,
    )
