"""Estimate what a compaction would keep, by reading all of its records and writing none."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace

from pyspark import SparkContext

from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.rounds import Round
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.cleaning.rewrite.compaction import run_weighing
from winnow.cleaning.rewrite.weigh import WeighedGroup
from winnow.cleaning.space import Room, waves
from winnow.errors import CorruptLogError
from winnow.policy.decide import retention_reason
from winnow.policy.plan import after_round
from winnow.policy.retention import retention_plan
from winnow.runtime.failed_job import each_survived
from winnow.runtime.failure import Failure, all_or_failure
from winnow.runtime.progress import Progress
from winnow.scan.job import CompactionJob, PartitionJob

Weighed = list[WeighedGroup] | Failure
"""The groups of a partition, ascending, or the failure that would prevent its cleaning."""


def weigh(
    sc: SparkContext,
    jobs: Sequence[PartitionJob],
    *,
    now: int,
    progress: Progress,
    secret: tuple[int, int] | None = None,
) -> list[Weighed]:
    """Weigh each job, in as few Spark jobs as their size allows. Nothing is written, so space does
    not matter. `secret`: that of keys which were read before.
    """
    secret = secret or (secrets.randbits(64), secrets.randbits(64))

    def weighed(some: Sequence[PartitionJob]) -> list[list[WeighedGroup | Failure]]:
        return run_weighing(sc, CompactionJob(now, secret, tuple(some)), progress)

    return [
        outcomes if isinstance(outcomes, Failure) else all_or_failure(outcomes)
        for wave in waves(jobs, lambda: Room(None, free=lambda _directory: sys.maxsize))
        for outcomes in each_survived(wave, weighed)
    ]


def estimated(round_: Round, weighed: Weighed, request: Request) -> PartitionResult:
    """Return what `clean` would report for a partition that is compacted, and perhaps deleted from
    afterwards (S3.5).
    """
    item, end = round_.item, round_.job.end_offset
    if isinstance(weighed, Failure):
        mended = (
            request.on_corrupt == "quarantine" and weighed.exit_code == CorruptLogError.exit_code
        )
        return (
            report.previewed(item, now=request.now, only=request.only)
            if mended
            else report.failed(item, weighed)
        )
    after = after_round(item.state, [group.segment for group in weighed], end)
    retention = (
        None if request.only == "compaction" else retention_plan(after, item.config, request.now)
    )
    words = retention_reason(after, item.config, request.now, retention).words
    if retention is not None:
        after = retention.applied_to(after)
    reached = max(end, after.log_start_offset)
    result = report.done(
        item,
        after=after,
        groups=weighed,
        retention=retention,
        first_dirty_offset=reached,
        now=request.now,
        duration_ms=None,
        afterwards=words,
    )
    return replace(result, settings=report.settings_of(item.config))
