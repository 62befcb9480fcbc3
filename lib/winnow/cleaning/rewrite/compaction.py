"""Run one Spark job that compacts some partitions: scan, resolve, rewrite (S4, S5).

It ends in staged, verified segments. An estimate ends in figures instead. If the walk has scanned
everything (`winnow.scan.prefetch`), the job begins with resolve.

Opaque blobs travel, so these are RDDs: SQL would gain nothing and take half the start-up time.
Every item is sent to the task assigned to it beforehand: the key of each pair is a task number,
which `partitionBy` uses unchanged.

While a segment is synced and read back, its task writes the next one: it would mostly wait for the
disk. With thousands of small partitions, it writes several.

A failure concerns one partition. It travels like data, to each group of that partition, and is
returned instead of their outcomes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from winnow.cleaning.request import Request
from winnow.cleaning.rewrite.assignment import Assignment, At, assign
from winnow.cleaning.rewrite.cleaned import CleanedGroup, unread
from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.rewrite.rewrite import estimate_group, rewrite_group
from winnow.cleaning.space import batches
from winnow.errors import FAILS_ONE_PARTITION
from winnow.runtime.cores import one_of
from winnow.runtime.failed_job import each_survived
from winnow.runtime.failure import Failure, all_or_failure, failure
from winnow.runtime.packing import TASKS_PER_CORE
from winnow.runtime.progress import Progress, watched
from winnow.runtime.side_by_side import in_background
from winnow.runtime.spool import spooling
from winnow.runtime.throttle import in_task
from winnow.runtime.ticks import TickSheet, tick
from winnow.scan.job import CompactionJob, PartitionJob
from winnow.scan.prefetch import blobs_of
from winnow.scan.resolve import Survivors, resolve_bucket
from winnow.scan.scan import KeyBlob, scan_split
from winnow.storage.throttle import current_throttle
from winnow.storage.urls import is_remote
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast, SparkContext

_IN_BACKGROUND = 8
_BACKGROUND_BYTES = 2**26
"""So many groups with so many log bytes together are synced and read back while the task writes
another. They need as much memory as one split. A larger group is alone.
"""
_FEW_PIECES = 64
"""Splits of a job that is sent with each task."""

_Item = KeyBlob | Failure
_Kept = Survivors | Failure
Outcome = CleanedGroup | Failure
_Value: TypeAlias = tuple[CompactionJob, Assignment, str | None, str]
"""The directory for blobs (`winnow.runtime.spool`), and the path of the tick sheet."""


class _Sent(NamedTuple):
    """What all tasks share, sent with each. To broadcast a small job would take longer."""

    value: _Value


_Shared: TypeAlias = "Broadcast[_Value] | _Sent"


def run_compaction(
    sc: SparkContext, job: CompactionJob, progress: Progress, *, estimates: bool = False
) -> list[list[Outcome]]:
    """Run the job. Return the outcome of each group, by partition in the given order.

    `estimates`: write nothing, and return what each group would become.
    """
    with (
        TickSheet(_halves(job)) as sheet,
        spooling(sc) as spool,
    ):
        job = job.in_buckets_for(TASKS_PER_CORE * sc.defaultParallelism)
        assignment = assign(job, sc.defaultParallelism, spool)
        value = job, assignment, spool, sheet.path
        few = len(assignment.pieces) <= _FEW_PIECES
        shared = _Sent(value) if few else sc.broadcast(value)
        stages = _resolved(sc, shared, assignment).mapPartitionsWithIndex(
            in_task(partial(_finish, shared, estimates=estimates))
        )
        tasks = len(assignment.scans) + len(assignment.buckets) + len(assignment.groups)
        doing = "weighing" if estimates else "compacting"
        name = f"{doing} {counted(len(job.partitions), 'partition')}"
        try:
            with watched(sc, progress, name, tasks=tasks, ticks=sheet):
                outcomes = dict(sc.runJob(stages, iter))
        finally:
            if not isinstance(shared, _Sent):
                shared.unpersist()
    return [
        [outcomes[number, group] for group in range(len(partition.groups))]
        for number, partition in enumerate(job.partitions)
    ]


Estimated = list[CleanedGroup] | Failure
"""The groups of a partition, ascending, or the failure that would prevent its cleaning."""
Estimate = Callable[[Sequence[PartitionJob]], Sequence[Estimated]]


def compact_each(
    sc: SparkContext, jobs: Sequence[PartitionJob], request: Request, *, estimates: bool = False
) -> list[list[Outcome]]:
    """Compact the partitions in one Spark job. One that kills its worker fails alone: that failure
    is then its only outcome.
    """

    def run(some: Sequence[PartitionJob]) -> list[list[Outcome]]:
        job = CompactionJob(request.now, request.secret, tuple(some))
        return run_compaction(sc, job, request.progress, estimates=estimates)

    survived = each_survived(jobs, run, goes_on=lambda: request.stop.reason is None)
    return [[one] if isinstance(one, Failure) else one for one in survived]


def estimate(sc: SparkContext, jobs: Sequence[PartitionJob], request: Request) -> list[Estimated]:
    """Return what each job would make of its groups. Reads all records, in as few Spark jobs as
    their size allows. Nothing is written, so space does not matter.
    """
    return [
        all_or_failure(outcomes)
        for batch in batches(jobs)
        for outcomes in compact_each(sc, batch, request, estimates=True)
    ]


def _resolved(
    sc: SparkContext, shared: _Shared, assignment: Assignment
) -> RDD[tuple[int, tuple[int, int, _Kept]]]:
    """Return what rewrite tasks are sent."""
    if not assignment.buckets:
        return sc.parallelize((), len(assignment.groups))
    return (
        _scanned(sc, shared, assignment)
        .mapPartitionsWithIndex(in_task(partial(_resolve, shared)))
        .partitionBy(len(assignment.groups), int)
    )


def _scanned(
    sc: SparkContext, shared: _Shared, assignment: Assignment
) -> RDD[tuple[int, tuple[int, int, _Item]]]:
    """Return what resolve tasks are sent. Prefetched keys are not: the task knows their files."""
    scans = assignment.scans
    if not scans:
        return sc.parallelize((), len(assignment.buckets))
    scanned = sc.parallelize(scans, len(scans)).mapPartitions(in_task(partial(_scan, shared)))
    return scanned.partitionBy(len(assignment.buckets), int)


def _scan(
    shared: _Shared, items: Iterable[list[At]]
) -> Iterator[tuple[int, tuple[int, int, _Item]]]:
    """Yield (resolve task, (partition, bucket, keys)). A failure goes to the first bucket."""
    job, assignment, spool, ticks = shared.value
    for partition, split in chain.from_iterable(items):
        try:
            for bucket, blob in scan_split(job.partitions[partition], split, job.secret, spool):
                yield assignment.bucket_task[partition, bucket], (partition, bucket, blob)
            tick(ticks, assignment.pieces[partition, split])
        except FAILS_ONE_PARTITION as error:
            yield assignment.bucket_task[partition, 0], (partition, 0, failure(error))


def _read_ahead(job: CompactionJob, wanted: Iterable[At]) -> Iterator[tuple[int, int, _Item]]:
    """Yield the prefetched keys of these buckets, and a failure for keys that can't be read."""
    mine: dict[int, list[int]] = defaultdict(list)
    for partition, bucket in wanted:
        mine[partition].append(bucket)
    for partition, buckets in mine.items():
        try:
            for number, split in enumerate(job.partitions[partition].splits):
                if split.keys is not None:
                    for bucket, blob in blobs_of(split.keys, number, buckets):
                        yield partition, bucket, blob
        except FAILS_ONE_PARTITION as error:
            yield partition, 0, failure(error)


