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

import numpy as np
from pyspark import SparkContext

from winnow.cleaning.summaries.known import KnownSegments, as_walk
from winnow.cleaning.summaries.store import read_keys
from winnow.cleaning.summaries.truncated import seemingly_in, share_seemingly_in, size_of
from winnow.errors import FAILS_ONE_PARTITION
from winnow.runtime.failure import Failure
from winnow.runtime.packing import ITEM_BYTES
from winnow.runtime.progress import Progress
from winnow.runtime.spool import Spooled, StoredKeys, joined, written
from winnow.runtime.spread import spread
from winnow.scan.cut import Split
from winnow.scan.prefetch import Hashes, Keys, Prefetch, hashes_of, keys_of_split, tombstones_of
from winnow.scan.values import SegmentSummary
from winnow.state import PartitionState
from winnow.survey.survey import together, walk_segments
from winnow.survey.walk import SegmentWalk
from winnow.words import counted

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
_NO_KEYS: Keys = np.empty(0, np.uint64)
_NO_HASHES: Hashes = np.empty((0, 2), np.uint64)
_AT_ONCE = 2**22
"""Keys of the clean part that are in memory at once, unless a split has more."""


@dataclass(slots=True)
class _Search:
    state: PartitionState
    known: KnownSegments
    prefetch: Prefetch
    walks: dict[int, SegmentWalk | Failure]
    """By number of the segment. Those of known segments say that they stay, until one is read."""
    asked: list[int]
    """Numbers of the segments whose summaries are asked next."""
    unsettled: Hashes
    """Dirty keys that were not found in the clean part yet: ascending by `upper`."""
    tombstones: Keys
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

    def unread(self) -> list[int]:
        """Return the numbers of all segments that are not read yet."""
        return [
            at
            for at, walk in self.walks.items()
            if isinstance(walk, SegmentWalk) and walk.stays is not None
        ]


_Answer = tuple[int, int] | None
"""How many of the keys that were asked for seem to be in a segment, and how many of the tombstones.
None: its summary can't be read.
"""
_Walk = Callable[[Sequence[_At]], dict[_At, SegmentWalk | Failure]]


def walk_what_may_change(
    sc: SparkContext,
    states: Sequence[PartitionState],
    *,
    producers_from: Sequence[int],
    known: Mapping[str, KnownSegments],
    prefetch: Mapping[str, Prefetch],
    scans: Mapping[str, Prefetch],
    progress: Progress,
) -> list[tuple[SegmentWalk, ...] | Failure]:
    """Do as `walk_partitions`, but leave out the `known` segments, by directory, that have no dirty
    key. Their walks say that they stay.

    `prefetch`: by directory, what the first walk scans. `scans`: by directory, how the splits of
    partitions with known segments are scanned otherwise.
    """
    walk = partial(walk_segments, sc, states, producers_from=producers_from, progress=progress)
    stays: dict[_At, SegmentWalk | Failure] = {
        (number, at): as_walk(known[state.directory].segments[segment.base_offset])
        for number, state in enumerate(states)
        if state.directory in known and state.directory in scans
        for at, segment in enumerate(state.segments)
        if segment.base_offset in known[state.directory].segments
    }
    read = [
        (number, at)
        for number, state in enumerate(states)
        for at in range(len(state.segments))
        if (number, at) not in stays
    ]
    walked = walk(read, prefetch=prefetch) | stays
    searches = {
        number: _Search(
            state=states[number],
            known=known[states[number].directory],
            prefetch=scans[states[number].directory],
            walks={at: walked[number, at] for at in range(len(states[number].segments))},
            asked=[at for other, at in stays if other == number],
            unsettled=_NO_HASHES,
            tombstones=_NO_KEYS,
        )
        for number in sorted({number for number, _ in stays})
    }
    _search(sc, searches, walk, progress)
    for number, search in searches.items():
        walked |= {(number, at): found for at, found in search.walks.items()}
    return [
        together([walked[number, at] for at in range(len(state.segments))], state)
        for number, state in enumerate(states)
    ]


def _search(
    sc: SparkContext, searches: Mapping[int, _Search], walk: _Walk, progress: Progress
) -> None:
    """Read, in each partition, the segments that may have dirty keys."""
    open_ = dict(searches)
    new: list[_At] = [
        (number, at)
        for number, search in searches.items()
        for at in search.walks
        if at not in search.asked
    ]

    def read(some: Sequence[_At]) -> None:
        for (number, at), found in walk(some).items():
            searches[number].walks[at] = found

    for _ in range(_ROUNDS):
        vain = _settle(sc, open_, new, progress)
        answers = _ask(sc, {n: s for n, s in open_.items() if n not in vain}, progress)
        new, last = [], [(number, at) for number in vain for at in open_.pop(number).unread()]
        for number, search in [*open_.items()]:
            maybe = {at: answers[number, at] for at in search.asked}
            sure = [at for at in maybe if _surely(maybe[at], search.walks[at], search)]
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
                del open_[number]
            search.most = None
        read([*new, *last])
        if not open_:
            return
    read([(number, at) for number, search in open_.items() for at in search.asked])


