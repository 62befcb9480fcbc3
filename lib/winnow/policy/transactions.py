"""Which batches belong to aborted transactions, and which markers are no longer needed (S4.1, S5.4,
S5.8).

Kafka reads a log from its first batch to its last and keeps a heap of aborted transactions by first
offset. It takes each from the heap at the first batch that reaches its first offset, and drops it
at the ABORT marker of its producer. A transactional batch is aborted while its producer has such a
transaction. If the transaction index agrees with the markers (see
`winnow.policy.transaction_runs`), each batch can be judged alone, in any order:

* A producer has at most one transaction at a time. So the intervals [first offset, marker offset]
  of its entries are disjoint, and no other marker of it lies inside one.
* An entry is active from the first batch with a last offset at or above its first offset up to its
  marker. The batches of its producer in that range are those whose last offset lies in its
  interval.

Only one question depends on the order: whether a marker still has data, that is, whether a
transactional batch of its producer lies between it and that producer's previous marker. Answering
it takes only memory for the producers that have such data.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import CONTROL, TRANSACTIONAL
from winnow.wire.control import ControlType

ABORTED = np.dtype(
    [
        ("producer_id", np.int64),
        ("first_offset", np.int64),
        ("last_offset", np.int64),
        ("last_stable_offset", np.int64),
    ]
)
"""One entry of a transaction index (S1.8). `last_offset` is that of the ABORT marker."""

DATA = -3
"""Kind of a transactional data batch, beside the `ControlType`s of control batches."""
_ABORT, _COMMIT = int(ControlType.ABORT), int(ControlType.COMMIT)


def aborted_batches(batches: NDArray[np.void], aborted: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return per batch (dtype BATCH) whether it is data of an aborted transaction. `aborted`: dtype
    ABORTED, in any order.
    """
    found = np.zeros(len(batches), np.bool_)
    rows = np.flatnonzero((batches["attributes"] & (TRANSACTIONAL | CONTROL)) == TRANSACTIONAL)
    if not len(rows):
        return found
    begin, end = batches["base_offset"][rows[0]], batches["last_offset"][rows[-1]]
    aborted = aborted[(aborted["last_offset"] >= begin) & (aborted["first_offset"] <= end)]
    if not len(aborted):
        return found
    producers, offsets = batches["producer_id"][rows], batches["last_offset"][rows]
    # Number the markers and the batches together: by producer, then by offset.
    every_producer = np.concatenate([aborted["producer_id"], producers])
    every_offset = np.concatenate([aborted["last_offset"], offsets])
    numbers = np.unique(every_producer, return_inverse=True)[1] * len(every_offset)
    numbers += np.unique(every_offset, return_inverse=True)[1]
    markers, wanted = np.split(numbers, [len(aborted)])
    # Take for each batch the lowest marker of its producer that is not below it.
    order = np.argsort(markers)
    at = np.minimum(np.searchsorted(markers[order], wanted), len(aborted) - 1)
    entry = aborted[order[at]]
    found[rows] = (
        (entry["producer_id"] == producers)
        & (entry["first_offset"] <= offsets)
        & (entry["last_offset"] >= offsets)
    )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """The transactional batches and ends of transactions among some batches, by producer, each in
    log order.

    Other control batches, and the empty ones that cleaning leaves, change nothing and are left out.
    """

    rows: NDArray[np.int64]
    """The row of each in the batches."""
    producer_id: NDArray[np.int64]
    offset: NDArray[np.int64]
    """Base offset."""
    end: NDArray[np.bool_]
    """Ends a transaction: a COMMIT or an ABORT."""
    begin: NDArray[np.int64]
    """Where in this sequence the producer's items begin."""
    since: NDArray[np.int64]
    """Where in it the items after the producer's previous end begin."""
    previous: NDArray[np.int64]
    """Offset of that previous end, -1 if it is not among these batches."""
    last: NDArray[np.bool_]
    """The last item of its producer."""

    def first(self, chosen: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return for each item the base offset of the first data batch after the producer's
        previous end, -1 if there is none up to the item. `chosen`: bool per batch, which count.
        """
        numbers = np.arange(len(self.rows))
        data = ~self.end if chosen is None else ~self.end & chosen[self.rows]
        following = np.minimum.accumulate(np.where(data, numbers, len(numbers))[::-1])[::-1]
        at = following[self.since]
        return np.where(at <= numbers, self.offset[np.minimum(at, len(numbers) - 1)], -1)


def sequence(
    kinds: NDArray[np.int8], producer_id: NDArray[np.int64], offset: NDArray[np.int64]
) -> Sequence:
    """Return the sequence of batches given by their `kinds` (DATA, or the `ControlType` of a
    control batch), producers and base offsets.
    """
    chosen = np.flatnonzero((kinds == DATA) | (kinds == _ABORT) | (kinds == _COMMIT))
    rows = chosen[np.argsort(producer_id[chosen], kind="stable")]
    producers, offsets, end = producer_id[rows], offset[rows], kinds[rows] != DATA
    begin = np.searchsorted(producers, producers)
    previous = np.full(len(rows), -1)
    previous[1:] = np.maximum.accumulate(np.where(end, np.arange(len(rows)), -1))[:-1]
    last = np.ones(len(rows), np.bool_)
    last[:-1] = begin[1:] != begin[:-1]
    return Sequence(
        rows=rows,
        producer_id=producers,
        offset=offsets,
        end=end,
        begin=begin,
        since=np.maximum(begin, previous + 1),
        previous=np.where(previous >= begin, offsets[previous], -1),
        last=last,
    )


@dataclass(frozen=True, slots=True)
class Carried:
    """What must be known of earlier batches to judge the next ones."""

    open_producers: frozenset[int] = frozenset()
    """Producers with transactional data after their last marker."""
    lingering: frozenset[int] = frozenset()
    """Producers with aborted data whose ABORT marker is unknown. Kafka's cleaner has taken that
    data for committed, and it counts for the next COMMIT marker of its producer.
    """


NOTHING_CARRIED = Carried()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What transactions mean for some batches (S4.1), one item per batch."""

    discardable: NDArray[np.bool_]
    """Data of an aborted transaction, or a marker without any batch left (`canDiscardBatch`)."""
    indexed: NDArray[np.int64]
    """Offsets of the ABORT markers that keep their entry in the transaction index, ascending."""
    after: Carried


def judge(
    batches: NDArray[np.void],
    types: NDArray[np.int8],
    *,
    aborted: NDArray[np.void],
    before: Carried = NOTHING_CARRIED,
) -> Judged:
    """Judge `batches` (dtype BATCH, ascending). `types` has one item per control batch, in order.

    `aborted`: dtype ABORTED, at least those that touch these batches. Those that end below the log
    start offset may be missing: nothing is known of their ABORT markers. `before`: carried over
    from the batches before the first one.
    """
    discardable = aborted_batches(batches, aborted)
    kinds = batch_kinds(batches, types)
    # Cleaned before, except for the header: the data it was for is gone (S4.1).
    discardable |= kinds == EMPTY_CONTROL
    seen = sequence(kinds, batches["producer_id"], batches["base_offset"])
    carried = (seen.previous < 0) & np.isin(
        seen.producer_id, np.array(sorted(before.open_producers), np.int64)
    )
    abort = kinds[seen.rows] == _ABORT
    unknown = abort & ~np.isin(seen.offset, aborted["last_offset"])
    commit = seen.end & ~abort
    own = (seen.first() >= 0) | carried
    lingered, lingers = _lingering(
        seen, begins=unknown & own, ends=commit, carried=before.lingering
    )
    has_data = (own & ~unknown) | (commit & lingered)
    discardable[seen.rows[seen.end & ~has_data]] = True
    kept = seen.rows[seen.end & has_data]
    indexed = np.sort(batches["base_offset"][kept[kinds[kept] == _ABORT]])
    still_open = seen.producer_id[seen.last & ~seen.end & own]
    touched = set(seen.producer_id[seen.last].tolist())
    return Judged(
        discardable=discardable,
        indexed=indexed,
        after=Carried(
            open_producers=before.open_producers - touched | frozenset(still_open.tolist()),
            lingering=before.lingering - touched
            | frozenset(seen.producer_id[seen.last & lingers].tolist()),
        ),
    )


def _lingering(
    seen: Sequence, *, begins: NDArray[np.bool_], ends: NDArray[np.bool_], carried: Collection[int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whether the producer of each row is lingering before it, and after it."""
    numbers = np.arange(len(seen.rows))
    changed = np.maximum.accumulate(np.where(begins | ends, numbers, -1))
    at_first = np.isin(seen.producer_id, np.array(sorted(carried), np.int64))
    after = np.where(changed >= seen.begin, begins[changed], at_first)
    return np.where(seen.begin == numbers, at_first, np.roll(after, 1)), after


EMPTY_CONTROL = -2
"""Kind of a control batch without a record."""
_OTHER = -4


def batch_kinds(batches: NDArray[np.void], types: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return int8 per batch: DATA; a control batch's `ControlType` or EMPTY_CONTROL; or another."""
    kinds = np.full(len(batches), _OTHER, np.int8)
    control = (batches["attributes"] & CONTROL) != 0
    kinds[((batches["attributes"] & TRANSACTIONAL) != 0) & ~control] = DATA
    kinds[control] = types
    return kinds
