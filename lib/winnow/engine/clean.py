"""Carry out what was decided: retention of what is only deleted from, then compaction in waves, then the retention of
what was compacted (S3.5). The driver does every commit, partition by partition; one that fails never stops the others.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from winnow.engine import report
from winnow.engine.commit import commit_cleaner_checkpoint, commit_groups, commit_retention
from winnow.engine.compaction import Failure, failure, run_compaction
from winnow.engine.job import CompactionJob, GroupJob, PartitionJob
from winnow.engine.prepare import LeftAlone, Prepared, Request, Undertaking
from winnow.engine.producers import known_producers
from winnow.engine.progress import Progress
from winnow.engine.result import PartitionResult
from winnow.engine.rewrite import RewrittenGroup
from winnow.engine.survey import list_partition
from winnow.engine.waves import free_bytes, waves
from winnow.errors import WinnowError
from winnow.logdir.listing import resolve
from winnow.logdir.names import STAGING_PREFIX
from winnow.logdir.recovery import remove_staging
from winnow.logdir.state import PartitionState
from winnow.policy.plan import RetentionPlan
from winnow.policy.producers import last_records
from winnow.policy.retention import retention_plan

if TYPE_CHECKING:
    from pyspark import SparkContext

@dataclass(frozen=True, slots=True)
class _Round:
    """A partition, ready to be compacted."""

    item: Undertaking
    job: PartitionJob


def carry_out(
    sc: SparkContext, prepared: Sequence[Prepared], request: Request, *, run_id: str, progress: Progress
) -> list[PartitionResult]:
    """Does what the plans say; one result for each partition, in the order given."""
    results: dict[int, PartitionResult] = {}
    rounds: list[tuple[int, _Round]] = []
    for number, item in enumerate(prepared):
        if isinstance(item, LeftAlone):
            results[number] = report.left_alone(item)
        elif item.plan.compaction is None or item.not_compacted:
            results[number] = _guarded(item, lambda item=item: _retain_only(item, request))
        else:
            made = _round(item, request, run_id)
            if isinstance(made, Failure):
                results[number] = report.failed(item, made)
            else:
                rounds.append((number, made))
    # The dirtiest first, as a broker picks them (S3.4).
    rounds.sort(key=lambda r: -(r[1].item.plan.dirty_ratio or 0.0))
    numbers = {id(r.job): number for number, r in rounds}
    by_job = {id(r.job): r for _, r in rounds}
    secret = (secrets.randbits(64), secrets.randbits(64))
    for wave in waves([r.job for _, r in rounds]):
        together = [by_job[id(job)] for job in wave]
        for made, result in zip(together, _compact(sc, together, request, secret, progress), strict=True):
            results[numbers[id(made.job)]] = result
    return [results[number] for number in range(len(prepared))]


def _guarded(item: Undertaking, work: Callable[[], PartitionResult]) -> PartitionResult:
    try:
        return work()
    except (WinnowError, OSError) as error:
        return report.failed(item, failure(error))


def _retain_only(item: Undertaking, request: Request) -> PartitionResult:
    after, plan = _retain(item, item.state, item.plan.retention, request)
    _reset_checkpoint(item, plan, request)
    return report.done(item, after=after, groups=(), retention=plan, first_dirty_offset=None)


def _reset_checkpoint(item: Undertaking, retention: RetentionPlan | None, request: Request) -> None:
    """A checkpoint outside of the log is written anew even if nothing is cleaned (S3.2)."""
    if item.plan.checkpoint_reset is not None and not item.not_compacted:
        offset = max(item.plan.checkpoint_reset, retention.log_start_offset if retention else 0)
        commit_cleaner_checkpoint(request.storage, item.place.log_dir, {item.place.topic_partition: offset})


def _round(item: Undertaking, request: Request, run_id: str) -> _Round | Failure:
    plan, walks = item.plan.compaction, item.walks
    if plan is None or walks is None:
        message = "a partition without a compaction plan can't be compacted"
        raise ValueError(message)
    state, config = item.state, item.config
    try:
        producers = known_producers(
            request.storage, state, walks, now=request.now, expiration_ms=config.producer_id_expiration_ms
        )
    except OSError as error:
        return failure(error)
    if any(p.current_txn_first_offset is not None for p in producers.producers.values()):
        return Failure("its producer snapshot names an open transaction, which this version does not clean up to yet", 3)
    room = free_bytes(state.directory)
    needed = sum(segment.log_bytes for segment in plan.segments)
    if needed > room:
        return Failure(
            f"not enough space: up to {needed} bytes are written before as many are removed, and {max(room, 0)} are "
            "free. Free some first, for example with `clean --only retention`",
            6,
        )
    splits = tuple(split for walk in walks if walk.base_offset < plan.end_offset for split in walk.splits)
    numbers: dict[int, list[int]] = {}
    for number, split in enumerate(splits):
        numbers.setdefault(split.base_offset, []).append(number)
    groups = tuple(
        GroupJob(group, tuple(n for segment in group for n in numbers.get(segment.base_offset, ())))
        for group in plan.groups
    )
    job = PartitionJob(
        directory=state.directory,
        staging=f"{state.directory}/{STAGING_PREFIX}{run_id}",
        first_dirty_offset=plan.first_dirty_offset,
        end_offset=plan.end_offset,
        delete_retention_ms=config.delete_retention_ms,
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        max_decompressed_bytes=config.max_decompressed_message_bytes,
        last_records=last_records(producers),
        splits=splits,
        groups=groups,
    )
    return _Round(item, job)


def _compact(
    sc: SparkContext, rounds: Sequence[_Round], request: Request, secret: tuple[int, int], progress: Progress
) -> Iterator[PartitionResult]:
    job = CompactionJob(request.now, secret, tuple(made.job for made in rounds))
    try:
        done = run_compaction(sc, job, progress)
    except Py4JError as error:  # the Spark job itself failed: nothing of it was committed
        done = [[failure(error)] for _ in rounds]
    for made, outcomes in zip(rounds, done, strict=True):
        item = made.item
        why = next((outcome for outcome in outcomes if isinstance(outcome, Failure)), None)
        if why is not None:
            remove_staging(request.storage, made.job.staging)
            yield report.failed(item, why)
            continue
        groups = [outcome for outcome in outcomes if isinstance(outcome, RewrittenGroup)]
        yield _guarded(item, lambda made=made, groups=groups: _commit(made, groups, request))


def _commit(made: _Round, groups: Sequence[RewrittenGroup], request: Request) -> PartitionResult:
    item, job, storage = made.item, made.job, request.storage
    commit_groups(storage, job.directory, job.staging, [group.staged for group in groups])
    commit_cleaner_checkpoint(storage, item.place.log_dir, {item.place.topic_partition: job.end_offset})
    cleaned = replace(_state_now(item), cleaner_checkpoint=job.end_offset)
    plan = None if request.only == "compaction" else retention_plan(cleaned, item.config, request.now)
    after, retention = _retain(item, cleaned, plan, request)
    return report.done(
        item,
        after=after,
        groups=groups,
        retention=retention,
        first_dirty_offset=max(job.end_offset, after.log_start_offset),
    )


def _retain(
    item: Undertaking, state: PartitionState, plan: RetentionPlan | None, request: Request
) -> tuple[PartitionState, RetentionPlan | None]:
    if plan is None:
        return state, None
    commit_retention(request.storage, state, plan)
    return _state_now(item), plan


def _state_now(item: Undertaking) -> PartitionState:
    """The partition as it is on the disk now; what the checkpoints said of it at the start still holds."""
    listed = list_partition(item.place)
    return resolve(
        listed.listing,
        log_dir=item.place.log_dir,
        topic_partition=item.place.topic_partition,
        checkpoints=item.log_dir.checkpoints,
        log_end_offset=item.state.log_end_offset,
    )