def _resolve(
    shared: _Shared, task: int, items: Iterable[tuple[int, tuple[int, int, _Item]]]
) -> Iterator[tuple[int, tuple[int, int, _Kept]]]:
    """Yield (rewrite task, (partition, group, survivors)). A failure goes to each group."""
    job, assignment, spool, _ = shared.value
    sent = (item for _, item in items)
    ahead = _read_ahead(job, assignment.buckets[task])
    for partition, group, kept in _survivors(job, chain(sent, ahead), spool):
        yield assignment.group_task[partition, group], (partition, group, kept)


def _survivors(
    job: CompactionJob, items: Iterable[tuple[int, int, _Item]], spool: str | None
) -> Iterator[tuple[int, int, _Kept]]:
    """Resolve all of these buckets. Yield (partition, group, survivors), a failure to each group of
    its partition.
    """

    def to_all(partition: int, why: Failure) -> Iterator[tuple[int, int, _Kept]]:
        for group in range(len(job.partitions[partition].groups)):
            yield partition, group, why

    blobs: dict[At, list[KeyBlob]] = defaultdict(list)
    for partition, bucket, item in items:
        if isinstance(item, Failure):
            yield from to_all(partition, item)
        else:
            blobs[partition, bucket].append(item)
    groups: dict[int, dict[int, int]] = {}
    while blobs:
        (partition, _), together = blobs.popitem()
        work = job.partitions[partition]
        group_of = groups.setdefault(partition, work.groups_of_splits())
        try:
            for kept in resolve_bucket(together, spool, with_keys=work.summaries is not None):
                if kept.split < len(work.splits) - work.following:
                    yield partition, group_of[kept.split], kept
        except FAILS_ONE_PARTITION as error:
            yield from to_all(partition, failure(error))


