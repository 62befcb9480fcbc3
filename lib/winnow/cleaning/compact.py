"""Compact partitions and commit them. Where there is space, one Spark job compacts several
partitions. Where there is not, several jobs compact one partition, some groups at a time
(docs/decisions/0012). A commit that has begun is always finished.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from winnow.cleaning.commit.commit import (
    begin_round,
    commit_cleaner_checkpoint,
    commit_groups,
    kept_by,
)
from winnow.cleaning.commit.retention import retain_from, state_now
from winnow.cleaning.commit.several import commit_several
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.rounds import Round
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.cleaning.rewrite.compaction import Outcome, run_compaction
from winnow.cleaning.rewrite.rewrite import RewrittenGroup
from winnow.cleaning.space import Room, fitting, no_space, room_for, within
from winnow.cleaning.summaries.store import UniqueKeys, record
from winnow.clock import ms_since
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, WinnowError
from winnow.logdir.commit.journal import leave_journal, with_staged
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import StagedGroup
from winnow.policy.decide import retention_reason
from winnow.policy.retention import retention_plan
from winnow.runtime.failed_job import each_survived, failed_job
from winnow.runtime.failure import Failure, all_or_failure, failure
from winnow.scan.job import CompactionJob, PartitionJob
from winnow.storage.contract import Remembered
from winnow.storage.places import learn
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

NOT_BEGUN = Failure("not started: another partition is damaged", WinnowError.exit_code)


@dataclass(slots=True)
class Run:
    """What all jobs of a run share."""

    sc: SparkContext
    request: Request
    run_id: str
    peak_bytes: int = 0
    """Maximal bytes staged at one time so far, indexes included."""
    kept_bytes: int = 0
    """Bytes staged so far, if replaced files are kept: their space is not freed."""

    def room(self) -> Room:
        """Return the room that there is now. Call this while nothing is staged."""
        return room_for(self.request, held=self.kept_bytes)


def compact(run: Run, rounds: Sequence[Round]) -> list[PartitionResult]:
    """Compact the rounds and return one result for each. Several must fit on disk together."""
    request = run.request
    if request.stop.reason is not None:
        return [report.stopped(round_.item, request.stop.reason) for round_ in rounds]
    if len(rounds) == 1:
        return [_in_waves(run, rounds[0])]
    staged = _stage(run, rounds)
    return commit_several(
        [partial(_commit, run, [], *one) for one in zip(rounds, staged, strict=True)],
        [round_.job.directory for round_ in rounds],
        most_segments=max(len(round_.item.state.segments) for round_ in rounds),
        done=partial(request.progress.advance, 1),
    )


def _in_waves(run: Run, round_: Round) -> PartitionResult:
    """Compact the groups that there is room for, commit this wave, and go on."""
    job, done, storage = round_.job, list[RewrittenGroup](), run.request.storage
    while True:
        part = _next_part(run, job, len(done))
        wave = part if isinstance(part, Failure) else _stage(run, [replace(round_, job=part)])[0]
        if isinstance(wave, Failure) or len(done) + len(wave) == len(job.groups):
            return _commit(run, done, round_, wave)
        began = time.monotonic()
        try:
            round_ = _begin(run, round_, wave)
        except FAILS_ONE_PARTITION as error:
            return _given_up(run, round_, done, failure(error))
        try:
            commit_groups(storage, job.directory, _staged(wave))
            leave_journal(storage, job.staging)
        except FAILS_ONE_PARTITION as error:  # the journal remains: the next run continues
            return report.interrupted(round_.item, failure(error))
        done += wave
        round_ = replace(round_, commits_ms=round_.commits_ms + ms_since(began))


def _next_part(run: Run, job: PartitionJob, first: int) -> PartitionJob | Failure:
    """Return the next groups that fit. With `keep_replaced`, a commit frees no space for a later
    wave: all groups must fit together.
    """
    room = run.room().at(job.directory)
    count = fitting(job.groups[first:], room)
    if count and not (run.request.keep_replaced and count < len(job.groups)):
        return job.part(first, count)
    return no_space(job.groups[first].most_bytes, room, run.request)


def _stage(run: Run, rounds: Sequence[Round]) -> list[list[RewrittenGroup] | Failure]:
    """Stage the groups of each round. Return them in ascending order, or why staging failed."""
    request = run.request
    failures = [None if round_.begun else _make_staging(round_.job, request) for round_ in rounds]
    jobs = [round_.job for round_, why in zip(rounds, failures, strict=True) if why is None]
    outcomes = iter(_outcomes(run, within(jobs, run.room())))
    staged = [why or all_or_failure(next(outcomes)) for why in failures]
    damaged = any(
        isinstance(groups, Failure) and groups.exit_code == CorruptLogError.exit_code
        for groups in staged
    )
    if request.on_corrupt == "fail" and damaged:
        return [groups if isinstance(groups, Failure) else NOT_BEGUN for groups in staged]
    return staged


def _make_staging(job: PartitionJob, request: Request) -> Failure | None:
    """Create the staging directory on the driver: no task that outlives its job may do it."""
    try:
        request.storage.mkdir(job.staging)
    except FAILS_ONE_PARTITION as error:
        return failure(error)
    return None


def _outcomes(run: Run, jobs: Sequence[PartitionJob]) -> list[list[Outcome]]:
    """Return the outcomes of each partition's groups; failures if the job fails or is cancelled."""
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
    total = len(jobs) if len(jobs) > 1 else None
    run.request.progress.stage(f"committing {counted(len(jobs), 'partition')}", total_tasks=total)
    staged = sum(
        o.bytes_staged for groups in outcomes for o in groups if isinstance(o, RewrittenGroup)
    )
    run.peak_bytes = max(run.peak_bytes, run.kept_bytes + staged)
    if run.request.keep_replaced:
        run.kept_bytes += staged
    return outcomes


