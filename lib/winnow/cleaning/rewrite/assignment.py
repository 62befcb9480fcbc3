"""Assign the work of one compaction job to tasks before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.runtime.cores import Cores
from winnow.runtime.packing import ITEM_BYTES, left_over, packed, task_count
from winnow.scan.job import BUCKET_RECORDS, CompactionJob

_SCAN_BYTES = 2**28
_REWRITE_BYTES = 2**30
"""Maximal log bytes of a task, if there are more tasks than cores."""
_REWRITE_WORTH = 2**28
"""Log bytes that a task must have before a core gets more than one. A segment is synced and read
back while the same task writes the next one, and nothing does so between two tasks. This is for
one machine, where idle cores help with a segment. Elsewhere only other tasks keep them busy.
"""
_RESOLVED_BY_REWRITE = 2**19
"""Maximal records of a partition without a resolve task. One task rewrites all of its groups, and
resolves its prefetched keys as well: starting a stage for them would take longer than the work.
"""
_SPOOLED_BUCKETS = 16
"""Maximal buckets of a task: with few keys, a bucket takes less time than a task costs."""

At = tuple[int, int]
"""Number of a partition in the job, and of a split, bucket or group in the partition."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which task does what."""

    scans: list[list[At]]
    """The splits of each scan task: those without prefetched keys."""
    resolved_by_rewrite: frozenset[int]
    """Partitions that have no resolve task, see `_RESOLVED_BY_REWRITE`."""
    buckets: list[list[At]]
    """The buckets of each resolve task; `bucket_task`: the task of each. Empty if there is none."""
    groups: list[list[At]]
    """The groups of each rewrite task; `group_task`: the task of each."""
    bucket_task: dict[At, int]
    group_task: dict[At, int]
    cores: Cores | None
    """Shared among the rewrites, if any is `helped`."""
    helped: frozenset[int]
    """Rewrite tasks that end when other cores are idle, which then help with their groups."""
    pieces: dict[At, int]
    """The number of each split among all, for progress."""


def assign(job: CompactionJob, parallelism: int, spool: str | None) -> Assignment:
    """Assign all work to tasks. `parallelism`: cores. `spool`: see `winnow.runtime.spool`."""
    pieces: dict[At, int] = {}
    splits, rewrites = dict[At, int](), dict[At, int]()
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

    def in_tasks(costs: dict[At, int], total: int, per_task: int, worth: int = 0) -> list[list[At]]:
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
    buckets = {
        (number, bucket): partition.records // partition.buckets
        for number, partition in enumerate(job.partitions)
        if number not in by_rewrite
        for bucket in range(partition.buckets)
    }
    most_records = (1 if spool is None else _SPOOLED_BUCKETS) * BUCKET_RECORDS
    by_task = in_tasks(buckets, sum(buckets.values()), most_records, BUCKET_RECORDS)
    loads = [sum(rewrites[at] for at in task) for task in groups]
    helped = [] if spool is None else left_over(loads, cores=parallelism)
    return Assignment(
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