def _finish(
    shared: _Shared,
    task: int,
    items: Iterable[tuple[int, tuple[int, int, _Kept]]],
    *,
    estimates: bool,
) -> Iterator[tuple[At, Outcome]]:
    """Yield ((partition, group), outcome) for every group of this task."""
    job, assignment, _, ticks = shared.value
    mine = assignment.groups[task]
    kept: dict[At, list[_Kept]] = defaultdict(list)
    unresolved = {partition for partition, _ in mine} & assignment.resolved_by_rewrite

    def keep(survivors: Iterable[tuple[int, int, _Kept]]) -> None:
        for partition, group, item in survivors:
            kept[partition, group].append(item)

    keep(item for _, item in items)
    own, shared_out = (
        (None, assignment.cores) if task in assignment.helped else (assignment.cores, None)
    )

    def begin(at: At) -> tuple[int, Callable[[], Outcome]]:
        """Process a group. Return its log bytes and the rest of the work, which any thread may do:
        it needs little memory or time of a core.
        """
        partition, number = at
        work = job.partitions[partition]
        group = work.groups[number]
        if partition in unresolved:
            unresolved.remove(partition)
            wanted = [(partition, bucket) for bucket in range(work.buckets)]
            keep(_survivors(job, _read_ahead(job, wanted), None))
        survivors = all_or_failure(kept.pop(at, []))
        if isinstance(survivors, Failure):
            return 0, lambda: survivors
        if group.stays is not None:
            return 0, partial(unread, group, group.stays)

        def split_done(split: int) -> None:
            tick(ticks, len(assignment.pieces) + assignment.pieces[partition, split])

        try:
            with one_of(own):
                output = GroupOutput(
                    work, group, survivors, now=job.now, cores=shared_out, split_done=split_done
                )
                rest = estimate_group(output) if estimates else rewrite_group(output)
                # Other threads know no throttle.
                if is_remote(work.staging) or current_throttle() is not None:
                    outcome = rest()
                    return 0, lambda: outcome
        except FAILS_ONE_PARTITION as error:
            why = failure(error)
            return 0, lambda: why
        return sum(segment.log_bytes for segment in group.segments), partial(_outcome, rest)

    outcomes = in_background(
        map(begin, mine), at_once=min(_IN_BACKGROUND, len(mine) - 1), room=_BACKGROUND_BYTES
    )
    yield from zip(mine, outcomes, strict=True)


def _outcome(rest: Callable[[], CleanedGroup]) -> Outcome:
    try:
        return rest()
    except FAILS_ONE_PARTITION as error:
        return failure(error)


def _halves(job: CompactionJob) -> list[int]:
    """Return the bytes of the pieces of work, all scans first. Half of a split is done when it is
    scanned, half when it is rewritten.

    The total is the log bytes, although most are read twice. A split that is only scanned is done
    then; one whose keys were prefetched is done when it is rewritten.
    """
    scans, rewrites = [], []
    for partition in job.partitions:
        rewritten = partition.groups_of_splits()
        for number, split in enumerate(partition.splits):
            size = split.end - split.start
            scan = size // 2 if number in rewritten else size
            scans.append(scan if split.keys is None else 0)
            rewrites.append(size - scans[-1])
    return [*scans, *rewrites]
