"""Run one Spark job that compacts some partitions: scan, resolve, rewrite (S4, S5).

It ends in staged, verified segments. Weighing replaces the rewrite and ends in figures. If the walk
has scanned everything (`winnow.scan.prefetch`), the job begins with resolve.

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
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from winnow.cleaning.request import Request
from winnow.cleaning.rewrite.cleaned import CleanedGroup, unread
from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.rewrite.rewrite import rewrite_group, weigh_group
from winnow.cleaning.space import waves
from winnow.errors import FAILS_ONE_PARTITION
from winnow.runtime.cores import Cores, one_of
from winnow.runtime.failed_job import each_survived
from winnow.runtime.failure import Failure, all_or_failure, failure
from winnow.runtime.packing import ITEM_BYTES, TASKS_PER_CORE, left_over, packed, task_count
from winnow.runtime.progress import Progress, watched
from winnow.runtime.side_by_side import in_background
from winnow.runtime.spool import spooling
from winnow.runtime.throttle import in_task
from winnow.runtime.ticks import TickSheet, tick
from winnow.scan.job import BUCKET_RECORDS, CompactionJob, PartitionJob
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
_SCAN_BYTES = 2**28
_REWRITE_BYTES = 2**30
"""Maximal log bytes of a task, if there are more tasks than cores."""
_REWRITE_WORTH = 2**28
"""Log bytes that a task must have before a core gets more than one. A segment is synced and read
back while the same task writes the next one, and nothing does so between two tasks. This is for
one machine, where idle cores help with a segment. Elsewhere only other tasks keep them busy.
"""
_RESOLVED_BY_REWRITE = 2**19
"""Maximal records of a partition whose keys the task resolves that rewrites all of its groups. Its
keys are prefetched. A stage to resolve them would take longer to begin than its work.
"""
_SPOOLED_BUCKETS = 16
"""Maximal buckets of a task: with few keys, a bucket takes less time than a task costs."""


_At = tuple[int, int]
"""Number of a partition in the job, and of a split, bucket or group in the partition."""


@dataclass(frozen=True, slots=True)
class _Assignment:
    """Which task does what."""

    scans: list[list[_At]]
    """The splits of each scan task: those without prefetched keys."""
    resolved_by_rewrite: frozenset[int]
    """Partitions that have no resolve task, see `_RESOLVED_BY_REWRITE`."""
    buckets: list[list[_At]]
    """Of each resolve task; `bucket_task`: the task of each. None if no partition has one."""
    groups: list[list[_At]]
    """Of each rewrite task; `group_task`: the task of each."""
    bucket_task: dict[_At, int]
    group_task: dict[_At, int]
    cores: Cores | None
    """Shared among the rewrites, if any is `helped`."""
    helped: frozenset[int]
    """Rewrite tasks that end when other cores are idle, which then help with their groups."""
    pieces: dict[_At, int]
    """The number of each split among all, for progress."""


_Item = KeyBlob | Failure
_Kept = Survivors | Failure
Outcome = CleanedGroup | Failure
_Shared: TypeAlias = "Broadcast[tuple[CompactionJob, _Assignment, str | None, str]]"
"""The directory for blobs (`winnow.runtime.spool`), and the path of the tick sheet."""


def run_compaction(
    sc: SparkContext, job: CompactionJob, progress: Progress, *, weighs: bool = False
) -> list[list[Outcome]]:
    """Run the job. Return the outcome of each group, by partition in the given order.

    `weighs`: write nothing, and return what each group would become.
    """
    with (
        TickSheet(_halves(job)) as sheet,
        spooling(sc) as spool,
    ):
        job = job.in_buckets_for(TASKS_PER_CORE * sc.defaultParallelism)
        assignment = _assign(job, sc.defaultParallelism, spool)
        shared = sc.broadcast((job, assignment, spool, sheet.path))
        stages = _resolved(sc, shared, assignment).mapPartitionsWithIndex(
            in_task(partial(_finish, shared, weighs=weighs))
        )
        tasks = len(assignment.scans) + len(assignment.buckets) + len(assignment.groups)
        doing = "weighing" if weighs else "compacting"
        name = f"{doing} {counted(len(job.partitions), 'partition')}"
        try:
            with watched(sc, progress, name, tasks=tasks, ticks=sheet):
                outcomes = dict(stages.collect())
        finally:
            shared.unpersist()
    return [
        [outcomes[number, group] for group in range(len(partition.groups))]
        for number, partition in enumerate(job.partitions)
    ]


Weighed = list[CleanedGroup] | Failure
"""The groups of a partition, ascending, or the failure that would prevent its cleaning."""
Weigh = Callable[[Sequence[PartitionJob]], Sequence[Weighed]]


def compact_each(
    sc: SparkContext, jobs: Sequence[PartitionJob], request: Request, *, weighs: bool = False
) -> list[list[Outcome]]:
    """Compact the partitions in one Spark job. One that kills its worker fails alone: that failure
    is then its only outcome.
    """

    def run(some: Sequence[PartitionJob]) -> list[list[Outcome]]:
        job = CompactionJob(request.now, request.secret, tuple(some))
        return run_compaction(sc, job, request.progress, weighs=weighs)

    survived = each_survived(jobs, run, goes_on=lambda: request.stop.reason is None)
    return [[one] if isinstance(one, Failure) else one for one in survived]


def weigh(sc: SparkContext, jobs: Sequence[PartitionJob], request: Request) -> list[Weighed]:
    """Weigh each job, in as few Spark jobs as their size allows. Nothing is written, so space does
    not matter.
    """
    return [
        all_or_failure(outcomes)
        for wave in waves(jobs)
        for outcomes in compact_each(sc, wave, request, weighs=True)
    ]


def _assign(job: CompactionJob, parallelism: int, spool: str | None) -> _Assignment:
    """Assign all work to tasks. `parallelism`: cores. `spool`: see `winnow.runtime.spool`."""
    pieces: dict[_At, int] = {}
    splits, buckets, rewrites = dict[_At, int](), dict[_At, int](), dict[_At, int]()
    split_bytes = read_bytes = 0
    for number, partition in enumerate(job.partitions):
        for at, split in enumerate(partition.splits):
            pieces[number, at] = len(pieces)
            if split.keys is None:
                split_bytes += split.end - split.start
                splits[number, at] = split.end - split.start + ITEM_BYTES
        for at, group in enumerate(partition.groups):
            read = 0 if group.stays else sum(segment.log_bytes for segment in group.segments)
            read_bytes += read
            # Fewer of the older records survive. The latest groups write the most, so they begin
            # first.
            written = read * (at + 1) // len(partition.groups)
            rewrites[number, at] = read + written + ITEM_BYTES

    def in_tasks(
        costs: dict[_At, int], total: int, per_task: int, worth: int = 0
    ) -> list[list[_At]]:
        tasks = task_count(
            total, per_task=per_task, items=len(costs), parallelism=parallelism, worth=worth
        )
        return packed([*costs], [*costs.values()], tasks=tasks)

    scans = in_tasks(splits, split_bytes, _SCAN_BYTES)
    worth = 0 if spool is None else _REWRITE_WORTH
    groups = in_tasks(rewrites, read_bytes, _REWRITE_BYTES, worth)
    group_task = {at: task for task, some in enumerate(groups) for at in some}
    by_rewrite = frozenset(
        number
        for number, partition in enumerate(job.partitions)
        if partition.records <= _RESOLVED_BY_REWRITE
        and all(split.keys is not None for split in partition.splits)
        and len({group_task[number, at] for at in range(len(partition.groups))}) == 1
    )
    for number, partition in enumerate(job.partitions):
        if number not in by_rewrite:
            for bucket in range(partition.buckets):
                buckets[number, bucket] = partition.records // partition.buckets
    most_records = (1 if spool is None else _SPOOLED_BUCKETS) * BUCKET_RECORDS
    by_task = in_tasks(buckets, sum(buckets.values()), most_records, BUCKET_RECORDS)
    loads = [sum(rewrites[at] for at in task) for task in groups]
    helped = [] if spool is None else left_over(loads, cores=parallelism)
    return _Assignment(
        scans=scans if splits else [],
        resolved_by_rewrite=by_rewrite,
        buckets=by_task if buckets else [],
        groups=groups,
        bucket_task={at: task for task, some in enumerate(by_task) for at in some},
        group_task=group_task,
        cores=Cores(spool, parallelism) if spool is not None and helped else None,
        helped=frozenset(helped),
        pieces=pieces,
    )


def _resolved(
    sc: SparkContext, shared: _Shared, assignment: _Assignment
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
    sc: SparkContext, shared: _Shared, assignment: _Assignment
) -> RDD[tuple[int, tuple[int, int, _Item]]]:
    """Return what resolve tasks are sent. Prefetched keys are not: the task knows their files."""
    scans = assignment.scans
    if not scans:
        return sc.parallelize((), len(assignment.buckets))
    scanned = sc.parallelize(scans, len(scans)).mapPartitions(in_task(partial(_scan, shared)))
    return scanned.partitionBy(len(assignment.buckets), int)


def _scan(
    shared: _Shared, items: Iterable[list[_At]]
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


def _read_ahead(job: CompactionJob, wanted: Iterable[_At]) -> Iterator[tuple[int, int, _Item]]:
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

    blobs: dict[_At, list[KeyBlob]] = defaultdict(list)
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
    weighs: bool,
) -> Iterator[tuple[_At, Outcome]]:
    """Yield ((partition, group), outcome) for every group of this task."""
    job, assignment, _, ticks = shared.value
    mine = assignment.groups[task]
    kept: dict[_At, list[_Kept]] = defaultdict(list)
    unresolved = {partition for partition, _ in mine} & assignment.resolved_by_rewrite

    def keep(survivors: Iterable[tuple[int, int, _Kept]]) -> None:
        for partition, group, item in survivors:
            kept[partition, group].append(item)

    keep(item for _, item in items)
    own, shared_out = (
        (None, assignment.cores) if task in assignment.helped else (assignment.cores, None)
    )

    def begin(at: _At) -> tuple[int, Callable[[], Outcome]]:
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
                rest = weigh_group(output) if weighs else rewrite_group(output)
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
