"""Survey the partitions, in parallel. First list each partition by its files' sizes and ends. Then,
for partitions to compact, read every batch header, and the keys where that saves a second read
(`winnow.scan.prefetch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from winnow.errors import CorruptLogError, LostSegmentError, optional
from winnow.logdir.commit.lost import between, check_none_lost
from winnow.logdir.fast_listing import list_sound
from winnow.logdir.listing import (
    SegmentListing,
    list_after_crash,
    list_again,
    list_below,
    list_segments,
)
from winnow.logdir.names import DELETED, INDEX, KEEPING_SUFFIX, LOG, STAGING_PREFIX, segment_file
from winnow.logdir.unflushed import lost_bytes, overlap, whole_end
from winnow.runtime.failure import Failure, failure
from winnow.runtime.packing import ITEM_BYTES
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread
from winnow.scan.prefetch import Prefetch
from winnow.state import PartitionState, Segment
from winnow.storage.places import Places
from winnow.storage.urls import is_remote
from winnow.survey.place import ListedPartition, PartitionPlace
from winnow.survey.unflushed import read_unflushed
from winnow.survey.walk import SegmentWalk, TransactionsWanted, walk_segment
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_LIST_PER_TASK = 256
_FEW, _SMALL_BYTES, _SMALL_ACTIVE_BYTES = 16, 2**28, 2**16
"""So many partitions with so many log bytes each, of which so many are active, are listed in less
time than it takes to start a task.
"""
ToWalk = tuple[PartitionState, int]
"""A partition, and the offset from which its producers' last batches are needed."""


def list_partitions(
    sc: SparkContext, places: Sequence[PartitionPlace], progress: Progress
) -> list[ListedPartition | Failure]:
    """List the files of each partition, in the given order. Read what a broker recovers."""
    few = len(places) <= _FEW and (sc.master or "").startswith("local")
    here = [_list_here(place) if few else None for place in places]
    others = [place for place, one in zip(places, here, strict=True) if one is None]
    by_tasks = spread(
        sc,
        _list_one,
        others,
        per_task=_LIST_PER_TASK,
        name=f"looking at {counted(len(others), 'partition')}",
        progress=progress,
    )
    rest = iter(by_tasks)
    found = [one or next(rest) for one in here]
    for place, one in zip(places, found, strict=True):
        if isinstance(one, ListedPartition) and one.logs:
            Places().learn(place.directory, one.logs)
    return read_unflushed(sc, places, found, progress)


def _list_here(place: PartitionPlace) -> ListedPartition | None:
    """List a small partition in this process. None if anything about it is unusual."""
    if place.trusted_end is not None or place.recovery_point is not None:
        return None
    with optional(f"listing {place.topic_partition} in the driver"):
        listing = list_sound(place.directory, most_bytes=_SMALL_BYTES)
        if listing is None or _may_have_lost(place, listing):
            return None
        if listing.segments[-1].log_bytes <= _SMALL_ACTIVE_BYTES:
            return ListedPartition(listing, _log_end(place, listing.segments[-1]))
    return None


def _list_one(place: PartitionPlace) -> ListedPartition:
    """List one partition. Return also the logs that the driver need not ask for again."""
    listed = list_partition(place)
    logs = tuple(file for file in Places().listed_in(place.directory) if LOG in file.entry.name)
    return replace(listed, logs=logs)


def _listing(place: PartitionPlace, known: PartitionState | None) -> SegmentListing:
    storage, directory = Places(), place.directory
    if known is not None:
        return list_again(storage, directory, known, trusted_end=place.trusted_end)
    if place.trusted_end is not None:
        return list_below(storage, directory, place.trusted_end)
    if place.recovery_point is not None:
        return list_after_crash(storage, directory, place.recovery_point)
    return list_sound(directory) or list_segments(storage, directory)


def list_partition(
    place: PartitionPlace, *, known: PartitionState | None = None
) -> ListedPartition:
    """List one partition, in this process. Raises CorruptLogError or OSError.

    What a broker recovers is not read: see `ListedPartition`. `known`: the state from before this
    run changed files; if its log was read, its end still applies. What has not changed since is not
    read again.
    """
    listing = _listing(place, known)
    ours = {f"{STAGING_PREFIX}{place.goes_on}", f"{STAGING_PREFIX}{place.goes_on}{KEEPING_SUFFIX}"}
    for problem in listing.problems:
        if isinstance(problem, LostSegmentError):
            raise problem
    if _may_have_lost(place, listing):
        check_none_lost(Places(), place.directory, has_no_gaps=True)
    # `.deleted` files are out of the log already. A broker that stops leaves those that it would
    # have removed later (`file.delete.delay.ms`).
    unfinished = [name for name in listing.leftovers if not name.endswith(DELETED)]
    if not ours.issuperset(unfinished):
        return ListedPartition(listing, None)
    if listing.problems:
        raise listing.problems[0]
    if not listing.segments:
        raise CorruptLogError(
            "a partition without a segment",
            expected="at least one .log file",
            found="none",
            where=place.directory,
        )
    active = listing.segments[-1]
    if listing.unflushed or listing.recovered is not None:
        return ListedPartition(listing, active.base_offset)
    if place.trusted_end is not None:
        return _listed_after_crash(place, listing, place.trusted_end)
    before = () if known is None else known.segments
    if is_remote(place.directory) and any(active is one for one in before):
        # The same object, read before.
        return ListedPartition(listing, active.base_offset)
    return ListedPartition(listing, _log_end(place, active))


