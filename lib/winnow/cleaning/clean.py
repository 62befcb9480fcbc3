"""Clean partitions. The algorithm, from top to bottom:

    next batch of partitions that fits time and space (`schedule`)
      -> read: walk the batch headers, settle transactions, apply Kafka's rules
      -> retain: delete from partitions that are not compacted, which makes room
      -> stage: scan, resolve, rewrite and verify, in one Spark job (`stage`)
      -> commit: journal, swap, cleaner checkpoint, retention (`commit`)

The partitions were listed before (`plan.planning`). Only the driver changes a log. A partition that
fails never stops the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark import SparkContext

from winnow.cleaning.commit.commit import commit_several, kept_bytes
from winnow.cleaning.commit.compaction import commit, give_up
from winnow.cleaning.commit.retention import retain_only
from winnow.cleaning.commit.split import split_bytes, split_first
from winnow.cleaning.little_space import make_room, with_exact_sizes
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.after_retention import compacted_next
from winnow.cleaning.plan.decide_listed import to_walk
from winnow.cleaning.plan.partitions import Planned, PlannedPartition, SkippedPartition
from winnow.cleaning.plan.planning import read_headers
from winnow.cleaning.plan.ready import ReadyPartition, make_ready
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.cleaning.rewrite.compaction import estimate
from winnow.cleaning.schedule import Schedule, ToEstimate, ToRead, ToStage, compacted_bytes
from winnow.cleaning.stage import NOT_BEGUN, stage
from winnow.cleaning.staged import StagedPartition
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, WinnowError
from winnow.runtime.cancel import attempted
from winnow.runtime.failure import Failure, failure
from winnow.runtime.progress import Within
from winnow.runtime.spool import part_of, remove_part
from winnow.words import size

Results = dict[int, PartitionResult]
"""By the number of the partition."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run does with a partition that is planned or staged."""

    retain: Callable[[PlannedPartition, Request], PartitionResult] = retain_only
    """For partitions that are not compacted."""
    commit: Callable[
        [PlannedPartition, StagedPartition, Request], StagedPartition | PartitionResult
    ] = commit
    """Returns what is in place if groups remain."""
    changes_logs: bool = True
    """Whether segments may be split before a compaction, and a partition may be compacted after its
    retention.
    """


