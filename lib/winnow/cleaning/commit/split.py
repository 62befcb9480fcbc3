"""Before the round, split segments that can't be cleaned as they are (S6.5).

Kafka's cleaner splits when it reaches such a segment, gives up the round, and cleans the partition
another time. Winnow knows beforehand which segments span too many offsets. It splits them and
surveys the partition again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from winnow.cleaning.commit.commit import kept_by
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.partitions import Planned, PlannedPartition, SkippedPartition
from winnow.cleaning.plan.planning import decide_again, read_headers
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.cleaning.space import no_space, room_for
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.commit.split import StagedSplit, stage_split, swap_split
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.names import STAGING_PREFIX
from winnow.runtime.cancel import attempted
from winnow.runtime.failure import Failure, all_or_failure, failure
from winnow.runtime.spread import spread
from winnow.state import Segment
from winnow.storage.places import Places
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext


def split_first(
    sc: SparkContext, planned: Mapping[int, Planned | PartitionResult], request: Request
) -> dict[int, Planned | PartitionResult]:
    """Return the partitions that had something to split, as they are afterwards, by number.

    A partition that could not be split is returned as its result.
    """
    chosen = {
        number: item
        for number, item in planned.items()
        if isinstance(item, PlannedPartition) and item.overflowed
    }
    if not chosen or request.stop.reason is not None:
        return {}
    # One partition after the other, to save space: splits are rare.
    results: dict[int, Planned | PartitionResult] = {
        number: _split(sc, item, request) for number, item in chosen.items()
    }
    done = [number for number, item in results.items() if isinstance(item, PlannedPartition)]
    changed = [chosen[number] for number in done]
    again = attempted(
        lambda: read_headers(sc, decide_again(sc, changed, request), request), request.stop
    )
    if isinstance(again, Failure):
        return results | {n: report.given_up(chosen[n], again, request.stop) for n in done}
    for number, item in zip(done, again, strict=True):
        results[number] = (
            item
            if isinstance(item, SkippedPartition)
            else replace(item, overflowed=chosen[number].overflowed)
        )
    return results


def split_bytes(planned: Iterable[Planned | PartitionResult]) -> int:
    """Return the maximal bytes written at one time before as many are removed."""
    works = (item for item in planned if isinstance(item, PlannedPartition))
    return max((sum(s.log_bytes for s in _chosen(item)) for item in works), default=0)


def _chosen(item: PlannedPartition) -> list[Segment]:
    return [s for s in item.state.segments if s.base_offset in item.overflowed]


def _split(
    sc: SparkContext, item: PlannedPartition, request: Request
) -> PlannedPartition | PartitionResult:
    """Stage all splits of a partition in tasks, then commit one after the other, ascending: no two
    may be half done (S6.4).
    """
    storage, directory = request.storage, item.state.directory
    needed, room = split_bytes([item]), room_for(request).at(directory)
    if needed > room:
        return report.given_up(item, no_space(needed, room, request), request.stop)
    staging = f"{directory}/{STAGING_PREFIX}{request.run_id}-split"
    chosen = _chosen(item)
    pieces = [
        partial(
            stage_split,
            Places(),
            directory,
            segment,
            staging,
            index_interval_bytes=item.config.index_interval_bytes,
            segment_index_bytes=item.config.segment_index_bytes,
        )
        for segment in chosen
    ]

    def stage() -> list[StagedSplit] | Failure:
        staged = spread(
            sc,
            operator.call,
            pieces,
            weights=[segment.log_bytes for segment in chosen],
            per_task=1,
            name=f"splitting {counted(len(chosen), 'segment')}",
            progress=request.progress,
        )
        request.stop.check()
        return all_or_failure(staged)

    try:
        storage.mkdir(staging)
        staged = attempted(stage, request.stop)
    except FAILS_ONE_PARTITION as error:  # no log has been changed
        staged = failure(error)
    try:
        if isinstance(staged, Failure):
            remove_staging(storage, staging)
            return report.given_up(item, staged, request.stop)
        with kept_by(request, item.state):
            for split in staged:
                swap_split(storage, directory, split)
        remove_staging(storage, staging)
    except FAILS_ONE_PARTITION as error:
        return report.interrupted(item, failure(error))
    return item