def _may_have_lost(place: PartitionPlace, listing: SegmentListing) -> bool:
    """Return whether a producer snapshot may be all that is left of a segment."""
    bases = [segment.base_offset for segment in listing.segments]
    return place.has_no_gaps and bool(between(listing.snapshot_offsets, bases))


def _log_end(place: PartitionPlace, active: Segment) -> int:
    return walk_segment(
        place.directory, active.base_offset, active.log_bytes, check_index=bool(active.index_bytes)
    ).next_offset


def walk_segments(
    sc: SparkContext,
    chosen: Sequence[ToWalk],
    keys: Iterable[tuple[int, int]],
    *,
    progress: Progress,
    prefetch: Mapping[str, Prefetch] | None = None,
) -> dict[tuple[int, int], SegmentWalk | Failure]:
    """Walk some segments. `keys`: the number of the partition, and of the segment in it.

    `prefetch`: by directory, the request for the segments that would be scanned.
    """
    keys, prefetch = [*keys], prefetch or {}
    states = [state for state, _ in chosen]
    works = {
        (number, at): _work(*chosen[number], at, prefetch.get(states[number].directory))
        for number, at in keys
    }
    asked = {key: work for key, work in works.items() if work is not None}
    what = "batch headers and keys" if prefetch else "batch headers"
    found: Sequence[SegmentWalk | Failure] = spread(
        sc,
        _Walk(),
        [*asked.values()],
        weights=[states[number].segments[at].log_bytes for number, at in asked],
        each=ITEM_BYTES,
        name=f"reading {what} of {counted(len(states), 'partition')}",
        progress=progress,
    )
    walked = dict(zip(asked, found, strict=True))
    bases = {(number, at): states[number].segments[at].base_offset for number, at in keys}
    return {key: walked.get(key) or SegmentWalk(base, base) for key, base in bases.items()}


class _Walk:
    """Walks segments. On S3 it first reads what all walks of a task need, side by side."""

    def __call__(self, work: partial[SegmentWalk]) -> SegmentWalk:
        return work()

    def prepare(self, works: Sequence[partial[SegmentWalk]]) -> None:
        if any(is_remote(work.args[0]) for work in works):
            Places().read_ahead(
                f"{directory}/{segment_file(base_offset, suffix)}"
                for directory, base_offset in (work.args[:2] for work in works)
                for suffix in (LOG, INDEX)
            )


def _work(
    state: PartitionState, producers_from: int, at: int, prefetch: Prefetch | None
) -> partial[SegmentWalk] | None:
    """Return the walk of a segment, or None if it must not be read."""
    segment = state.segments[at]
    following = state.segments[at + 1].base_offset if at + 1 < len(state.segments) else None
    end = state.log_end_offset if following is None else following
    if state.trusted_end is not None and (following is None or end > state.trusted_end):
        return None
    return partial(
        walk_segment,
        state.directory,
        segment.base_offset,
        segment.log_bytes,
        producers_from=producers_from if end > producers_from else None,
        check_index=bool(segment.index_bytes) and segment.rebuilt is None,
        transactions=TransactionsWanted(
            high_watermark=state.high_watermark,
            log_start_offset=state.log_start_offset,
            end_offset=following,
            txn_index=segment.txnindex_bytes is not None,
            rebuilt=segment.rebuilt_txnindex,
        ),
        topic=state.topic_partition.topic,
        prefetch=prefetch
        if prefetch is not None and segment.base_offset < prefetch.end_offset
        else None,
    )


def _listed_after_crash(
    place: PartitionPlace, listing: SegmentListing, trusted_end: int
) -> ListedPartition:
    """List a partition after a crash. Its log ends where the active segment is readable."""
    active = listing.segments[-1]
    end = whole_end(place.directory, active)
    ends = [segment.base_offset for segment in listing.segments[1:]]
    trusted = sum(end_offset <= trusted_end for end_offset in ends)
    # If nothing is trusted, nothing can be deleted: there is no need to read a large log.
    unread = listing.segments[trusted:] if trusted else (active,)
    lost = lost_bytes(place.directory, unread, end)
    return ListedPartition(listing, end.next_offset, lost)


def together(
    walks: Sequence[SegmentWalk | Failure], state: PartitionState
) -> tuple[SegmentWalk, ...] | Failure:
    """Return the walks of all segments of a partition, or why it can't be read."""
    sound: list[SegmentWalk] = []
    for walk, following in zip(walks, [*state.segments[1:], None], strict=True):
        if isinstance(walk, Failure):
            return walk
        if following is not None and walk.next_offset > following.base_offset:
            return failure(
                overlap(state.directory, walk.base_offset, walk.next_offset, following.base_offset)
            )
        sound.append(walk)
    return tuple(sound)