def _settle(
    sc: SparkContext, searches: Mapping[int, _Search], new: Sequence[_At], progress: Progress
) -> list[int]:
    """Scan what was read of the new segments. Add its dirty keys, and settle those that it has in
    the clean part. Return the partitions where this can't be done.
    """
    vain = []
    work: list[tuple[_At, int, Split]] = []
    for number, at in new:
        search = searches[number]
        found = search.walks[at]
        if isinstance(found, Failure) or not all(split.plain for split in found.splits):
            vain.append(number)
        elif found.base_offset < search.known.end_offset:
            work += [((number, at), i, split) for i, split in enumerate(found.splits)]
    missing = [one for one in work if one[2].keys is None and one[0][0] not in vain]
    scanned = spread(
        sc,
        operator.call,
        [
            partial(
                keys_of_split, searches[number].state.directory, split, searches[number].prefetch
            )
            for (number, _), _, split in missing
        ],
        weights=[split.end - split.start for _, _, split in missing],
        each=ITEM_BYTES,
        per_task=_SCAN_BYTES,
        name=f"reading keys of {counted(len(searches), 'partition')}",
        progress=progress,
    )
    keys: dict[_At, dict[int, StoredKeys]] = {}
    for (place, i, _), stored in zip(missing, scanned, strict=True):
        if isinstance(stored, StoredKeys):
            keys.setdefault(place, {})[i] = stored
        else:
            vain.append(place[0])
    for number, at in new:
        search, found = searches[number], searches[number].walks[at]
        if number in vain or isinstance(found, Failure):
            continue
        own = keys.get((number, at), {})
        search.walks[at] = replace(
            found,
            splits=tuple(
                replace(split, keys=own.get(i, split.keys)) for i, split in enumerate(found.splits)
            ),
        )
    fresh = {number for number, _ in new} - set(vain)
    for number in fresh:
        try:
            if not _add(searches[number], [at for other, at in new if other == number]):
                vain.append(number)
        except FAILS_ONE_PARTITION:
            vain.append(number)
    return sorted(set(vain))


def _add(search: _Search, segments: Sequence[int]) -> bool:
    """Add the dirty keys of these segments, and settle those that they have in the clean part.
    Return whether there are few enough of them.
    """
    stored = [
        split.keys
        for at in segments
        for walk in [search.walks[at]]
        if isinstance(walk, SegmentWalk)
        for split in walk.splits
        if split.keys is not None
    ]
    if sum(n for keys in stored for is_dirty, n in keys.parts if is_dirty) > _MOST_DIRTY:
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


def _ask(
    sc: SparkContext, searches: Mapping[int, _Search], progress: Progress
) -> dict[_At, _Answer]:
    questions: dict[_At, Callable[[], _Answer]] = {}
    answers: dict[_At, _Answer] = {}
    weights = []
    for number, search in searches.items():
        unsettled, tombstones = search.to_ask
        counts = len(unsettled), len(tombstones)
        if not any(counts):
            answers |= {(number, at): (0, 0) for at in search.asked}
            continue
        spool = search.prefetch.spool
        both = written(spool, [np.ascontiguousarray(unsettled), tombstones])
        second = both.start + 8 * counts[0]
        parts = (replace(both, size=8 * counts[0]), Spooled(both.path, second, 8 * counts[1]))
        for at in search.asked:
            summary = search.known.segments[search.state.segments[at].base_offset]
            questions[number, at] = partial(_answer, search.known.place, summary, *parts)
            weights.append(size_of(summary.keys))
    told = spread(
        sc,
        operator.call,
        [*questions.values()],
        weights=weights,
        each=ITEM_BYTES,
        per_task=_ASK_BYTES,
        name=f"asking what is known of {counted(len(questions), 'segment')}",
        progress=progress,
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


def _surely(answer: _Answer, walk: SegmentWalk | Failure, search: _Search) -> bool:
    """Return whether a segment must be read now. That others have dirty keys may be an error."""
    if answer is None or answer[1]:
        return True
    if isinstance(walk, Failure) or walk.stays is None:
        return False
    by_error = len(search.to_ask[0]) * share_seemingly_in(walk.stays.keys)
    return answer[0] > 2 * by_error + _SURE
