"""Compact partitions and commit them. Where there is space, one Spark job compacts several
partitions. Where there is not, several jobs compact one partition, some groups at a time
(docs/decisions/0012). A commit that has begun is always finished.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from winnow.cleaning.commit.commit import (
    begin_round,
    commit_cleaner_checkpoint,
    commit_groups,
    commit_several,
    kept_by,
)
from winnow.cleaning.commit.retention import retain_from, state_now
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.rounds import Round
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.compaction import Outcome, compact_each
from winnow.cleaning.space import Room, fitting, no_space, room_for, within
from winnow.cleaning.summaries.store import UniqueKeys, record
from winnow.clock import ms_since
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, WinnowError
from winnow.logdir.commit.journal import leave_journal, with_staged
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import StagedGroup
from winnow.runtime.cancel import attempted
from winnow.runtime.failure import Failure, all_or_failure, failure
from winnow.scan.job import PartitionJob
from winnow.storage.contract import Remembered
from winnow.storage.places import Places
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

NOT_BEGUN = Failure("not started: another partition is damaged", WinnowError.exit_code)


@dataclass(slots=True)
class Run:
    """What all jobs of a run share, and what became of the partitions so far, by number."""

    sc: SparkContext
    request: Request
    results: dict[int, PartitionResult] = field(default_factory=dict)
    tight: dict[int, Round] = field(default_factory=dict)
    """Rounds to compact last, when everything else has made room."""
    split: set[int] = field(default_factory=set)
    """Partitions of which segments were split first."""
    peak_bytes: int = 0
    """Maximal bytes written beside the logs at one time so far, indexes included."""
    kept_bytes: int = 0
    """Bytes staged so far, if replaced files are kept: their space is not freed."""

    def room(self) -> Room:
        """Return the room that there is now. Call this while nothing is staged."""
        return room_for(self.request, held=self.kept_bytes)

    def ends(self) -> bool:
        """Whether `--on-corrupt=fail` ends the run: reading records has found damage."""
        return self.request.on_corrupt == "fail" and any(
            result.error is not None and result.error_code == CorruptLogError.exit_code
            for result in self.results.values()
        )


def compact(run: Run, rounds: Sequence[Round]) -> list[PartitionResult]:
    """Compact the rounds and return one result for each. Several must fit on disk together."""
    request = run.request
    if request.stop.reason is not None:
        return [report.stopped(round_.item, request.stop.reason) for round_ in rounds]
    if len(rounds) == 1:
        return [_in_waves(run, rounds[0])]
    staged = _stage(run, rounds)
    return commit_several(
        [partial(_commit, run, *one) for one in zip(rounds, staged, strict=True)],
        [round_.job.directory for round_ in rounds],
        request.progress,
        most_segments=max(len(round_.item.state.segments) for round_ in rounds),
    )


def _in_waves(run: Run, round_: Round) -> PartitionResult:
    """Compact the groups that there is room for, commit this wave, and go on."""
    job, storage = round_.job, run.request.storage
    while True:
        part = _next_part(run, job, len(round_.done))
        wave = part if isinstance(part, Failure) else _stage(run, [replace(round_, job=part)])[0]
        if isinstance(wave, Failure) or len(round_.done) + len(wave) == len(job.groups):
            return _commit(run, round_, wave)
        began = time.monotonic()
        try:
            round_ = _begin(run, round_, wave)
        except FAILS_ONE_PARTITION as error:
            return _given_up(run, round_, failure(error))
        try:
            commit_groups(storage, job.directory, _staged(wave))
            leave_journal(storage, job.staging)
        except FAILS_ONE_PARTITION as error:  # the journal remains: the next run continues
            return report.interrupted(round_.item, failure(error))
        commits_ms = round_.commits_ms + ms_since(began)
        round_ = replace(round_, done=(*round_.done, *wave), commits_ms=commits_ms)


def _next_part(run: Run, job: PartitionJob, first: int) -> PartitionJob | Failure:
    """Return the next groups that fit. With `keep_replaced`, a commit frees no space for a later
    wave: all groups must fit together.
    """
    room = run.room().at(job.directory)
    count = fitting(job.groups[first:], room)
    if count and not (run.request.keep_replaced and count < len(job.groups)):
        return job.part(first, count)
    return no_space(job.groups[first].most_bytes, room, run.request)


def _stage(run: Run, rounds: Sequence[Round]) -> list[list[CleanedGroup] | Failure]:
    """Stage the groups of each round. Return them in ascending order, or why staging failed."""
    failures: list[Failure | None] = []
    for round_ in rounds:
        failures.append(None)
        if not round_.begun:
            try:  # on the driver: no task that outlives its job may create the directory
                run.request.storage.mkdir(round_.job.staging)
            except FAILS_ONE_PARTITION as error:
                failures[-1] = failure(error)
    jobs = [round_.job for round_, why in zip(rounds, failures, strict=True) if why is None]
    outcomes = iter(_outcomes(run, within(jobs, run.room())))
    staged = [why or all_or_failure(next(outcomes)) for why in failures]
    if run.request.on_corrupt == "fail" and any(
        isinstance(groups, Failure) and groups.exit_code == CorruptLogError.exit_code
        for groups in staged
    ):
        return [groups if isinstance(groups, Failure) else NOT_BEGUN for groups in staged]
    return staged


def _outcomes(run: Run, jobs: Sequence[PartitionJob]) -> list[list[Outcome]]:
    """Return the outcomes of each partition's groups; failures if the job fails or is cancelled."""
    if not jobs:
        return []
    outcomes = attempted(lambda: compact_each(run.sc, jobs, run.request), run.request.stop)
    if isinstance(outcomes, Failure):
        return [[outcomes] for _ in jobs]
    total = len(jobs) if len(jobs) > 1 else None
    run.request.progress.stage(f"committing {counted(len(jobs), 'partition')}", total_tasks=total)
    staged = sum(
        o.bytes_staged for groups in outcomes for o in groups if isinstance(o, CleanedGroup)
    )
    run.peak_bytes = max(run.peak_bytes, run.kept_bytes + staged)
    if run.request.keep_replaced:
        run.kept_bytes += staged
    return outcomes


