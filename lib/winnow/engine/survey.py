"""Survey: what is there, in parallel. First every partition by its files' sizes and ends, then, of those that are to be
compacted, every batch header.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from winnow.engine.chunks import next_offset
from winnow.engine.compaction import Failure, failure
from winnow.engine.packing import pack, task_count
from winnow.engine.progress import Progress, watched
from winnow.engine.throttle import in_task
from winnow.engine.ticks import TickSheet, tick
from winnow.engine.walk import SegmentWalk, TransactionsWanted, not_walked, walk_segment
from winnow.errors import CorruptLogError, WinnowError
from winnow.logdir.listing import SegmentListing, list_segments
from winnow.logdir.names import KEEPING_SUFFIX, LOG, STAGING_PREFIX, segment_file
from winnow.logdir.state import PartitionState, Segment, TopicPartition
from winnow.storage.local import LocalStorage
from winnow.storage.segment_io import map_range
from winnow.wire.batch import BATCH
from winnow.wire.walk import WalkStatus, walk_batches
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_LIST_PER_TASK = 256
_WALK_BYTES = 2**30
_ROWS = 65_536

_Piece = tuple[int, int, int]
"""A segment to be walked: its number, that of its partition, and that of the segment in the partition."""


@dataclass(frozen=True, slots=True)
class Place:
    """A partition directory of one log directory."""

    log_dir: str
    topic_partition: TopicPartition
    trusted_end: int | None = None
    """See `PartitionState.trusted_end`."""
    goes_on: str | None = None
    """The run whose round goes on: its directories in the partition directory are in nobody's way."""

    @property
    def directory(self) -> str:
        return f"{self.log_dir}/{self.topic_partition}"


@dataclass(frozen=True, slots=True)
class Listed:
    """One partition's segments, and the walk of the active one, whose last batch ends the log (S8.3).

    `active` is None where files of an interrupted run are in the way: they are to be put right first.
    """

    listing: SegmentListing
    active: SegmentWalk | None


def list_partitions(sc: SparkContext, places: Sequence[Place]) -> list[Listed | Failure]:
    """The files of each partition, in the order given."""
    if not places:
        return []
    tasks = task_count(len(places), per_task=_LIST_PER_TASK, items=len(places), parallelism=sc.defaultParallelism)
    return sc.parallelize(list(places), tasks).mapPartitions(in_task(partial(map, _list_one))).collect()


def _list_one(place: Place) -> Listed | Failure:
    try:
        return list_partition(place)
    except (WinnowError, OSError) as error:
        return failure(error)


def list_partition(place: Place) -> Listed:
    """As `list_partitions`, for one, here. Raises CorruptLogError or OSError."""
    listing = list_segments(LocalStorage(), place.directory, trusted_end=place.trusted_end)
    ours = {f"{STAGING_PREFIX}{place.goes_on}", f"{STAGING_PREFIX}{place.goes_on}{KEEPING_SUFFIX}"}
    if not ours.issuperset(listing.leftovers):
        return Listed(listing, None)
    if listing.problems:
        raise listing.problems[0]
    if not listing.segments:
        raise CorruptLogError(
            "a partition without a segment", expected="at least one .log file", found="none", where=place.directory
        )
    active = listing.segments[-1]
    if place.trusted_end is not None:
        return Listed(listing, _readable(place.directory, active))
    walk = walk_segment(
        place.directory,
        active.base_offset,
        active.log_bytes,
        check_index=active.index_bytes is not None,
    )
    return Listed(listing, walk)


def walk_partitions(
    sc: SparkContext, states: Sequence[PartitionState], *, producers_from: Sequence[int], progress: Progress
) -> list[tuple[SegmentWalk, ...] | Failure]:
    """Every batch header of these partitions, and how transactions run through them: for each, the walks of its
    segments in order.

    `producers_from`: for each partition, the offset from which on producers' last batches are wanted.
    """
    items = [
        (number, at, segment.log_bytes)
        for number, state in enumerate(states)
        for at, segment in enumerate(state.segments)
    ]
    if not items:
        return []
    tasks = task_count(
        sum(size for *_, size in items), per_task=_WALK_BYTES, items=len(items), parallelism=sc.defaultParallelism
    )
    lists: list[list[_Piece]] = [[] for _ in range(tasks)]
    for piece, task in enumerate(pack([size for *_, size in items], tasks=tasks)):
        number, at, _ = items[piece]
        lists[task].append((piece, number, at))
    with TickSheet([size for *_, size in items]) as sheet:
        shared = sc.broadcast((tuple(states), tuple(producers_from), sheet.path))

        def walk(assigned: Iterable[list[_Piece]]) -> Iterator[tuple[tuple[int, int], SegmentWalk | Failure]]:
            states, producers_from, ticks = shared.value
            for piece, number, at in (one for task in assigned for one in task):
                try:
                    yield (number, at), _walk_one(states[number], at, producers_from[number])
                except (WinnowError, OSError) as error:
                    yield (number, at), failure(error)
                tick(ticks, piece)

        name = f"reading batch headers of {counted(len(states), 'partition')}"
        with watched(sc, progress, name, tasks=tasks, ticks=sheet):
            walked = dict(sc.parallelize(lists, tasks).mapPartitions(in_task(walk)).collect())
        shared.unpersist()
    return [
        _together([walked[number, at] for at in range(len(state.segments))], state)
        for number, state in enumerate(states)
    ]


def _walk_one(state: PartitionState, at: int, producers_from: int) -> SegmentWalk:
    segment = state.segments[at]
    following = state.segments[at + 1].base_offset if at + 1 < len(state.segments) else None
    end = state.log_end_offset if following is None else following
    if state.trusted_end is not None and (following is None or end > state.trusted_end):
        return not_walked(segment.base_offset)
    return walk_segment(
        state.directory,
        segment.base_offset,
        segment.log_bytes,
        producers_from=producers_from if end > producers_from else None,
        check_index=segment.index_bytes is not None,
        transactions=TransactionsWanted(
            high_watermark=state.high_watermark,
            log_start_offset=state.log_start_offset,
            end_offset=following,
            txn_index=segment.txnindex_bytes is not None,
        ),
        topic=state.topic_partition.topic,
    )


def _readable(directory: str, segment: Segment) -> SegmentWalk:
    """A segment that may end anywhere: as a walk that knows nothing but how far it can be read."""
    path = f"{directory}/{segment_file(segment.base_offset, LOG)}"
    rows = np.empty(_ROWS, BATCH)
    position, end, status = 0, segment.base_offset, WalkStatus.FULL
    with map_range(path, 0, segment.log_bytes) as buf:
        while status is WalkStatus.FULL:
            count, position, status = walk_batches(buf, position, end, rows)
            end = next_offset(rows[:count], end)
        del buf
    return replace(not_walked(segment.base_offset), next_offset=end)


def _together(walks: list[SegmentWalk | Failure], state: PartitionState) -> tuple[SegmentWalk, ...] | Failure:
    sound: list[SegmentWalk] = []
    for walk, following in zip(walks, [*state.segments[1:], None], strict=True):
        if isinstance(walk, Failure):
            return walk
        if following is not None and walk.next_offset > following.base_offset:
            return failure(
                CorruptLogError(
                    "two segments overlap",
                    expected=f"offsets below {following.base_offset}",
                    found=f"{walk.next_offset - 1}",
                    where=f"{state.directory}/{segment_file(walk.base_offset, LOG)}",
                    hint="A broker would read records twice. Copy the partition from another replica.",
                )
            )
        sound.append(walk)
    return tuple(sound)
