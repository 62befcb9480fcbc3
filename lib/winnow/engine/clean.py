"""Carry out what was decided: retention of what is only deleted from, then compaction in waves, then the retention of
what was compacted (S3.5). The driver does every commit, partition by partition; one that fails never stops the others.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from winnow.engine import report
from winnow.engine.commit import (
    begin_round,
    commit_cleaner_checkpoint,
    commit_groups,
    commit_log_start,
    commit_retention,
)
from winnow.engine.compaction import Failure, Outcome, failure, run_compaction
from winnow.engine.job import CompactionJob, PartitionJob
from winnow.engine.keep import kept_by, kept_bytes
from winnow.engine.prepare import LeftAlone, Prepared, Request, Undertaking
from winnow.engine.progress import Progress
from winnow.engine.result import PartitionResult
from winnow.engine.rewrite import RewrittenGroup
from winnow.engine.rounds import Round, make_round
from winnow.engine.split import split_first
from winnow.engine.survey import list_partition
from winnow.engine.waves import waves
from winnow.errors import CorruptLogError, WinnowError
from winnow.logdir.journal import new_journal
from winnow.logdir.listing import resolve
from winnow.logdir.retain import lags_behind
from winnow.logdir.staging import remove_staging
from winnow.logdir.state import PartitionState
from winnow.policy.plan import CompactionPlan, RetentionPlan
from winnow.policy.retention import retention_plan

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

NOT_BEGUN = Failure("not begun, for another partition was found damaged", WinnowError.exit_code)


def carry_out(
    sc: SparkContext, prepared: Sequence[Prepared], request: Request, *, run_id: str, progress: Progress
) -> list[PartitionResult]:
    """Does what the plans say; one result for each partition, in the order given."""
    results: dict[int, PartitionResult] = {}
    compacted: dict[int, tuple[Undertaking, CompactionPlan]] = {}
    rounds: dict[int, Round] = {}
    split = split_first(sc, prepared, request, run_id=run_id)
    for number, looked_at in enumerate(prepared):
        item = split.get(number, looked_at)
        if isinstance(item, PartitionResult):
            results[number] = item
        elif isinstance(item, LeftAlone):
            results[number] = report.left_alone(item)
        elif request.stop.reason is not None:
            results[number] = report.stopped(item, request.stop.reason)
        elif item.plan.compaction is None:
            results[number] = _retain_only(item, request, run_id=run_id)
        else:
            compacted[number] = item, item.plan.compaction
    # Only now: how much room there is for them depends on what retention has freed.
    for number, (item, plan) in compacted.items():
        made = make_round(item, plan, run_id=run_id)
        if isinstance(made, Failure):
            results[number] = report.failed(item, made)
        else:
            rounds[number] = made
    # The dirtiest first, as a broker picks them (S3.4).
    order = sorted(rounds, key=lambda number: -(rounds[number].item.plan.dirty_ratio or 0.0))
    secret = (secrets.randbits(64), secrets.randbits(64))
    done = 0
    for wave in waves([rounds[number].job for number in order]):
        numbers = order[done : done + len(wave)]
        done += len(wave)
        together = [rounds[number] for number in numbers]
        if _stops(request, results.values()):
            results |= {number: report.failed(rounds[number].item, NOT_BEGUN) for number in numbers}
            continue
        results |= dict(zip(numbers, _compact(sc, together, request, secret, progress, run_id=run_id), strict=True))
    # What was there before is told as it was before a split.
    told = [
        replace(results[number], segments_before=len(item.state.segments))
        if number in split and item.state
        else results[number]
        for number, item in enumerate(prepared)
    ]
    return [
        replace(result, kept_bytes=kept_bytes(request, item.place.directory, run_id=run_id))
        for result, item in zip(told, prepared, strict=True)
    ]


def _stops(request: Request, results: Iterable[PartitionResult]) -> bool:
    """With `fail`: damage was found that no header told of."""
    codes = (result.error_code for result in results if result.error is not None)
    return request.on_corrupt == "fail" and CorruptLogError.exit_code in codes


def _compact(
    sc: SparkContext,
    rounds: Sequence[Round],
    request: Request,
    secret: tuple[int, int],
    progress: Progress,
    *,
    run_id: str,
) -> Iterator[PartitionResult]:
    """One Spark job, then the commit of each of its partitions. A commit that was begun is finished, come what may."""
    if request.stop.reason is not None:
        yield from (report.stopped(made.item, request.stop.reason) for made in rounds)
        return
    unmade = [_make_staging(made.job, request) for made in rounds]
    jobs = tuple(made.job for made, why in zip(rounds, unmade, strict=True) if why is None)
    by_partition = _run(sc, CompactionJob(request.now, secret, jobs), request, progress)
    stops = request.on_corrupt == "fail" and any(
        isinstance(outcome, Failure) and outcome.exit_code == CorruptLogError.exit_code
        for groups in by_partition
        for outcome in groups
    )
    outcomes = iter(by_partition)
    for made, not_made in zip(rounds, unmade, strict=True):
        if not_made is not None:
            yield report.failed(made.item, not_made)
            continue
        groups = next(outcomes)
        why = next((outcome for outcome in groups if isinstance(outcome, Failure)), NOT_BEGUN if stops else None)
        if why is None and request.stop.reason is None:
            yield _commit(
                made, [group for group in groups if isinstance(group, RewrittenGroup)], request, run_id=run_id
            )
            continue
        _discard_staging(made.job, request)
        stopped = request.stop.reason
        yield report.stopped(made.item, stopped) if why is None or stopped else report.failed(made.item, why)


def _make_staging(job: PartitionJob, request: Request) -> Failure | None:
    """Here and not in tasks: one that runs late must not find a place to write to."""
    try:
        request.storage.mkdir(job.staging)
    except OSError as error:
        return failure(error)
    return None


def _run(sc: SparkContext, job: CompactionJob, request: Request, progress: Progress) -> list[list[Outcome]]:
    """The outcomes of each partition's groups; of a job that fails, or was cancelled, nothing is committed."""
    if not job.partitions:
        return []
    try:
        return run_compaction(sc, job, progress)
    except (Py4JError, PySparkException) as error:
        if request.stop.reason is None:
            _log.exception("the Spark job failed")
        what = str(error).strip().partition("\n")[0]
        return [[Failure(f"the Spark job failed: {what}", WinnowError.exit_code)] for _ in job.partitions]


