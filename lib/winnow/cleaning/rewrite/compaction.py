"""Run one Spark job that compacts some partitions: scan, resolve, rewrite (S4, S5).

It ends in staged, verified segments. Weighing replaces the rewrite and ends in figures. If the walk
has scanned everything (`winnow.cleaning.scan.prefetch`), the job begins with resolve.

Opaque blobs travel, so these are RDDs: SQL would gain nothing and take half the start-up time.
Every item is sent to the task assigned to it beforehand: the key of each pair is a task number,
which `partitionBy` uses unchanged.

A failure concerns one partition. It travels like data, to each group of that partition, and is
returned instead of their outcomes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from winnow.cleaning.rewrite.rewrite import RewrittenGroup, rewrite_group
from winnow.cleaning.rewrite.weigh import WeighedGroup, weigh_group
from winnow.cleaning.scan.job import BUCKET_RECORDS, CompactionJob, GroupJob, PartitionJob
from winnow.cleaning.scan.prefetch import blobs_of
from winnow.cleaning.scan.resolve import Survivors, resolve_bucket
from winnow.cleaning.scan.scan import KeyBlob, scan_split
from winnow.errors import (
    FAILS_ONE_PARTITION,
)
from winnow.runtime.cores import Cores, one_of
from winnow.runtime.failure import Failure, failure
from winnow.runtime.packing import ITEM_BYTES, TASKS_PER_CORE, left_over, pack, task_count
from winnow.runtime.progress import Progress, watched
from winnow.runtime.spool import spooling, temporary_directory
from winnow.runtime.throttle import in_task
from winnow.runtime.ticks import TickSheet, tick
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast, SparkContext

_SCAN_BYTES = 2**28
_REWRITE_BYTES = 2**30
"""Maximal log bytes of a task, if there are more tasks than cores."""
_SPOOLED_BUCKETS = 16
"""Maximal buckets of a task: with few keys, a bucket takes less time than a task costs."""


_At = tuple[int, int]
"""Number of a partition in the job, and of a split, bucket or group in the partition."""
_Item = KeyBlob | Failure
_Kept = Survivors | Failure
Outcome = RewrittenGroup | Failure
_Group_co = TypeVar("_Group_co", covariant=True)


class _LastStage(Protocol[_Group_co]):
    """Processes one group, once its surviving records are known."""

    def __call__(
        self,
        job: PartitionJob,
        group: GroupJob,
        survivors: Iterable[Survivors],
        *,
        now: int,
        split_done: Callable[[int], None],
        cores: Cores | None,
    ) -> _Group_co: ...


@dataclass(frozen=True, slots=True)
class _Assignment:
    """Which task does what, decided on the driver from sizes."""

    split_task: dict[_At, int]
    """Only of splits without prefetched keys."""
    bucket_task: dict[_At, int]
    group_task: dict[_At, int]
    scan_tasks: int
    resolve_tasks: int
    rewrite_tasks: int
    cores: Cores | None
    """Shared among the rewrites, if any is `helped`."""
    helped: frozenset[int]
    """Rewrite tasks that end when other cores are idle, which then help with their groups."""


@dataclass(frozen=True, slots=True)
class _Ticks:
    """Marks pieces of work as done: first each split scanned, then each split rewritten."""

    path: str
    pieces: dict[_At, int]

    def scanned(self, split: _At) -> None:
        tick(self.path, self.pieces[split])

    def finished(self, split: _At) -> None:
        tick(self.path, len(self.pieces) + self.pieces[split])


_Shared: TypeAlias = "Broadcast[tuple[CompactionJob, _Assignment, _Ticks, str | None]]"
"""The last item is the directory for blobs (`winnow.runtime.spool`)."""


def run_compaction(sc: SparkContext, job: CompactionJob, progress: Progress) -> list[list[Outcome]]:
    """Run the job. Return the outcome of each group, by partition in the given order."""
    return _run(sc, job, "compacting", rewrite_group, progress)


def run_weighing(
    sc: SparkContext, job: CompactionJob, progress: Progress
) -> list[list[WeighedGroup | Failure]]:
    """Do as `run_compaction`, without writing: return what each group would become."""
    return _run(sc, job, "weighing", weigh_group, progress)


def _run(
    sc: SparkContext,
    job: CompactionJob,
    doing: str,
    last_stage: _LastStage[_Group_co],
    progress: Progress,
) -> list[list[_Group_co | Failure]]:
    with (
        TickSheet(_halves(job)) as sheet,
        spooling(sc.master, beside=temporary_directory(sc)) as spool,
    ):
        return _run_with(sc, job, doing, last_stage, sheet, spool, progress)


def _run_with(
    sc: SparkContext,
    job: CompactionJob,
    doing: str,
    last_stage: _LastStage[_Group_co],
    sheet: TickSheet,
    spool: str | None,
    progress: Progress,
) -> list[list[_Group_co | Failure]]:
    job = job.in_buckets_for(TASKS_PER_CORE * sc.defaultParallelism)
    assignment = _assign(job, sc.defaultParallelism, spool)
    ticks = _Ticks(sheet.path, {at: piece for piece, at in enumerate(_splits(job))})
    shared = sc.broadcast((job, assignment, ticks, spool))
    stages = (
        _scanned(sc, shared, assignment)
        .mapPartitionsWithIndex(in_task(partial(_resolve, shared)))
        .partitionBy(assignment.rewrite_tasks, int)
        .mapPartitionsWithIndex(in_task(partial(_finish, shared, last_stage)))
    )
    tasks = assignment.scan_tasks + assignment.resolve_tasks + assignment.rewrite_tasks
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


def _scanned(
    sc: SparkContext, shared: _Shared, assignment: _Assignment
) -> RDD[tuple[int, tuple[int, int, _Item]]]:
    """Return what resolve tasks are sent. Prefetched keys are not: the task knows their files."""
    if not assignment.scan_tasks:
        return sc.parallelize((), assignment.resolve_tasks)
    splits = _by_task(assignment.split_task, assignment.scan_tasks)
    scanned = sc.parallelize(splits, assignment.scan_tasks).mapPartitions(
        in_task(partial(_scan, shared))
    )
    return scanned.partitionBy(assignment.resolve_tasks, int)


def _scan(
    shared: _Shared, items: Iterable[list[_At]]
) -> Iterator[tuple[int, tuple[int, int, _Item]]]:
    """Yield (resolve task, (partition, bucket, keys)). A failure goes to the first bucket."""
    job, assignment, ticks, spool = shared.value
    for partition, split in (at for task in items for at in task):
        try:
            for bucket, blob in scan_split(job.partitions[partition], split, job.secret, spool):
                yield assignment.bucket_task[partition, bucket], (partition, bucket, blob)
            ticks.scanned((partition, split))
        except FAILS_ONE_PARTITION as error:
            yield assignment.bucket_task[partition, 0], (partition, 0, failure(error))


def _read_ahead(
    job: CompactionJob, assignment: _Assignment, task: int
) -> Iterator[tuple[int, int, _Item]]:
    """Yield the prefetched keys of a resolve task, and a failure for keys that can't be read."""
    mine: dict[int, list[int]] = defaultdict(list)
    for (partition, bucket), where in assignment.bucket_task.items():
        if where == task:
            mine[partition].append(bucket)
    for partition, buckets in mine.items():
        try:
            for number, split in enumerate(job.partitions[partition].splits):
                for bucket, blob in (
                    () if split.keys is None else blobs_of(split.keys, number, buckets)
                ):
                    yield partition, bucket, blob
        except FAILS_ONE_PARTITION as error:
            yield partition, 0, failure(error)


