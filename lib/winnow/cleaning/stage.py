"""Stage: one Spark job scans, resolves, rewrites and verifies. No log is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from winnow.cleaning.plan.ready import ReadyPartition
from winnow.cleaning.request import Request
from winnow.cleaning.rewrite.compaction import Outcome, compact_each
from winnow.cleaning.space import Room, fitting, no_space, within
from winnow.cleaning.staged import StagedPartition
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, WinnowError
from winnow.runtime.cancel import attempted
from winnow.runtime.failure import Failure, all_or_failure, failure
from winnow.scan.job import PartitionJob
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

NOT_BEGUN = Failure("not started: another partition is damaged", WinnowError.exit_code)


def stage(
    sc: SparkContext, partitions: Sequence[ReadyPartition], room: Room, request: Request
) -> tuple[list[StagedPartition | Failure], int]:
    """Stage the partitions in one Spark job. Return for each what is staged, or why nothing is; and
    the temporary space of all, in bytes.

    Several partitions are staged whole, and have to fit together. A single one is staged as far as
    its groups fit.
    """
    jobs: list[PartitionJob | Failure] = [ready.job for ready in partitions]
    if len(partitions) == 1:
        jobs = [_next_part(partitions[0], room, request)]
    for number, ready in enumerate(partitions):
        if not ready.staged.begun and not isinstance(jobs[number], Failure):
            try:  # on the driver: no task that outlives its job may create the directory
                request.storage.mkdir(ready.job.staging)
            except FAILS_ONE_PARTITION as error:
                jobs[number] = failure(error)
    limited = within([job for job in jobs if isinstance(job, PartitionJob)], room)
    outcomes = _outcomes(sc, limited, request)
    staged_bytes = sum(
        group.bytes_staged
        for groups in outcomes
        for group in groups
        if not isinstance(group, Failure)
    )
    left = map(all_or_failure, outcomes)
    found = [job if isinstance(job, Failure) else next(left) for job in jobs]
    if request.on_corrupt == "fail" and any(
        isinstance(groups, Failure) and groups.exit_code == CorruptLogError.exit_code
        for groups in found
    ):
        found = [groups if isinstance(groups, Failure) else NOT_BEGUN for groups in found]
    staged = [
        groups if isinstance(groups, Failure) else replace(ready.staged, groups=tuple(groups))
        for ready, groups in zip(partitions, found, strict=True)
    ]
    return staged, staged_bytes


def _next_part(ready: ReadyPartition, room: Room, request: Request) -> PartitionJob | Failure:
    """Return the next groups that fit. With `frees_nothing`, a commit frees no space for a later
    batch: all groups must fit together.
    """
    job, first = ready.job, len(ready.staged.placed)
    left = room.at(job.directory)
    count = fitting(job.groups[first:], left)
    if count and not (request.frees_nothing and count < len(job.groups)):
        return job.part(first, count)
    return no_space(job.groups[first].most_bytes, left, request)


def _outcomes(
    sc: SparkContext, jobs: Sequence[PartitionJob], request: Request
) -> list[list[Outcome]]:
    """Return the outcomes of each partition's groups; failures if the job fails or is cancelled."""
    if not jobs:
        return []
    outcomes = attempted(lambda: compact_each(sc, jobs, request), request.stop)
    if isinstance(outcomes, Failure):
        return [[outcomes] for _ in jobs]
    total = len(jobs) if len(jobs) > 1 else None
    request.progress.stage(f"committing {counted(len(jobs), 'partition')}", total_tasks=total)
    return outcomes
