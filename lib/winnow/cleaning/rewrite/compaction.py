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
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from winnow.cleaning.rewrite.assign import Assignment, At, assign
from winnow.cleaning.rewrite.rewrite import RewrittenGroup, rewrite_group
from winnow.cleaning.rewrite.weigh import WeighedGroup, weigh_group
from winnow.errors import FAILS_ONE_PARTITION
from winnow.runtime.cores import Cores, one_of
from winnow.runtime.failure import Failure, failure
from winnow.runtime.packing import TASKS_PER_CORE
from winnow.runtime.progress import Progress, watched
from winnow.runtime.side_by_side import in_background
from winnow.runtime.spool import spooling, temporary_directory
from winnow.runtime.throttle import in_task
from winnow.runtime.ticks import TickSheet, tick
from winnow.scan.job import CompactionJob, GroupJob, PartitionJob
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


_Item = KeyBlob | Failure
_Kept = Survivors | Failure
Outcome = RewrittenGroup | Failure
_Group_co = TypeVar("_Group_co", covariant=True)
_Value = TypeVar("_Value")


class _LastStage(Protocol[_Group_co]):
    """Processes one group, once its surviving records are known. Returns the rest of the work: it
    needs little memory or time of a core, and any thread may do it.
    """

    def __call__(
        self,
        job: PartitionJob,
        group: GroupJob,
        survivors: Iterable[Survivors],
        *,
        now: int,
        split_done: Callable[[int], None],
        cores: Cores | None,
    ) -> Callable[[], _Group_co]: ...


@dataclass(frozen=True, slots=True)
class _Ticks:
    """Marks pieces of work as done: first each split scanned, then each split rewritten."""

    path: str
    pieces: dict[At, int]

    def scanned(self, split: At) -> None:
        tick(self.path, self.pieces[split])

    def finished(self, split: At) -> None:
        tick(self.path, len(self.pieces) + self.pieces[split])


_Shared: TypeAlias = "Broadcast[tuple[CompactionJob, Assignment, _Ticks, str | None]]"
"""The last item is the directory for blobs (`winnow.runtime.spool`)."""


def run_compaction(sc: SparkContext, job: CompactionJob, progress: Progress) -> list[list[Outcome]]:
    """Run the job. Return the outcome of each group, by partition in the given order."""
    return _run(sc, job, "compacting", rewrite_group, progress)


def run_weighing(
    sc: SparkContext, job: CompactionJob, progress: Progress
) -> list[list[WeighedGroup | Failure]]:
    """Do as `run_compaction`, without writing: return what each group would become."""
    return _run(sc, job, "weighing", weigh_group, progress)


def _same(value: _Value) -> _Value:
    return value


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
        job = job.in_buckets_for(TASKS_PER_CORE * sc.defaultParallelism)
        assignment = assign(job, sc.defaultParallelism, spool)
        splits = (
            (number, at)
            for number, partition in enumerate(job.partitions)
            for at in range(len(partition.splits))
        )
        ticks = _Ticks(sheet.path, {at: piece for piece, at in enumerate(splits)})
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
    sc: SparkContext, shared: _Shared, assignment: Assignment
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
    shared: _Shared, items: Iterable[list[At]]
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
    job: CompactionJob, assignment: Assignment, task: int
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
    blobs: dict[At, list[KeyBlob]] = defaultdict(list)
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
) -> Iterator[tuple[At, _Group_co | Failure]]:
    """Yield ((partition, group), outcome) for every group of this task."""
    job, assignment, ticks, _ = shared.value
    kept: dict[At, list[Survivors]] = defaultdict(list)
    failed: dict[At, Failure] = {}
    for _, (partition, group, item) in items:
        if isinstance(item, Failure):
            failed[partition, group] = item
        else:
            kept[partition, group].append(item)
    own, shared_out = (
        (None, assignment.cores) if task in assignment.helped else (assignment.cores, None)
    )
    mine = sorted(group for group, where in assignment.group_task.items() if where == task)

    def begin(at: At) -> tuple[int, Callable[[], _Group_co | Failure]]:
        """Process a group, and return its log bytes and what remains to be done of it."""
        if at in failed:
            return 0, partial(_same, failed[at])
        partition, group = at
        work = job.partitions[partition]
        size = sum(segment.log_bytes for segment in work.groups[group].segments)
        try:
            with one_of(own):
                rest = last_stage(
                    work,
                    work.groups[group],
                    kept.pop(at, []),
                    now=job.now,
                    split_done=lambda split: ticks.finished((partition, split)),
                    cores=shared_out,
                )
                # Other threads know no throttle.
                if not is_remote(work.staging) and current_throttle() is None:
                    return size, partial(_outcome, rest)
                return 0, partial(_same, _outcome(rest))
        except FAILS_ONE_PARTITION as error:
            return 0, partial(_same, failure(error))

    outcomes = in_background(
        map(begin, mine), at_once=min(_IN_BACKGROUND, len(mine) - 1), room=_BACKGROUND_BYTES
    )
    yield from zip(mine, outcomes, strict=True)


def _outcome(rest: Callable[[], _Group_co]) -> _Group_co | Failure:
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


def _by_task(placed: dict[At, int], tasks: int) -> Sequence[list[At]]:
    lists: list[list[At]] = [[] for _ in range(tasks)]
    for item, task in sorted(placed.items()):
        lists[task].append(item)
    return lists