def _begin(run: Run, round_: Round, wave: Sequence[RewrittenGroup]) -> Round:
    """Write the journal before these groups are put in place."""
    storage, job = run.request.storage, round_.job
    for group in _staged(wave):
        learn(job.staging, map(Remembered, group.entries.values()))
    unchanged = [group.base_offset for group in wave if group.unchanged]
    journal = with_staged(storage, round_.journal, _staged(wave), unchanged)
    begin_round(storage, job.directory, job.staging, journal, [group.sources for group in wave])
    return replace(round_, journal=journal, begun=True)


def _staged(wave: Sequence[RewrittenGroup]) -> list[StagedGroup]:
    return [group.staged for group in wave if group.staged is not None]


def _commit(
    run: Run,
    done: Sequence[RewrittenGroup],
    round_: Round,
    wave: Sequence[RewrittenGroup] | Failure,
) -> PartitionResult:
    """Commit the last groups of a round, then raise the checkpoint and apply retention. `wave`: a
    failure if they were not staged. Once a stop was requested, it explains every failure.
    """
    item, job, request = round_.item, round_.job, run.request
    stopped = request.stop.reason
    if stopped is not None or isinstance(wave, Failure):
        why = wave if isinstance(wave, Failure) else Failure("stopped", WinnowError.exit_code)
        return _given_up(run, round_, done, why, stopped=stopped)
    began = time.monotonic()
    try:
        with kept_by(
            request, item.state, run_id=run.run_id, cleaner_checkpoint_after=job.end_offset
        ):
            try:
                _begin(run, round_, wave)
            except FAILS_ONE_PARTITION as error:
                return _given_up(run, round_, done, failure(error))
            commit_groups(request.storage, job.directory, _staged(wave))
            commit_cleaner_checkpoint(
                request.storage, item.place.log_dir, {item.place.topic_partition: job.end_offset}
            )
            remove_staging(request.storage, job.staging)
            if job.summaries is not None:
                _sum_up(job, job.summaries, (*done, *wave))
            placed = [group.segment for group in (*done, *wave) if group.segment is not None]
            cleaned = replace(state_now(item, placed), cleaner_checkpoint=job.end_offset)
            plan = (
                None
                if request.only == "compaction"
                else retention_plan(cleaned, item.config, request.now)
            )
            words = retention_reason(cleaned, item.config, request.now, plan).words
            after = retain_from(item, cleaned, plan, request)
    except FAILS_ONE_PARTITION as error:  # the journal remains: the next run continues
        return report.interrupted(item, failure(error))
    groups = [*done, *wave]
    return report.done(
        item,
        after=after,
        groups=groups,
        retention=plan,
        first_dirty_offset=max(job.end_offset, after.log_start_offset),
        now=request.now,
        duration_ms=_took_ms(round_, groups) + ms_since(began),
        afterwards=words,
    )


def _sum_up(job: PartitionJob, place: str, groups: Sequence[RewrittenGroup]) -> None:
    """Keep what is known now of the segments of a round, all of which are in place."""
    bases = [group.base_offset for group in groups]
    record(
        place,
        job.directory,
        [group.summary for group in groups if group.summary is not None],
        unique=UniqueKeys.of(job.directory, job.end_offset, bases) if job.unique_keys else None,
    )


def _took_ms(round_: Round, groups: Sequence[RewrittenGroup]) -> int:
    """Return the time spent on rewriting these groups and on the commits so far."""
    return round_.commits_ms + sum(group.duration_ms for group in groups)


def _given_up(
    run: Run,
    round_: Round,
    done: Sequence[RewrittenGroup],
    why: Failure,
    *,
    stopped: str | None = None,
) -> PartitionResult:
    _discard_staging(round_.job, run.request)
    item = round_.item
    words = why.message if stopped is None else f"the run was stopped, {stopped}"
    result = report.failed(item, why) if stopped is None else report.stopped(item, stopped)
    if not done:
        return result
    try:
        after = state_now(item)
    except FAILS_ONE_PARTITION as error:
        return report.interrupted(item, failure(error))
    partly = report.partly(
        item,
        words,
        after=after,
        done=done,
        groups=len(round_.job.groups),
        duration_ms=_took_ms(round_, done),
    )
    return replace(partly, error=result.error, error_code=result.error_code)


def _discard_staging(job: PartitionJob, request: Request) -> None:
    """Try to remove the staging directory. A failure is only logged, because the next run removes
    it (S6.3) and the first error must be reported.
    """
    try:
        remove_staging(request.storage, job.staging)
    except FAILS_ONE_PARTITION as error:
        known = isinstance(error, WinnowError | OSError)
        _log.warning("could not remove %s: %s", job.staging, error, exc_info=not known)
