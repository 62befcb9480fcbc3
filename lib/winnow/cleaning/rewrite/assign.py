"""Assign the work of a compaction to tasks, on the driver, from sizes."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.runtime.cores import Cores
from winnow.runtime.packing import ITEM_BYTES, left_over, pack, packed, task_count
from winnow.scan.job import BUCKET_RECORDS, CompactionJob

_SCAN_BYTES = 2**28
_REWRITE_BYTES = 2**30
"""Maximal log bytes of a task, if there are more tasks than cores."""
_SPOOLED_BUCKETS = 16
"""Maximal buckets of a task: with few keys, a bucket takes less time than a task costs."""


At = tuple[int, int]
"""Number of a partition in the job, and of a split, bucket or group in the partition."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which task does what."""

    scans: list[list[At]]
    """The splits of each scan task: those without prefetched keys."""
    bucket_task: dict[At, int]
    group_task: dict[At, int]
    resolve_tasks: int
    rewrite_tasks: int
    cores: Cores | None
    """Shared among the rewrites, if any is `helped`."""
    helped: frozenset[int]
    """Rewrite tasks that end when other cores are idle, which then help with their groups."""
    pieces: dict[At, int]
    """The number of each split among all, for progress."""


def assign(job: CompactionJob, parallelism: int, spool: str | None) -> Assignment:
    """Assign all work to tasks. `parallelism`: cores. `spool`: see `winnow.runtime.spool`."""
    pieces: dict[At, int] = {}
    splits, buckets, rewrites, read_bytes = {}, {}, {}, 0
    for number, partition in enumerate(job.partitions):
        for at, split in enumerate(partition.splits):
            pieces[number, at] = len(pieces)
            if split.keys is None:
                splits[number, at] = split.end - split.start
        for bucket in range(partition.buckets):
            buckets[number, bucket] = partition.records // partition.buckets
        for at, group in enumerate(partition.groups):
            read = 0 if group.stays else sum(segment.log_bytes for segment in group.segments)
            read_bytes += read
            # Fewer of the older records survive. The latest groups write the most, so they begin
            # first.
            written = read * (at + 1) // len(partition.groups)
            rewrites[number, at] = read + written + ITEM_BYTES
    scan_tasks = task_count(
        sum(splits.values()), per_task=_SCAN_BYTES, items=len(splits), parallelism=parallelism
    )
    scans = packed([*splits], [size + ITEM_BYTES for size in splits.values()], tasks=scan_tasks)
    resolve_tasks = task_count(
        sum(buckets.values()),
        per_task=(1 if spool is None else _SPOOLED_BUCKETS) * BUCKET_RECORDS,
        items=len(buckets),
        parallelism=parallelism,
        worth=BUCKET_RECORDS,
    )
    rewrite_tasks = task_count(
        read_bytes, per_task=_REWRITE_BYTES, items=len(rewrites), parallelism=parallelism
    )
    group_task = _spread(rewrites, rewrite_tasks)
    helped: list[int] = []
    if spool is not None:
        loads = [0] * rewrite_tasks
        for rewritten, task in group_task.items():
            loads[task] += rewrites[rewritten]
        helped = left_over(loads, cores=parallelism)
    return Assignment(
        scans=scans if splits else [],
        bucket_task=_spread(buckets, resolve_tasks),
        group_task=group_task,
        resolve_tasks=resolve_tasks,
        rewrite_tasks=rewrite_tasks,
        cores=Cores(spool, parallelism) if spool is not None and helped else None,
        helped=frozenset(helped),
        pieces=pieces,
    )


def _spread(weights: dict[At, int], tasks: int) -> dict[At, int]:
    return dict(zip(weights, pack(list(weights.values()), tasks=tasks), strict=True))
