"""Find out which known segments must be read: those that may have a key of a dirty record.

The dirty part is read first. Then each summary is asked for the dirty keys. Some always seem to be
there, for a summary errs once in 16,384 keys. But a key has one record in the clean part. So the
segments that surely have dirty keys are read, those keys are settled, and the others are asked
again for the rest. Of many keys, some are enough to tell which segments have many of them. Keys
whose last record is a tombstone are only settled if runs of Winnow have cleaned the whole clean
part, so that a second record is impossible. Otherwise each segment that may have one of them is
read. A tombstone is removed some day, and what it deletes must be gone before.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from winnow.cleaning.summaries.store import read_keys
from winnow.cleaning.summaries.truncated import seemingly_in, share_seemingly_in, size_of
from winnow.errors import optional
from winnow.runtime.failure import Failure
from winnow.runtime.packing import ITEM_BYTES
from winnow.runtime.progress import Progress
from winnow.runtime.spool import Spooled, StoredKeys, joined, written
from winnow.runtime.spread import spread
from winnow.scan.prefetch import Hashes, Keys, Prefetch, hashes_of, keys_of_split, tombstones_of
from winnow.scan.values import SegmentSummary
from winnow.state import PartitionState
from winnow.survey.survey import ToWalk, together, walk_segments
from winnow.survey.walk import SegmentWalk
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_At = tuple[int, int]
"""Number of a partition, and of a segment in it."""
_MOST_DIRTY = 2**24
"""Dirty keys of a partition. With more, every segment has some, and asking takes long."""
_ROUNDS = 6
"""How often the summaries are asked. What then still seems to have dirty keys is read."""
_SURE = 32
"""Keys that must seem to be there above twice the expected number of errors."""
_ASKED_FIRST = 2**17
"""So many keys show which segments have many dirty keys. Once those are read, few keys are left."""
_SCAN_BYTES = 2**28
_ASK_BYTES = 2**26
_NOTHING: Mapping[str, Any] = {}
_AT_ONCE = 2**22
"""Keys of the clean part that are in memory at once, unless a split has more."""


@dataclass(frozen=True, slots=True)
class KnownSegments:
    """What is known of a partition that is about to be compacted."""

    place: str
    end_offset: int
    segments: Mapping[int, SegmentSummary]
    """By base offset, those that stay unless a dirty record has one of their keys."""
    unique: bool
    """See `Kept.has_unique_keys`."""


@dataclass(slots=True)
class _Search:
    """The search in one partition."""

    state: PartitionState
    known: KnownSegments
    prefetch: Prefetch
    asked: list[int]
    """Numbers of the segments whose summaries are asked next."""
    unsettled: Hashes = field(default_factory=lambda: np.empty((0, 2), np.uint64))
    """Dirty keys that were not found in the clean part yet: ascending by `upper`."""
    tombstones: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    """Dirty keys whose last record is a tombstone, ascending."""
    most: int | None = field(default_factory=lambda: _ASKED_FIRST)
    """How many of the unsettled keys, and of the tombstones, are asked for. None: all."""

    @property
    def to_ask(self) -> tuple[Keys, Keys]:
        """The first are like the rest: they are hashes."""
        return self.unsettled[: self.most, 1], self.tombstones[: self.most]

    @property
    def asks_all(self) -> bool:
        return self.most is None or max(len(self.unsettled), len(self.tombstones)) <= self.most

    def summary(self, at: int) -> SegmentSummary:
        return self.known.segments[self.state.segments[at].base_offset]

    def unread(self, at: int) -> SegmentWalk:
        """Return what a walk would find in a segment that is not read."""
        known = self.summary(at)
        return SegmentWalk(
            known.base_offset,
            known.next_offset,
            batches=known.batches,
            records=known.records,
            first_live=known.first_batch,
            stays=known,
        )


_Walks = dict[_At, SegmentWalk | Failure]
"""The walk of each segment. A known segment that was not read has one made from its summary
(`_Search.unread`).
"""
_Each = Callable[..., list[Any]]
"""Calls functions without arguments in Spark tasks, through `spread`. Returns their results."""
_Answer = tuple[int, int] | None
"""How many of the keys that were asked for seem to be in a segment, and how many of the tombstones.
None: its summary can't be read.
"""


def walk_partitions(
    sc: SparkContext,
    chosen: Sequence[ToWalk],
    *,
    known: Mapping[str, KnownSegments] = _NOTHING,
    prefetch: Mapping[str, Prefetch] = _NOTHING,
    scans: Mapping[str, Prefetch] = _NOTHING,
    progress: Progress,
) -> list[tuple[SegmentWalk, ...] | Failure]:
    """Read every batch header of these partitions. Return each partition's walks, in segment order.

    `known`: by directory, segments that are left out if they have no dirty key. Their walks say
    that they stay. `prefetch`: by directory, what the first walk scans. `scans`: by directory, how
    the splits of partitions with known segments are scanned otherwise.
    """
    walk = partial(walk_segments, sc, chosen, progress=progress)
    states = [state for state, _ in chosen]
    searches: dict[int, _Search] = {}
    for number, state in enumerate(states):
        if state.directory in known:
            found = known[state.directory]
            asked = [at for at, s in enumerate(state.segments) if s.base_offset in found.segments]
            searches[number] = _Search(state, found, scans[state.directory], asked)
    walks: _Walks = {
        (number, at): search.unread(at)
        for number, search in searches.items()
        for at in search.asked
    }
    every = [
        (number, at) for number, state in enumerate(states) for at in range(len(state.segments))
    ]
    read = [one for one in every if one not in walks]
    walks |= walk(read, prefetch=prefetch)
    new = [one for one in read if one[0] in searches]
    each = partial(spread, sc, operator.call, each=ITEM_BYTES, progress=progress)
    for _ in range(_ROUNDS):
        if not searches:
            break
        vain = _settle(searches, walks, new, each)
        last = [
            one
            for one, found in walks.items()
            if one[0] in vain and isinstance(found, SegmentWalk) and found.stays is not None
        ]
        for number in vain:
            del searches[number]
        new, surely_last = _to_read(searches, _ask(searches, each))
        walks |= walk([*new, *last, *surely_last])
    walks |= walk([(number, at) for number, search in searches.items() for at in search.asked])
    return [
        together([walks[number, at] for at in range(len(state.segments))], state)
        for number, state in enumerate(states)
    ]


def _to_read(
    searches: dict[int, _Search], answers: Mapping[_At, _Answer]
) -> tuple[list[_At], list[_At]]:
    """Return the segments to read now: those whose keys are settled next, and those of partitions
    whose search ends. Remove these partitions from `searches`.
    """
    new, last = list[_At](), list[_At]()
    for number, search in [*searches.items()]:
        maybe = {at: answers[number, at] for at in search.asked}
        sure = [at for at, answer in maybe.items() if _surely(answer, search, at)]
        # A segment that has none of the first keys may have others.
        search.asked = [
            at
            for at, answer in maybe.items()
            if at not in sure and (answer != (0, 0) or not search.asks_all)
        ]
        if 0 < len(sure) <= len(maybe) // 2:
            new += [(number, at) for at in sure]
            continue
        last += [(number, at) for at in sure]
        if search.asks_all:
            last += [(number, at) for at in search.asked]
        if search.asks_all or not search.asked:
            del searches[number]
        search.most = None
    return new, last


def _settle(
    searches: Mapping[int, _Search], walks: _Walks, new: Sequence[_At], each: _Each
) -> set[int]:
    """Scan what was read of the new segments. Add its dirty keys, and settle those that it has in
    the clean part. Return the partitions where this can't be done.
    """
    vain: set[int] = set()
    walked: dict[_At, SegmentWalk] = {}
    for one in new:
        found = walks[one]
        if isinstance(found, Failure) or not all(split.plain for split in found.splits):
            vain.add(one[0])
        elif found.base_offset < searches[one[0]].known.end_offset:
            walked[one] = found
    missing = [
        (one, i, split)
        for one, found in walked.items()
        for i, split in enumerate(found.splits)
        if split.keys is None and one[0] not in vain
    ]
    scans = [
        partial(keys_of_split, search.state.directory, split, search.prefetch)
        for (number, _), _, split in missing
        for search in [searches[number]]
    ]
    scanned = each(
        scans,
        weights=[split.end - split.start for _, _, split in missing],
        per_task=_SCAN_BYTES,
        name=f"reading keys of {counted(len(searches), 'partition')}",
    )
    for (one, i, split), stored in zip(missing, scanned, strict=True):
        if isinstance(stored, StoredKeys):
            splits = [*walked[one].splits]
            splits[i] = replace(split, keys=stored)
            walked[one] = replace(walked[one], splits=tuple(splits))
        else:
            vain.add(one[0])
    walks |= walked
    by_number: dict[int, list[StoredKeys]] = {number: [] for number, _ in new}
    for one, found in walked.items():
        by_number[one[0]] += [split.keys for split in found.splits if split.keys is not None]
    for number in by_number.keys() - vain:
        added = False
        with optional("looking for known keys"):
            added = _add(searches[number], by_number[number])
        if not added:
            vain.add(number)
    return vain


def _add(search: _Search, stored: Sequence[StoredKeys]) -> bool:
    """Add the dirty keys of some splits, and settle those that they have in the clean part. Return
    whether there are few enough of them.
    """
    if sum(part.count for keys in stored for part in keys.parts if part.dirty) > _MOST_DIRTY:
        return False
    tombstones = [] if search.known.unique else [tombstones_of(keys) for keys in stored]
    search.tombstones = _unique([search.tombstones, *tombstones])
    dirty = [hashes for keys in stored if len(hashes := hashes_of(keys, dirty=True))]
    unsettled = search.unsettled
    if dirty:
        unsettled = _sorted(np.concatenate([unsettled, *dirty]))
    if len(search.tombstones):
        at = np.searchsorted(search.tombstones, unsettled[:, 1])
        at = np.minimum(at, len(search.tombstones) - 1)
        unsettled = np.compress(search.tombstones[at] != unsettled[:, 1], unsettled, axis=0)
    some: list[Hashes] = []
    for number, keys in enumerate(stored, 1):
        some.append(hashes_of(keys, dirty=False))
        if number == len(stored) or sum(map(len, some)) > _AT_ONCE:
            unsettled = _without(unsettled, _sorted(np.concatenate(some)))
            some = []
    search.unsettled = unsettled
    return True


def _unique(some: Sequence[Keys]) -> Keys:
    """Return all keys, ascending, each once. `np.unique` takes 30 times as long here."""
    keys: Keys = np.sort(np.concatenate(some))
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def _sorted(hashes: Hashes) -> Hashes:
    """Return the hashes in ascending order of their upper halves; of equal neighbours, one."""
    # `take` and `compress` copy whole rows; an index goes through their items.
    ordered = np.take(hashes, np.argsort(hashes[:, 1]), axis=0)
    if not len(ordered):
        return ordered
    return np.compress(np.append(True, _differ(ordered[1:], ordered[:-1])), ordered, axis=0)


def _differ(hashes: Hashes, others: Hashes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which rows differ. `any(axis=1)` takes ten times as long."""
    return np.asarray((hashes[:, 0] != others[:, 0]) | (hashes[:, 1] != others[:, 1]), np.bool_)


