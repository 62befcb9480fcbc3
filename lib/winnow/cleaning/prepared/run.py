"""`prepare`: stage a cleaning while the broker runs, for a commit when it is stopped (S8.12).

    read view of each log directory
      -> keep the preparations that still hold, and remove the others
      -> list, plan and stage as `clean` does (`cleaning.clean`)
      -> write what a commit must check (`record`)

No log is changed, and the broker's lock is not taken.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial

from winnow.cleaning.clean import Ending, clean
from winnow.cleaning.in_place import check_in_place
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.cleaning.plan.planning import list_and_plan
from winnow.cleaning.plan.settings import io_rate, with_metadata
from winnow.cleaning.prepared.existing import Existing, existing_in
from winnow.cleaning.prepared.record import ChangedError, record
from winnow.cleaning.prepared.sources import check_readable
from winnow.cleaning.prepared.status import why_not_committed
from winnow.cleaning.prepared.value import RULE
from winnow.cleaning.request import Preparing, Request
from winnow.cleaning.result import NONE, PartitionResult, RunResult
from winnow.cleaning.staged import StagedPartition
from winnow.clock import now_ms
from winnow.errors import FAILS_ONE_PARTITION, UsageError, WinnowError, optional
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.live.alone import alone_on
from winnow.logdir.live.broker import RunningBroker
from winnow.logdir.live.read_view import open_read_views, view_notes
from winnow.logdir.lock import broker_on
from winnow.logdir.meta import was_shut_down_cleanly
from winnow.logdir.names import STAGING_PREFIX
from winnow.logdir.survey import Checkpoints, LogDir, canonical_paths, survey_log_dirs, topics_of
from winnow.runtime.cancel import cancelling_jobs
from winnow.runtime.failure import failure
from winnow.runtime.garbage import seldom_collecting
from winnow.runtime.same_directories import same_directories
from winnow.runtime.session import WithContext
from winnow.runtime.spool import spooling
from winnow.runtime.throttle import limiting_io, limiting_io_beside_brokers
from winnow.state import TopicPartition
from winnow.storage.guarded import status_of
from winnow.storage.live.staging import StagingStorage
from winnow.storage.local import LocalStorage
from winnow.storage.permissions import user_name
from winnow.storage.places import Places
from winnow.storage.urls import is_remote
from winnow.words import counted, instant, size

_STAGING, _LOCAL = StagingStorage(), LocalStorage()


def prepare(spark: WithContext, log_dirs: Sequence[str], request: Request) -> RunResult:
    """Prepare the cleaning of these log directories. Brokers may run on them, stop and start."""
    preparing = request.preparing
    if preparing is None:
        raise ValueError("a request without what a preparation needs")
    check_in_place(log_dirs, on_corrupt=request.on_corrupt)
    preparing.asked.check_again()
    paths = canonical_paths(Places(), log_dirs)
    if remote := [path for path in paths if is_remote(path)]:
        raise UsageError(
            "a preparation is for log directories of this machine",
            expected="directories",
            found=remote[0],
            hint="Use `clean`: no broker runs on it.",
        )
    with ExitStack() as opened:
        for path in paths:
            # Another preparation would remove this one, and an erasure must find all of it.
            opened.enter_context(alone_on(path, needed=True))
        brokers = {path: _running_or_stopped(path) for path in paths}
        staging = f"{STAGING_PREFIX}{request.run_id}"
        opened.enter_context(open_read_views(brokers, staging=staging))
        surveyed = survey_log_dirs(Places(), paths)
        checkpoints = {log_dir.path: log_dir.checkpoints for log_dir in surveyed}
        dirs = [_bounded(log_dir) for log_dir in surveyed]
        check_readable(preparing.asked, _owners(dirs))
        request.check_globs(topics_of(dirs))
        settings, found = with_metadata(request.settings, Places(), dirs, request.stop)
        request = replace(request, settings=settings)
        sc = spark.sparkContext
        rate = io_rate(settings, dirs) if request.throttle is None else request.throttle
        opened.enter_context(seldom_collecting())
        opened.enter_context(same_directories(sc, [d.path for d in dirs]))
        opened.enter_context(cancelling_jobs(sc, request.stop))
        if rate is None:
            opened.enter_context(limiting_io_beside_brokers(sc))
        opened.enter_context(limiting_io(sc, rate))
        request = replace(request, spool=opened.enter_context(spooling(sc)))
        kept = _keep_valid(dirs, request)
        request.progress.stage(f"looking at {counted(len(topics_of(dirs)), 'topic')}")
        planned = list_and_plan(sc, [_without(d, kept) for d in dirs], request)
        done = clean(sc, planned, request, _ending(preparing))
        results = [
            _with_bound(_gone(result), checkpoints[result.log_dir]) for result in done.partitions
        ]
        results += [_held(existing) for existing in kept.values()]
        return RunResult(
            run_id=request.run_id,
            verb="prepare",
            now=request.now,
            partitions=tuple(results),
            notes=(*view_notes(), *settings.notes(), *found),
            peak_extra_bytes=done.peak_bytes,
            kafka=settings.kafka,
        )


def _running_or_stopped(log_dir: str) -> RunningBroker | None:
    """Return the broker that runs. Raises WinnowError if there is none, and the last one was not
    shut down cleanly.
    """
    broker = broker_on(log_dir)
    if broker is None and not was_shut_down_cleanly(Places(), log_dir):
        raise WinnowError(
            "no broker runs on the log directory, and the last one was not shut down cleanly",
            where=log_dir,
            hint="Use `clean`, or prepare while the broker runs. `doctor` says what it would do to "
            "these logs now.",
        )
    return broker


def _bounded(log_dir: LogDir) -> LogDir:
    """Return the log directory with high watermarks that do not exceed the recovery point: what
    lies below it is on the disk, and no recovery rewrites its indexes.
    """
    checkpoints = log_dir.checkpoints
    bounded = {
        at: min(offset, checkpoints.recovery_point.get(at, 0))
        for at, offset in checkpoints.high_watermark.items()
    }
    return replace(log_dir, checkpoints=replace(checkpoints, high_watermark=bounded))


def _with_bound(result: PartitionResult, checkpoints: Checkpoints) -> PartitionResult:
    """Say that the high watermark of a reason is the recovery point, where `_bounded` made it so.

    `checkpoints`: as they are in the log directory.
    """
    at = TopicPartition(result.topic, result.partition)
    flushed = checkpoints.recovery_point.get(at, 0)
    offset = checkpoints.high_watermark.get(at, 0)
    if flushed >= offset or "high watermark" not in result.reason:
        return result
    words = (
        f"{result.reason} (of a preparation: only what is flushed counts, up to the recovery point "
        f"{flushed} in recovery-point-offset-checkpoint; the high watermark is {offset})"
    )
    return replace(result, reason=words)


def _owners(dirs: Sequence[LogDir]) -> set[int]:
    """Return the owners of the partitions. Raise WinnowError unless this user may give all files to
    them. A broker that may not remove a file in a deleted partition shuts down.
    """
    user, owners = os.geteuid(), set[int]()
    for log_dir in dirs:
        for topic_partition in log_dir.partitions:
            directory = f"{log_dir.path}/{topic_partition}"
            owner = status_of(directory).st_uid
            if user not in {0, owner}:
                raise WinnowError(
                    "a preparation must belong to the owner of the partition",
                    expected=f"user {user_name(owner)}, or root",
                    found=f"user {user_name(user)}",
                    where=directory,
                    hint="The broker could not remove the files when it deletes the topic.",
                )
            owners.add(owner)
    return owners


def _keep_valid(
    dirs: Sequence[LogDir], request: Request
) -> dict[tuple[str, TopicPartition], Existing]:
    """Return the preparations that still hold, by partition. Remove all others, those past half of
    their age, and what an interrupted preparation has left.
    """
    kept: dict[tuple[str, TopicPartition], Existing] = {}
    for log_dir in dirs:
        for at in log_dir.partitions:
            if not request.wants(at.topic):
                continue
            with optional(f"the preparations in {log_dir.path}/{at}"):
                for existing in existing_in(_STAGING, log_dir, at):
                    if existing.journal:
                        continue  # a later commit or `clean` looks at it
                    if existing.prepared is not None and not _dropped(existing, request):
                        kept[log_dir.path, at] = replace(existing, beside=(), inside={})
                    else:
                        remove_staging(_STAGING, existing.staging)
    return kept


def _dropped(existing: Existing, request: Request) -> bool:
    prepared = existing.prepared
    if prepared is None or prepared.only != request.only:
        return True
    if 2 * now_ms() > prepared.now + prepared.expires_ms:
        return True  # otherwise it would expire long before the next run of a timer
    return why_not_committed(prepared, existing, request.settings, request.stop) is not None


def _without(log_dir: LogDir, kept: Mapping[tuple[str, TopicPartition], Existing]) -> LogDir:
    left = tuple(at for at in log_dir.partitions if (log_dir.path, at) not in kept)
    return replace(log_dir, partitions=left)


def _ending(preparing: Preparing) -> Ending:
    return Ending(
        retain=partial(_record_retention, preparing=preparing),
        commit=partial(_record, preparing=preparing),
        changes_logs=False,
    )


def _record_retention(
    item: PlannedPartition, request: Request, preparing: Preparing
) -> PartitionResult:
    plan = item.plan.retention
    if plan is None:
        return report.done(item, request, item.state, None, duration_ms=None)
    staging = f"{item.state.directory}/{STAGING_PREFIX}{request.run_id}"
    try:
        request.storage.mkdir(staging)
        record(item, staging, (), request, preparing)
    except FAILS_ONE_PARTITION as error:
        return _not_recorded(item, staging, error, request)
    return report.done(item, request, plan.applied_to(item.state), plan, duration_ms=None)


def _record(
    item: PlannedPartition, staged: StagedPartition, request: Request, preparing: Preparing
) -> PartitionResult:
    try:
        record(item, staged.staging, staged.groups, request, preparing)
    except FAILS_ONE_PARTITION as error:
        return _not_recorded(item, staged.staging, error, request)
    return report.after_commit(
        item,
        staged.groups,
        staged.journal.end_offset,
        request,
        duration_ms=staged.duration_ms + sum(group.duration_ms for group in staged.groups),
    )


def _not_recorded(
    item: PlannedPartition, staging: str, error: Exception, request: Request
) -> PartitionResult:
    with suppress(FAILS_ONE_PARTITION):  # otherwise the next preparation removes it
        remove_staging(request.storage, staging)
    if isinstance(error, ChangedError):
        return _unprepared(report.failed(item, failure(error)), str(error).partition("\n")[0])
    return report.given_up(item, failure(error), request.stop)


def _gone(result: PartitionResult) -> PartitionResult:
    """Return the result of a partition that failed because it went away meanwhile: its topic was
    deleted, or its replica was moved.
    """
    if result.error is None or _LOCAL.exists(f"{result.log_dir}/{result.name}"):
        return result
    return _unprepared(result, "the partition went away while it was being prepared")


def _unprepared(result: PartitionResult, why: str) -> PartitionResult:
    return replace(result, rule=RULE, reason=why, actions=(NONE,), error=None, left_alone=False)


def _held(existing: Existing) -> PartitionResult:
    """Return the result of a partition whose earlier preparation still holds."""
    prepared = existing.prepared
    if prepared is None:
        raise ValueError("a preparation that can't be read was kept")
    before = sum(segment.log_bytes for segment in prepared.segments)
    return PartitionResult(
        topic=existing.topic_partition.topic,
        partition=existing.topic_partition.partition,
        log_dir=existing.log_dir.path,
        policy=None,
        actions=(NONE,),
        rule=RULE,
        reason=f"prepared already at {instant(prepared.taken.wall_ms)}, "
        f"{size(prepared.staged_bytes)} staged: this still holds",
        segments_before=len(prepared.segments),
        segments_after=len(prepared.segments),
        bytes_before=before,
        bytes_after=before,
    )