def _begin(run: Run, round_: Round, wave: Sequence[CleanedGroup]) -> Round:
    """Write the journal before these groups are put in place."""
    storage, job = run.request.storage, round_.job
    for group in _staged(wave):
        Places().learn(job.staging, map(Remembered, group.entries.values()))
    unchanged = [group.base_offset for group in wave if group.unchanged]
    journal = with_staged(storage, round_.journal, _staged(wave), unchanged)
    sources = [source for group in wave for source in group.sources]
    begin_round(storage, job.directory, job.staging, journal, sources)
    return replace(round_, journal=journal, begun=True)


def _staged(wave: Sequence[CleanedGroup]) -> list[StagedGroup]:
    return [group.staged for group in wave if group.staged is not None]


def _commit(run: Run, round_: Round, wave: Sequence[CleanedGroup] | Failure) -> PartitionResult:
    """Commit the last groups of a round, then raise the checkpoint and apply retention. `wave`: a
    failure if they were not staged.
    """
    item, job, request = round_.item, round_.job, run.request
    if isinstance(wave, Failure):
        return _given_up(run, round_, wave)
    if request.stop.reason is not None:
        return _given_up(run, round_, Failure(request.stop.reason, WinnowError.exit_code))
    began = time.monotonic()
    try:
        with kept_by(request, item.state, cleaner_checkpoint_after=job.end_offset):
            try:
                _begin(run, round_, wave)
            except FAILS_ONE_PARTITION as error:
                return _given_up(run, round_, failure(error))
            commit_groups(request.storage, job.directory, _staged(wave))
            commit_cleaner_checkpoint(
                request.storage, item.place.log_dir, {item.place.topic_partition: job.end_offset}
            )
            remove_staging(request.storage, job.staging)
            round_ = replace(round_, done=(*round_.done, *wave))
            _sum_up(round_)
            placed = [group.segment for group in round_.done]
            cleaned = replace(state_now(item, placed), cleaner_checkpoint=job.end_offset)
            plan, words = item.then_retained(cleaned, request)
            after = retain_from(item, cleaned, plan, request)
    except FAILS_ONE_PARTITION as error:  # the journal remains: the next run continues
        return report.interrupted(item, failure(error))
    return report.done(
        item,
        request,
        after,
        plan,
        duration_ms=round_.duration_ms + ms_since(began),
        groups=round_.done,
        cleaned_to=job.end_offset,
        afterwards=words,
    )


def _sum_up(round_: Round) -> None:
    """Keep what is known now of the segments of a round, all of which are in place."""
    job, bases = round_.job, [group.base_offset for group in round_.done]
    if job.summaries is not None:
        known = [group.summary for group in round_.done if group.summary is not None]
        unique = UniqueKeys.of(job.directory, job.end_offset, bases) if job.unique_keys else None
        record(job.summaries, job.directory, known, unique=unique)


def _given_up(run: Run, round_: Round, why: Failure) -> PartitionResult:
    """Describe a round that ends here. Once a stop was requested, it explains every failure."""
    item, staging = round_.item, round_.job.staging
    try:
        remove_staging(run.request.storage, staging)
    except FAILS_ONE_PARTITION as error:  # the next run removes it (S6.3)
        known = isinstance(error, WinnowError | OSError)
        _log.warning("could not remove %s: %s", staging, error, exc_info=not known)
    result = report.given_up(item, why, run.request.stop)
    if not round_.done:
        return result
    try:
        after = state_now(item)
    except FAILS_ONE_PARTITION as error:
        return report.interrupted(item, failure(error))
    return report.partly(round_, result, after)