def _resolve(
    shared: _Shared, task: int, items: Iterable[tuple[int, tuple[int, int, _Item]]]
) -> Iterator[tuple[int, tuple[int, int, _Kept]]]:
    """Yield (rewrite task, (partition, group, survivors)). A failure goes to each group."""
    job, assignment, _, spool = shared.value
    blobs: dict[_At, list[KeyBlob]] = defaultdict(list)
    for partition, bucket, item in chain(
        (item for _, item in items), _read_ahead(job, assignment, task)
    ):
        if isinstance(item, Failure):
            for group in range(len(job.partitions[partition].groups)):
                yield assignment.group_task[partition, group], (partition, group, item)
        else:
            blobs[partition, bucket].append(item)
    groups: dict[int, dict[int, int]] = {}
    while blobs:
        (partition, _), together = blobs.popitem()
        work = job.partitions[partition]
        group_of = groups.setdefault(partition, work.groups_of_splits())
        try:
            for kept in resolve_bucket(together, spool, with_keys=work.summaries is not None):
                if kept.split >= len(work.splits) - work.following:
                    continue
                group = group_of[kept.split]
                yield assignment.group_task[partition, group], (partition, group, kept)
        except FAILS_ONE_PARTITION as error:
            for group in range(len(work.groups)):
                yield assignment.group_task[partition, group], (partition, group, failure(error))


