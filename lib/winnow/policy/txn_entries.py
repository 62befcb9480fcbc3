"""Check first offsets and last stable offsets of a transaction index against the log (S1.8).

A broker reports aborted transactions to a read_committed consumer. It stops its search at the first
entry whose last stable offset reaches the end of the fetched data. A last stable offset that is too
high hides later entries, and the consumer gets aborted records.

Kafka writes the first offset of the earliest transaction of another producer that it knows as open,
or else the offset after the marker (`ProducerStateManager.lastStableOffset`). It knows all
transactions of one append. A leader appends one batch. A follower appends all batches of a fetch,
into one segment. So, above the offset after the marker, a follower may write where another producer
begins the next transaction.

Kafka truncates a log without a look at these offsets. What came after the cut has a higher leader
epoch, or does not exist.

Cleaning removes batches, so an offset may name a removed batch. A batch that still exists keeps its
offsets: if one holds the offset, it must begin there and be data of that transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.policy.transaction_runs import SegmentRuns, advance
from winnow.policy.transactions import DATA, sequence

_NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPromises:
    """What the entries of one segment require of transactions that began before it."""

    before: NDArray[np.int64]
    """Per row of the segment's `SegmentRuns.runs`: the highest last stable offset of an entry
    before that producer's first marker here, or of all entries if it has no marker here. -1: none.
    """
    highest: int
    """The highest of all, -1 if there is none."""
    named: tuple[tuple[int, int, int], ...]
    """(offset, producer whose data it must be or -1 for any, number of the entry) for each offset
    below the segment that an entry names.
    """


@dataclass(frozen=True, slots=True)
class EntryFault:
    """`entry`: its number in the index. None if the index is wrong but the entry is unknown."""

    message: str
    entry: int | None = None


def entry_faults(
    entries: NDArray[np.void],
    events: NDArray[np.void],
    batches: NDArray[np.void],
    *,
    base_offset: int,
    end_offset: int,
) -> Iterator[EntryFault]:
    """Yield the entries that the log of the same segment contradicts. `entries`: dtype ABORTED,
    ascending, each with its marker; `events`: dtype EVENT, reduced; `batches`: with `base_offset`,
    `last_offset` and `leader_epoch`, ascending. `end_offset`: the next segment begins there, or at
    most there.
    """
    if not len(entries):
        return
    markers, stable = entries["last_offset"], entries["last_stable_offset"]
    begins, ends = _intervals(events)
    data = events[events["kind"] == DATA]
    firsts = set(zip(data["offset"].tolist(), data["producer_id"].tolist(), strict=True))
    starts = set(data["offset"].tolist())
    until = np.searchsorted(begins, np.minimum(stable, markers))
    latest = np.maximum.accumulate(ends)
    begins_after = _BeginsAfter(data, end_offset)
    for number in range(len(entries)):
        producer, first, marker, lso = (int(v) for v in entries[number].tolist())
        highest = begins_after.of_others(marker, producer)
        if lso > marker + 1 and not _fits(lso, marker, highest, batches, end_offset):
            yield EntryFault(_beyond(lso, marker, highest, end_offset), number)
        elif until[number] and latest[until[number] - 1] > marker:
            yield EntryFault(
                _too_high(lso, int(begins[np.argmax(ends[: until[number]] > marker)])), number
            )
        elif base_offset <= lso <= marker and lso not in starts and _is_held(batches, lso):
            yield EntryFault(_names_no_data("a last stable offset", lso), number)
        if first >= base_offset and (first, producer) not in firsts and _is_held(batches, first):
            yield EntryFault(_names_no_data("a first offset", first, producer), number)


class _BeginsAfter:
    """Finds the first data of other producers after a marker: where the next transaction begins."""

    def __init__(self, data: NDArray[np.void], end_offset: int) -> None:
        """`data`: those of EVENT rows that are data."""
        self._offsets, self._producers = data["offset"], data["producer_id"]
        self._changes = np.flatnonzero(np.diff(self._producers)) + 1
        self._end = end_offset

    def of_others(self, marker: int, producer: int) -> int:
        """Return its offset, or `end_offset` if there is none in the segment."""
        at = int(np.searchsorted(self._offsets, marker, side="right"))
        if at < len(self._offsets) and self._producers[at] == producer:
            after = int(np.searchsorted(self._changes, at, side="right"))
            at = int(self._changes[after]) if after < len(self._changes) else len(self._offsets)
        return int(self._offsets[at]) if at < len(self._offsets) else self._end


def _fits(lso: int, marker: int, begin: int, batches: NDArray[np.void], end_offset: int) -> bool:
    """Whether Kafka can have written a last stable offset above the one after the marker. `begin`:
    where another producer begins the next transaction, or the end of the segment.
    """
    if lso == begin < end_offset or (lso < begin and not _is_held(batches, lso)):
        return True
    after = batches[np.searchsorted(batches["base_offset"], marker) :]
    later = after["base_offset"][after["leader_epoch"] > after["leader_epoch"][:1]]
    return bool(len(later) and later[0] <= min(lso, begin))


def promises(entries: NDArray[np.void], runs: SegmentRuns, *, base_offset: int) -> EntryPromises:
    markers, stable = entries["last_offset"], entries["last_stable_offset"]
    highest = np.append(np.int64(-1), np.maximum.accumulate(stable))
    ends = runs.runs["first_marker"]
    at = np.where(ends < 0, len(markers), np.searchsorted(markers, ends))
    named: dict[tuple[int, int], int] = {}
    for number, (producer, first, lso) in enumerate(
        entries[["producer_id", "first_offset", "last_stable_offset"]].tolist()
    ):
        if first < base_offset:
            named.setdefault((first, producer), number)
        if lso < base_offset:
            named.setdefault((lso, -1), number)
    return EntryPromises(
        before=highest[at],
        highest=int(highest[-1]),
        named=tuple((offset, producer, number) for (offset, producer), number in named.items()),
    )


def across(
    segments: Sequence[tuple[SegmentRuns, EntryPromises]],
    batch_with: Callable[[int], tuple[int, int | None] | None],
) -> Iterator[tuple[int, EntryFault]]:
    """Check the entries of each segment against earlier segments. Yields the number of the segment,
    and what is wrong with its index.

    `batch_with`: returns the base offset of the batch that holds an offset, and its producer if it
    has transactional data. None if the batch was removed or can't be read. Called for an offset in
    an entry where none of the open transactions begins.
    """
    opened: dict[int, tuple[int, int]] = {}
    for number, (of_segment, promised) in enumerate(segments):
        runs = of_segment.runs
        starts = {offset for offsets in opened.values() for offset in offsets if offset >= 0}
        for offset, producer, entry in promised.named:
            explained = offset in (starts if producer < 0 else opened.get(producer, ()))
            held = None if explained else batch_with(offset)
            if held is None:
                continue
            begins_at, of_data = held
            if begins_at != offset or of_data is None or producer not in {-1, of_data}:
                what = "a last stable offset" if producer < 0 else "a first offset"
                yield number, EntryFault(_names_no_data(what, offset, producer), entry)
        limits = dict(zip(runs["producer_id"].tolist(), promised.before.tolist(), strict=True))
        for producer, (_, first) in opened.items():
            lso = limits.get(producer, promised.highest)
            if lso > first >= 0:
                yield number, EntryFault(_too_high(lso, first))
                break
        for run in runs.tolist():
            advance(opened, run)


def _intervals(events: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first live offset of each transaction, ascending, and the offset of its marker."""
    seen = sequence(events["kind"], events["producer_id"], events["offset"])
    live = seen.first(events["live"])
    chosen = (live >= 0) & (seen.end | seen.last)
    begins = live[chosen]
    ends = np.where(seen.end[chosen], seen.offset[chosen], _NEVER)
    order = np.argsort(begins, kind="stable")
    return begins[order], ends[order]


def _is_held(batches: NDArray[np.void], offset: int) -> bool:
    at = int(np.searchsorted(batches["last_offset"], offset))
    return at < len(batches) and bool(batches["base_offset"][at] <= offset)


def _beyond(lso: int, marker: int, begin: int, end_offset: int) -> str:
    next_begin = f", or {begin}, where the next transaction begins" if begin < end_offset else ""
    return (
        f"expected a last stable offset up to {marker + 1}, after the marker{next_begin}, "
        f"found {lso}"
    )


def _too_high(lso: int, first: int) -> str:
    return f"expected a last stable offset up to {first}, where a transaction was open, found {lso}"


def _names_no_data(what: str, offset: int, producer: int = -1) -> str:
    whose = "of a transaction" if producer < 0 else f"of producer {producer}'s transaction"
    return (
        f"expected {what} at which data {whose} begins, found {offset}, where the log has "
        "another batch"
    )
