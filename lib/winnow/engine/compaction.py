"""One Spark job that compacts some partitions: scan, resolve, rewrite (S4, S5), ending in staged, verified segments.

Opaque blobs travel, so these are RDDs: SQL would gain nothing and cost half the start-up. Every item goes to the task
that it was assigned to beforehand: the key of each pair is a task number and `partitionBy` takes it as it is.

A failure concerns one partition. It travels like data, to each group of that partition, and comes out instead of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.engine.job import BUCKET_RECORDS, CompactionJob
from winnow.engine.packing import pack, task_count
from winnow.engine.resolve import Survivors, resolve_bucket
from winnow.engine.rewrite import RewrittenGroup, rewrite_group
from winnow.engine.scan import KeyBlob, scan_split
from winnow.engine.walk import SPLIT_BYTES
from winnow.errors import WinnowError

if TYPE_CHECKING:
    from pyspark import SparkContext

_REWRITE_BYTES = 2**30
_FAILED = -1


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a partition can't be cleaned: what stands in its report."""

    message: str
    exit_code: int


_Item = KeyBlob | Failure
_Kept = Survivors | Failure
Outcome = RewrittenGroup | Failure


@dataclass(frozen=True, slots=True)
class _Assignment:
    """Which task does what, decided on the driver from sizes."""

    split_task: dict[tuple[int, int], int]
    bucket_task: dict[tuple[int, int], int]
    group_task: dict[tuple[int, int], int]
    scan_tasks: int
    resolve_tasks: int
    rewrite_tasks: int


def run_compaction(sc: SparkContext, job: CompactionJob) -> list[list[Outcome]]:
    """Runs the job; for each partition, in the order given, the outcome of each of its groups."""
    assignment = _assign(job, sc.defaultParallelism)
    shared = sc.broadcast((job, assignment))
    splits = _by_task(assignment.split_task, assignment.scan_tasks)

    def scan(items: Iterable[list[tuple[int, int]]]) -> Iterator[tuple[int, tuple[int, int, _Item]]]:
        job, assignment = shared.value
        for assigned in items:
            for partition, split in assigned:
                try:
                    for bucket, blob in scan_split(job.partitions[partition], split, job.secret):
                        yield assignment.bucket_task[partition, bucket], (partition, bucket, blob)
                except (WinnowError, OSError) as error:
                    yield assignment.bucket_task[partition, 0], (partition, _FAILED, failure(error))

    def resolve(items: Iterable[tuple[int, tuple[int, int, _Item]]]) -> Iterator[tuple[int, tuple[int, int, _Kept]]]:
        job, assignment = shared.value
        blobs: dict[tuple[int, int], list[KeyBlob]] = defaultdict(list)
        groups: dict[int, dict[int, int]] = {}
        for _, (partition, bucket, item) in items:
            if isinstance(item, Failure):
                for group in range(len(job.partitions[partition].groups)):
                    yield assignment.group_task[partition, group], (partition, group, item)
            else:
                blobs[partition, bucket].append(item)
        while blobs:
            (partition, _), together = blobs.popitem()
            group_of = groups.setdefault(partition, job.partitions[partition].groups_of_splits())
            for kept in resolve_bucket(together):
                group = group_of[kept.split]
                yield assignment.group_task[partition, group], (partition, group, kept)

    def rewrite(
        task: int, items: Iterable[tuple[int, tuple[int, int, _Kept]]]
    ) -> Iterator[tuple[tuple[int, int], Outcome]]:
        job, assignment = shared.value
        kept: dict[tuple[int, int], list[Survivors]] = defaultdict(list)
        failed: dict[tuple[int, int], Failure] = {}
        for _, (partition, group, item) in items:
            if isinstance(item, Failure):
                failed[partition, group] = item
            else:
                kept[partition, group].append(item)
        for at in sorted(group for group, where in assignment.group_task.items() if where == task):
            partition, group = at
            if at in failed:
                yield at, failed[at]
                continue
            try:
                work = job.partitions[partition]
                yield at, rewrite_group(work, work.groups[group], kept.pop(at, []), now=job.now)
            except (WinnowError, OSError) as error:
                yield at, failure(error)

    stages = (
        sc.parallelize(splits, assignment.scan_tasks)
        .mapPartitions(scan)
        .partitionBy(assignment.resolve_tasks, int)
        .mapPartitions(resolve)
        .partitionBy(assignment.rewrite_tasks, int)
        .mapPartitionsWithIndex(rewrite)
    )
    try:
        outcomes = dict(stages.collect())
    finally:
        shared.unpersist()
    return [
        [outcomes[number, group] for group in range(len(partition.groups))]
        for number, partition in enumerate(job.partitions)
    ]


def failure(error: Exception) -> Failure:
    return Failure(str(error), error.exit_code if isinstance(error, WinnowError) else 3)


def _assign(job: CompactionJob, parallelism: int) -> _Assignment:
    splits, buckets, groups = {}, {}, {}
    for number, partition in enumerate(job.partitions):
        for at, split in enumerate(partition.splits):
            splits[number, at] = split.end - split.start
        records = sum(split.records for split in partition.splits)
        for bucket in range(partition.buckets):
            buckets[number, bucket] = records // partition.buckets
        for at, group in enumerate(partition.groups):
            groups[number, at] = sum(segment.log_bytes for segment in group.segments)
    scan_tasks = task_count(sum(splits.values()), per_task=SPLIT_BYTES, items=len(splits), parallelism=parallelism)
    resolve_tasks = task_count(
        sum(buckets.values()), per_task=BUCKET_RECORDS, items=len(buckets), parallelism=parallelism
    )
    rewrite_tasks = task_count(sum(groups.values()), per_task=_REWRITE_BYTES, items=len(groups), parallelism=parallelism)
    return _Assignment(
        split_task=_spread(splits, scan_tasks),
        bucket_task=_spread(buckets, resolve_tasks),
        group_task=_spread(groups, rewrite_tasks),
        scan_tasks=scan_tasks,
        resolve_tasks=resolve_tasks,
        rewrite_tasks=rewrite_tasks,
    )


def _spread(weights: dict[tuple[int, int], int], tasks: int) -> dict[tuple[int, int], int]:
    return dict(zip(weights, pack(list(weights.values()), tasks=tasks), strict=True))


def _by_task(placed: dict[tuple[int, int], int], tasks: int) -> Sequence[list[tuple[int, int]]]:
    lists: list[list[tuple[int, int]]] = [[] for _ in range(tasks)]
    for item, task in sorted(placed.items()):
        lists[task].append(item)
    return lists