def _finish(
    shared: _Shared,
    last_stage: _LastStage[_Group_co],
    task: int,
    items: Iterable[tuple[int, tuple[int, int, _Kept]]],
) -> Iterator[tuple[_At, _Group_co | Failure]]:
    """Yield ((partition, group), outcome) for every group of this task."""
    job, assignment, ticks, _ = shared.value
    kept: dict[_At, list[Survivors]] = defaultdict(list)
    failed: dict[_At, Failure] = {}
    for _, (partition, group, item) in items:
        if isinstance(item, Failure):
            failed[partition, group] = item
        else:
            kept[partition, group].append(item)
    own, shared_out = (
        (None, assignment.cores) if task in assignment.helped else (assignment.cores, None)
    )
    for at in sorted(group for group, where in assignment.group_task.items() if where == task):
        partition, group = at
        if at in failed:
            yield at, failed[at]
            continue
        try:
            work = job.partitions[partition]
            with one_of(own):
                outcome: _Group_co | Failure = last_stage(
                    work,
                    work.groups[group],
                    kept.pop(at, []),
                    now=job.now,
                    split_done=partial(_finished, ticks, partition),
                    cores=shared_out,
                )
        except FAILS_ONE_PARTITION as error:
            outcome = failure(error)
        yield at, outcome


def _finished(ticks: _Ticks, partition: int, split: int) -> None:
    ticks.finished((partition, split))


def _assign(job: CompactionJob, parallelism: int, spool: str | None) -> _Assignment:
    splits, buckets, groups, written = {}, {}, {}, {}
    for number, partition in enumerate(job.partitions):
        for at, split in enumerate(partition.splits):
            if split.keys is None:
                splits[number, at] = split.end - split.start
        for bucket in range(partition.buckets):
            buckets[number, bucket] = partition.records // partition.buckets
        for at, group in enumerate(partition.groups):
            read = () if group.stays else group.segments
            groups[number, at] = sum(segment.log_bytes for segment in read)
            # Fewer of the older records survive. The latest groups write the most, so they begin
            # first.
            written[number, at] = groups[number, at] * (at + 1) // len(partition.groups)
    scan_tasks = 0
    if splits:
        scan_tasks = task_count(
            sum(splits.values()), per_task=_SCAN_BYTES, items=len(splits), parallelism=parallelism
        )
    resolve_tasks = task_count(
        sum(buckets.values()),
        per_task=(1 if spool is None else _SPOOLED_BUCKETS) * BUCKET_RECORDS,
        items=len(buckets),
        parallelism=parallelism,
        worth=BUCKET_RECORDS,
    )
    rewrite_tasks = task_count(
        sum(groups.values()), per_task=_REWRITE_BYTES, items=len(groups), parallelism=parallelism
    )
    rewrites = {at: groups[at] + written[at] + ITEM_BYTES for at in groups}
    group_task = _spread(rewrites, rewrite_tasks)
    helped: list[int] = []
    if spool is not None:
        loads = [0] * rewrite_tasks
        for rewritten, task in group_task.items():
            loads[task] += rewrites[rewritten]
        helped = left_over(loads, cores=parallelism)
    return _Assignment(
        split_task=_spread(splits, scan_tasks, each=ITEM_BYTES),
        bucket_task=_spread(buckets, resolve_tasks),
        group_task=group_task,
        scan_tasks=scan_tasks,
        resolve_tasks=resolve_tasks,
        rewrite_tasks=rewrite_tasks,
        cores=Cores(spool, parallelism) if spool is not None and helped else None,
        helped=frozenset(helped),
    )


def _splits(job: CompactionJob) -> Iterator[_At]:
    for number, partition in enumerate(job.partitions):
        for at in range(len(partition.splits)):
            yield number, at


def _halves(job: CompactionJob) -> list[int]:
    """Return the bytes of the pieces of work, all scans first. Half of a split is done when it is
    scanned, half when it is rewritten.

    The total is the log bytes, although most are read twice. A split that is only scanned is done
    then; one whose keys were prefetched is done when it is rewritten.
    """
    sizes, scans = [], []
    for partition in job.partitions:
        rewritten = partition.groups_of_splits()
        for number, split in enumerate(partition.splits):
            size = split.end - split.start
            if split.keys is not None:
                scan = 0
            elif number in rewritten:
                scan = size // 2
            else:
                scan = size
            sizes.append(size)
            scans.append(scan)
    return [*scans, *(size - scan for size, scan in zip(sizes, scans, strict=True))]


def _spread(weights: dict[_At, int], tasks: int, *, each: int = 0) -> dict[_At, int]:
    return dict(zip(weights, pack(list(weights.values()), tasks=tasks, each=each), strict=True))


def _by_task(placed: dict[_At, int], tasks: int) -> Sequence[list[_At]]:
    lists: list[list[_At]] = [[] for _ in range(tasks)]
    for item, task in sorted(placed.items()):
        lists[task].append(item)
    return lists