def _without(hashes: Hashes, others: Hashes) -> Hashes:
    """Return `hashes` without those of `others`, both `_sorted`. All 128 bits must be the same."""
    if not len(others) or not len(hashes):
        return hashes
    at = np.minimum(np.searchsorted(others[:, 1], hashes[:, 1]), len(others) - 1)
    return np.compress(_differ(np.take(others, at, axis=0), hashes), hashes, axis=0)


def _ask(searches: Mapping[int, _Search], each: _Each) -> dict[_At, _Answer]:
    questions: dict[_At, Callable[[], _Answer]] = {}
    answers: dict[_At, _Answer] = {}
    weights = []
    for number, search in searches.items():
        unsettled, tombstones = search.to_ask
        counts = len(unsettled), len(tombstones)
        if not any(counts):
            answers |= {(number, at): (0, 0) for at in search.asked}
            continue
        arrays = [np.ascontiguousarray(unsettled), tombstones]
        parts = written(search.prefetch.spool, arrays)
        for at in search.asked:
            summary = search.summary(at)
            questions[number, at] = partial(_answer, search.known.place, summary, *parts)
            weights.append(size_of(summary.keys))
    told = each(
        [*questions.values()],
        weights=weights,
        per_task=_ASK_BYTES,
        name=f"asking what is known of {counted(len(questions), 'segment')}",
    )
    for question, answer in zip(questions, told, strict=True):
        answers[question] = None if isinstance(answer, Failure) else answer
    return answers


def _answer(
    place: str, summary: SegmentSummary, unsettled: Spooled, tombstones: Spooled
) -> _Answer:
    """Ask a summary for keys: uint64[n] each, ascending."""
    words = read_keys(place, summary)
    if words is None:
        return None

    def count(keys: Spooled) -> int:
        return len(seemingly_in(joined([keys], np.uint64), words, summary.keys))

    return count(unsettled), count(tombstones)


def _surely(answer: _Answer, search: _Search, at: int) -> bool:
    """Return whether a segment must be read now. That others have dirty keys may be an error."""
    if answer is None or answer[1]:
        return True
    by_error = len(search.to_ask[0]) * share_seemingly_in(search.summary(at).keys)
    return answer[0] > 2 * by_error + _SURE