def _commit(made: Round, groups: Sequence[RewrittenGroup], request: Request, *, run_id: str) -> PartitionResult:
    item, job, storage = made.item, made.job, request.storage
    staged = sorted((group.staged for group in groups), key=lambda group: group.base_offset)
    try:
        with kept_by(request, item.state, run_id=run_id):
            try:
                journal = new_journal(
                    storage,
                    run_id=made.run_id,
                    now=request.now,
                    end_offset=job.end_offset,
                    checkpoint_before=item.state.cleaner_checkpoint,
                    groups=staged,
                )
                begin_round(storage, job.directory, job.staging, journal)
            except (WinnowError, OSError) as error:
                _discard_staging(job, request)
                return report.failed(item, failure(error))
            commit_groups(storage, job.directory, staged)
            commit_cleaner_checkpoint(storage, item.place.log_dir, {item.place.topic_partition: job.end_offset})
            remove_staging(storage, job.staging)
            cleaned = replace(_state_now(item), cleaner_checkpoint=job.end_offset)
            plan = None if request.only == "compaction" else retention_plan(cleaned, item.config, request.now)
            after = _retain(item, cleaned, plan, request)
    except (WinnowError, OSError) as error:  # the journal stays: the next run goes on from there
        return report.interrupted(item, failure(error))
    reached = max(job.end_offset, after.log_start_offset)
    return report.done(item, after=after, groups=groups, retention=plan, first_dirty_offset=reached)


def _retain_only(item: Undertaking, request: Request, *, run_id: str) -> PartitionResult:
    plan = item.plan.retention
    try:
        if plan is None:
            after = _retain(item, item.state, plan, request)
        else:
            with kept_by(request, item.state, run_id=run_id):
                after = _retain(item, item.state, plan, request)
        if item.plan.checkpoint_reset is not None:
            # A checkpoint outside of the log is written anew even if nothing is cleaned (S3.2).
            offset = max(item.plan.checkpoint_reset, after.log_start_offset)
            commit_cleaner_checkpoint(request.storage, item.place.log_dir, {item.place.topic_partition: offset})
    except (WinnowError, OSError) as error:
        return report.interrupted(item, failure(error))
    return report.done(item, after=after, groups=(), retention=plan, first_dirty_offset=None)


def _retain(item: Undertaking, state: PartitionState, plan: RetentionPlan | None, request: Request) -> PartitionState:
    """The state afterwards. Side files that an interrupted retention left behind its log catch up with it here."""
    if plan is not None:
        commit_retention(request.storage, state, plan)
    elif _may_follow(item, request) and lags_behind(state):
        commit_log_start(request.storage, state)
    else:
        return state
    return _state_now(item)


def _may_follow(item: Undertaking, request: Request) -> bool:
    """Where a broker would not look at the retention of this log, nothing of it is touched either."""
    if request.only == "compaction" or item.state.trusted_end is not None:
        return False
    return item.config.log_cleaner_enable or not item.config.cleanup_compact


def _state_now(item: Undertaking) -> PartitionState:
    """The partition as it is on the disk now; what the checkpoints said of it at the start still holds."""
    listed = list_partition(item.place)
    state = resolve(
        listed.listing,
        log_dir=item.place.log_dir,
        topic_partition=item.place.topic_partition,
        checkpoints=item.log_dir.checkpoints,
        log_end_offset=item.state.log_end_offset,
        trusted_end=item.place.trusted_end,
    )
    return replace(state, high_watermark=min(state.high_watermark, item.state.high_watermark))


def _discard_staging(job: PartitionJob, request: Request) -> None:
    """What is left of it the next run removes (S6.3); it must not hide why this one failed."""
    try:
        remove_staging(request.storage, job.staging)
    except OSError:
        _log.warning("could not remove %s", job.staging, exc_info=True)
