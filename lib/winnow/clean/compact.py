"""Compact partitions and commit them: several in one Spark job where there is room for that, or one
of them in several jobs, some groups at a time (docs/decisions/0012). A commit that was begun is
finished, come what may.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from winnow.clean.commit.commit import (
    begin_round,
    commit_cleaner_checkpoint,
    commit_groups,
    kept_by,
)
from winnow.clean.commit.retention import retain_from, state_now
from winnow.clean.plan import outcomes as report
from winnow.clean.plan.rounds import Round
from winnow.clean.request import Request
from winnow.clean.result import PartitionResult
from winnow.clean.rewrite.compaction import Outcome, run_compaction
from winnow.clean.rewrite.rewrite import RewrittenGroup
from winnow.clean.scan.job import CompactionJob, PartitionJob
from winnow.clean.space import Room, fitting, no_space, room_for, within
from winnow.clock import ms_since
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, WinnowError
from winnow.logdir.commit.journal import leave_journal, with_staged
from winnow.logdir.commit.staging import remove_staging
from winnow.policy.decide import retention_reason
from winnow.policy.retention import retention_plan
from winnow.runtime.failed_job import failed_job
from winnow.runtime.failure import Failure, failure
from winnow.runtime.suspects import each_survived
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

NOT_BEGUN = Failure("not begun, for another partition was found damaged", WinnowError.exit_code)


@dataclass(slots=True)
class Run:
    """What all jobs of a run share."""

    sc: SparkContext
    request: Request
    run_id: str
    peak_bytes: int = 0
    """The most that was staged at once so far, indexes included."""
    kept_bytes: int = 0
    """That were staged so far, if what they replace is kept: these never come back."""

    def room(self) -> Room:
        """As it is now, with nothing staged."""
        return room_for(self.request, held=self.kept_bytes)


def compact(run: Run, rounds: Sequence[Round]) -> list[PartitionResult]:
    """One result for each. Several of them must have room together."""
    request = run.request
    if request.stop.reason is not None:
        return [report.stopped(made.item, request.stop.reason) for made in rounds]
    if len(rounds) == 1:
        return [_in_waves(run, rounds[0])]
    return [
        _not_staged(run, made, [], staged)
        if isinstance(staged, Failure)
        else _commit(run, made, [], staged)
        for made, staged in zip(rounds, _stage(run, rounds), strict=True)
    ]


def _in_waves(run: Run, made: Round) -> PartitionResult:
    """As many groups at a time as there is room for, each wave committed before the next one is
    written.
    """
    job, done, storage = made.job, list[RewrittenGroup](), run.request.storage
    while True:
        part = _next_part(run, job, len(done))
        wave = part if isinstance(part, Failure) else _stage(run, [replace(made, job=part)])[0]
        if isinstance(wave, Failure):
            return _not_staged(run, made, done, wave)
        if len(done) + len(wave) == len(job.groups):
            return _commit(run, made, done, wave)
        began = time.monotonic()
        try:
            made = _begin(run, made, wave)
        except FAILS_ONE_PARTITION as error:
            return _given_up(run, made, done, failure(error))
        try:
            commit_groups(storage, job.directory, [group.staged for group in wave])
            leave_journal(storage, job.staging)
        except FAILS_ONE_PARTITION as error:  # the journal stays: the next run goes on from there
            return report.interrupted(made.item, failure(error))
        done += wave
        made = replace(made, commits_ms=made.commits_ms + ms_since(began))


def _next_part(run: Run, job: PartitionJob, first: int) -> PartitionJob | Failure:
    """What is kept frees nothing for a later wave: all groups or none."""
    room = run.room().at(job.directory)
    count = fitting(job.groups[first:], room)
    if count and not (run.request.keep_replaced and count < len(job.groups)):
        return job.part(first, count)
    return no_space(job.groups[first].most_bytes, room, run.request)


def _stage(run: Run, rounds: Sequence[Round]) -> list[list[RewrittenGroup] | Failure]:
    """The groups of each round's job, ascending, or why they can't be had."""
    request = run.request
    unmade = [None if made.begun else _make_staging(made.job, request) for made in rounds]
    jobs = [made.job for made, why in zip(rounds, unmade, strict=True) if why is None]
    outcomes = iter(_outcomes(run, within(jobs, run.room())))
    staged = [why or _whole(next(outcomes)) for why in unmade]
    damaged = any(
        isinstance(groups, Failure) and groups.exit_code == CorruptLogError.exit_code
        for groups in staged
    )
    if request.on_corrupt == "fail" and damaged:
        return [groups if isinstance(groups, Failure) else NOT_BEGUN for groups in staged]
    return staged


def _make_staging(job: PartitionJob, request: Request) -> Failure | None:
    """Here and not in tasks: one that runs late must not find a place to write to."""
    try:
        request.storage.mkdir(job.staging)
    except FAILS_ONE_PARTITION as error:
        return failure(error)
    return None


def _outcomes(run: Run, jobs: Sequence[PartitionJob]) -> list[list[Outcome]]:
    """The outcomes of each partition's groups; of a job that fails, or was cancelled, nothing is
    committed.
    """
    if not jobs:
        return []

    def compacted(some: Sequence[PartitionJob]) -> list[list[Outcome]]:
        job = CompactionJob(run.request.now, run.request.secret, tuple(some))
        return run_compaction(run.sc, job, run.request.progress)

    try:
        survived = each_survived(jobs, compacted, goes_on=lambda: run.request.stop.reason is None)
    except (Py4JError, PySparkException) as error:
        if run.request.stop.reason is None:
            _log.exception("the Spark job failed")
        return [[failed_job(error)] for _ in jobs]
    outcomes: list[list[Outcome]] = [
        [groups] if isinstance(groups, Failure) else groups for groups in survived
    ]
    run.request.progress.stage(f"committing {counted(len(jobs), 'partition')}")
    staged = sum(
        o.bytes_staged for groups in outcomes for o in groups if isinstance(o, RewrittenGroup)
    )
    run.peak_bytes = max(run.peak_bytes, run.kept_bytes + staged)
    if run.request.keep_replaced:
        run.kept_bytes += staged
    return outcomes


def _whole(outcomes: Sequence[Outcome]) -> list[RewrittenGroup] | Failure:
    why = next((outcome for outcome in outcomes if isinstance(outcome, Failure)), None)
    groups = [outcome for outcome in outcomes if isinstance(outcome, RewrittenGroup)]
    return why or sorted(groups, key=lambda group: group.staged.base_offset)


def _begin(run: Run, made: Round, wave: Sequence[RewrittenGroup]) -> Round:
    """Writes down what is about to be done with these groups."""
    storage, staged = run.request.storage, [group.staged for group in wave]
    journal = with_staged(storage, made.journal, staged)
    begin_round(storage, made.job.directory, made.job.staging, journal, staged)
    return replace(made, journal=journal, begun=True)


def _commit(
    run: Run, made: Round, done: Sequence[RewrittenGroup], wave: Sequence[RewrittenGroup]
) -> PartitionResult:
    """The last groups of a round and what comes after them: checkpoint and retention."""
    item, job, request = made.item, made.job, run.request
    if request.stop.reason is not None:
        return _not_staged(run, made, done, Failure("stopped", WinnowError.exit_code))
    began = time.monotonic()
    try:
        with kept_by(
            request, item.state, run_id=run.run_id, cleaner_checkpoint_after=job.end_offset
        ):
            try:
                _begin(run, made, wave)
            except FAILS_ONE_PARTITION as error:
                return _given_up(run, made, done, failure(error))
            commit_groups(request.storage, job.directory, [group.staged for group in wave])
            commit_cleaner_checkpoint(
                request.storage, item.place.log_dir, {item.place.topic_partition: job.end_offset}
            )
            remove_staging(request.storage, job.staging)
            cleaned = replace(state_now(item), cleaner_checkpoint=job.end_offset)
            plan = (
                None
                if request.only == "compaction"
                else retention_plan(cleaned, item.config, request.now)
            )
            words = retention_reason(cleaned, item.config, request.now, plan).words
            after = retain_from(item, cleaned, plan, request)
    except FAILS_ONE_PARTITION as error:  # the journal stays: the next run goes on from there
        return report.interrupted(item, failure(error))
    groups = [*done, *wave]
    return report.done(
        item,
        after=after,
        groups=groups,
        retention=plan,
        first_dirty_offset=max(job.end_offset, after.log_start_offset),
        now=request.now,
        duration_ms=_took_ms(made, groups) + ms_since(began),
        afterwards=words,
    )


def _took_ms(made: Round, groups: Sequence[RewrittenGroup]) -> int:
    """The rewriting of these groups, and the commits so far."""
    return made.commits_ms + sum(group.duration_ms for group in groups)


def _not_staged(
    run: Run, made: Round, done: Sequence[RewrittenGroup], why: Failure
) -> PartitionResult:
    """Whatever failed after the run was to end has no other reason."""
    return _given_up(run, made, done, why, stopped=run.request.stop.reason)


def _given_up(
    run: Run,
    made: Round,
    done: Sequence[RewrittenGroup],
    why: Failure,
    *,
    stopped: str | None = None,
) -> PartitionResult:
    _discard_staging(made.job, run.request)
    item, told = made.item, why.message if stopped is None else f"the run was stopped, {stopped}"
    result = report.failed(item, why) if stopped is None else report.stopped(item, stopped)
    if not done:
        return result
    try:
        after = state_now(item)
    except FAILS_ONE_PARTITION as error:
        return report.interrupted(item, failure(error))
    partly = report.partly(
        item,
        told,
        after=after,
        done=done,
        groups=len(made.job.groups),
        duration_ms=_took_ms(made, done),
    )
    return replace(partly, error=result.error, error_code=result.error_code)


def _discard_staging(job: PartitionJob, request: Request) -> None:
    """What is left of it the next run removes (S6.3); it must not hide why this one failed."""
    try:
        remove_staging(request.storage, job.staging)
    except FAILS_ONE_PARTITION:
        _log.warning("could not remove %s", job.staging, exc_info=True)