COMMITTING = Ending()
_TO_SPLIT = Failure(
    "a segment spans more than 2^31 - 1 offsets and must be split first, which only `clean` does, "
    "while the broker is stopped",
    WinnowError.exit_code,
)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One result for each partition, in the order given."""

    partitions: list[PartitionResult]
    peak_bytes: int
    """Peak temporary space: bytes written, but not yet in place."""


def clean(
    sc: SparkContext, partitions: Sequence[Planned], request: Request, ending: Ending = COMMITTING
) -> Cleaned:
    """Clean the partitions, or prepare that. Return one result for each.

    Headers that were not read before are read now, batch by batch.
    """
    schedule = Schedule(partitions, request)
    results: Results = {}
    retained: Results = {}  # of partitions that are compacted afterwards
    split: set[int] = set()
    reading, now = ToRead({}, 0, 0), request
    while (batch := schedule.next_batch()) is not None:
        match batch:
            case ToRead():
                if not schedule.waits_for_space(reading.partitions):
                    remove_part(now.spool, request.spool)
                reading, now = batch, _for_batch(batch, request)
                read = _read(sc, batch.partitions, now)
                schedule.used(split_bytes(read.values()))
                parts = split_first(sc, read, now) if ending.changes_logs else {}
                split |= parts.keys()
                read |= parts
                following = _retain(sc, read, results, now, ending)
                for number in following.keys() - retained.keys():
                    retained[number] = results[number]
                    schedule.read_later(number, following[number])
                # After retention, which may have freed space.
                _stage_later(read, results, schedule, now, ending)
            case ToEstimate():
                now = request
                _stage_with_exact_sizes(sc, batch.partitions, results, schedule, now)
            case ToStage():
                _stage_and_commit(sc, batch, results, schedule, now, ending)
    final = []
    for number, first in enumerate(partitions):
        result = results[number]
        if number in retained:
            result = report.followed(retained[number], result)
        if number in split and first.state:  # report the number of segments before a split
            result = replace(result, segments_before=len(first.state.segments))
        kept = kept_bytes(request, first.place.directory)
        final.append(replace(result, kept_bytes=kept))
    return Cleaned(final, schedule.peak_bytes)


def _for_batch(batch: ToRead, request: Request) -> Request:
    """Return the request for one batch of several: it keeps its keys in a directory of its own, and
    its progress says how far the run is.
    """
    compacted = sum(map(compacted_bytes, batch.partitions.values()))
    if not compacted or compacted == batch.total_bytes:
        return request
    words = f"{size(batch.done_bytes)} of {size(batch.total_bytes)} done"
    progress = Within(words, request.progress)
    return replace(request, progress=progress, spool=part_of(request.spool))


def _read(
    sc: SparkContext, partitions: Mapping[int, Planned], request: Request
) -> dict[int, Planned | PartitionResult]:
    """Walk the partitions that need it, and return all. If the walk fails, these have failed."""
    found = attempted(lambda: read_headers(sc, [*partitions.values()], request), request.stop)
    if isinstance(found, Failure):
        return {
            number: report.given_up(item, found, request.stop) if to_walk(item) else item
            for number, item in partitions.items()
        }
    return dict(zip(partitions, found, strict=True))


def _retain(
    sc: SparkContext,
    read: Mapping[int, Planned | PartitionResult],
    results: Results,
    request: Request,
    ending: Ending,
) -> dict[int, Planned]:
    """Apply the retention of partitions that are not compacted, and add their results. Return, by
    number, those to compact afterwards, in their current state and without walks.
    """
    items = {
        number: item
        for number, item in read.items()
        if isinstance(item, PlannedPartition) and not item.plan.compaction
    }

    def retain(item: PlannedPartition) -> PartitionResult:
        if request.stop.reason is not None:
            return report.stopped(item, request.stop.reason)
        return ending.retain(item, request)

    done = commit_several(
        [partial(retain, item) for item in items.values()],
        [item.place.directory for item in items.values() if item.plan.retention],
        request.progress,
        doing="applying retention",
    )
    results |= zip(items, done, strict=True)
    if not ending.changes_logs:
        return {}
    return compacted_next(sc, items, results, request)


def _stage_later(
    read: Mapping[int, Planned | PartitionResult],
    results: Results,
    schedule: Schedule,
    request: Request,
    ending: Ending,
) -> None:
    """Add the partitions that are compacted to the schedule, and the results of those that failed
    or are left alone.
    """
    for number, item in read.items():
        if isinstance(item, PartitionResult):
            results[number] = item
        elif isinstance(item, SkippedPartition):
            results[number] = report.left_alone(item)
        elif item.plan.compaction is None:
            continue  # retention was applied
        elif request.stop.reason is not None:
            results[number] = report.stopped(item, request.stop.reason)
        elif item.overflowed and not ending.changes_logs:
            results[number] = report.failed(item, _TO_SPLIT)
        else:
            try:
                schedule.stage_later(number, make_ready(item, request))
            except FAILS_ONE_PARTITION as error:
                results[number] = report.failed(item, failure(error))


def _stage_with_exact_sizes(
    sc: SparkContext,
    partitions: Mapping[int, ReadyPartition],
    results: Results,
    schedule: Schedule,
    request: Request,
) -> None:
    """Read the records of partitions that are too large for the free space. Then stage these, the
    smallest first: each makes room for the next.
    """
    if _ends(results, request):
        results |= {number: report.failed(r.item, NOT_BEGUN) for number, r in partitions.items()}
        return
    found = attempted(
        lambda: with_exact_sizes(partitions, partial(estimate, sc, request=request), request),
        request.stop,
    )
    if isinstance(found, Failure):
        results |= {
            number: report.given_up(ready.item, found, request.stop)
            for number, ready in partitions.items()
        }
        return
    groups, exact = found
    results |= {
        number: report.failed(partitions[number].item, why)
        for number, why in groups.items()
        if isinstance(why, Failure)
    }
    for number, ready in exact.items():
        schedule.stage_last(number, ready)


def _stage_and_commit(
    sc: SparkContext,
    batch: ToStage,
    results: Results,
    schedule: Schedule,
    request: Request,
    ending: Ending,
) -> None:
    """Stage a batch, and commit its partitions side by side. Of one that is too large for the free
    space, some groups remain for a later batch.
    """
    partitions: dict[int, ReadyPartition] = {}
    for number, waiting in batch.partitions.items():
        ready = _begin(waiting, results, schedule, request, exact=batch.exact)
        if isinstance(ready, PartitionResult):
            results[number] = ready
        else:
            partitions[number] = ready
    if not partitions:
        return
    staged, staged_bytes = stage(sc, [*partitions.values()], schedule.room(), request)
    schedule.staged(staged_bytes)
    commits = [
        partial(give_up, ready.item, ready.staged, outcome, request)
        if isinstance(outcome, Failure)
        else partial(ending.commit, ready.item, outcome, request)
        for ready, outcome in zip(partitions.values(), staged, strict=True)
    ]
    done = commit_several(
        commits,
        [ready.job.directory for ready in partitions.values()],
        request.progress,
        most_segments=max(len(ready.item.state.segments) for ready in partitions.values()),
    )
    for number, outcome in zip(partitions, done, strict=True):
        if isinstance(outcome, PartitionResult):
            results[number] = outcome
        else:
            schedule.go_on(number, replace(partitions[number], staged=outcome))


def _begin(
    ready: ReadyPartition, results: Results, schedule: Schedule, request: Request, *, exact: bool
) -> ReadyPartition | PartitionResult:
    """Return the partition if it can be staged now, else its result. With `exact` sizes, indexes of
    its sources may be removed to make room.
    """
    if ready.staged.placed:  # some of its groups are in place already
        return ready
    if request.stop.reason is not None:
        return report.stopped(ready.item, request.stop.reason)
    if _ends(results, request):
        return report.failed(ready.item, NOT_BEGUN)
    fitting = make_room(ready, schedule.room(), request) if exact else ready
    return report.failed(ready.item, fitting) if isinstance(fitting, Failure) else fitting


def _ends(results: Results, request: Request) -> bool:
    """Whether `--on-corrupt=fail` ends the run: reading records has found damage."""
    return request.on_corrupt == "fail" and any(
        result.error is not None and result.error_code == CorruptLogError.exit_code
        for result in results.values()
    )
