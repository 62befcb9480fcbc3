"""Recover log directories after an unclean shutdown: plan in Spark tasks, change on the driver.

Each partition is read and planned by a task. The driver, which holds the lock, applies the plans.
Then it writes the checkpoints, and last the marker of a clean shutdown (S8.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from winnow.cleaning.plan.settings import with_metadata
from winnow.cleaning.run import new_run_id
from winnow.errors import FAILS_ONE_PARTITION, NO_SPACE, UsageError, failure_of
from winnow.logdir.commit.recovery import preview, recover
from winnow.logdir.commit.roll_forward import put_right
from winnow.logdir.commit.truncation import LogCut, RemovedSegment, truncate_log
from winnow.logdir.lock import locked
from winnow.logdir.names import (
    LOG,
    METADATA_TOPIC,
    REMOTE_INDEX_CACHE,
    DirectoryKind,
    parse_partition_dir,
)
from winnow.logdir.survey import LogDir
from winnow.logdir.topic_globs import is_wanted
from winnow.policy.sources import Unknown, parse_topic_set
from winnow.recovery.logs.finish import finish_log_dir
from winnow.recovery.logs.loader import load_log
from winnow.recovery.logs.values import (
    LoadedLog,
    LogToLoad,
    RecoveredDir,
    RecoveredLog,
    TruncateRequest,
    TruncateResult,
)
from winnow.runtime.failure import Failure, failure
from winnow.runtime.garbage import seldom_collecting
from winnow.runtime.packing import in_order
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.same_directories import same_directories
from winnow.runtime.session import WithContext
from winnow.runtime.spread import spread
from winnow.storage.contract import Storage
from winnow.storage.places import Places
from winnow.storage.urls import is_remote
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_ROUND_BYTES = 32 << 30
"""Logs of about this many bytes are planned before their plans are applied: a plan holds the new
indexes, some thousandths of the log.
"""
_WRITERS = 8
"""Threads that apply plans. They wait for the disk."""

_Planned = LoadedLog | str
"""The plan, or why there is none."""
PlanAll = Callable[[Sequence[LogToLoad]], Sequence[_Planned]]


def recover_unclean(
    spark: WithContext,
    log_dirs: Sequence[str],
    request: TruncateRequest,
    *,
    progress: Progress | None = None,
) -> TruncateResult:
    """Plan the recovery of these log directories; with `request.truncate`, carry it out.

    Directories with the marker of a clean shutdown are left alone. Raises UsageError for what is
    not a local log directory, and LogDirInUseError if a broker runs on one.
    """
    for path in log_dirs:
        if is_remote(path):
            raise UsageError(
                "only local log directories can be recovered after an unclean shutdown",
                found=path,
                hint="Kafka runs on local directories. Copy it there first.",
            )
    run_id = new_run_id()
    storage = Places()
    sc = spark.sparkContext
    with (
        locked(log_dirs, to_change=request.truncate) as dirs,
        same_directories(sc, [log_dir.path for log_dir in dirs]),
        seldom_collecting(),
    ):
        settings, notes = with_metadata(request.settings, storage, dirs)
        request = replace(request, settings=settings)
        plan = partial(_plan_all, sc)
        done = [
            recover_dir(storage, log_dir, request, run_id=run_id, plan=plan, progress=progress)
            for log_dir in dirs
            if not log_dir.clean_shutdown
        ]
    return TruncateResult(
        run_id=run_id,
        truncated=request.truncate,
        log_dirs=tuple(done),
        clean=tuple(log_dir.path for log_dir in dirs if log_dir.clean_shutdown),
        kafka=settings.kafka,
        notes=(*settings.notes(), *notes),
    )


def recover_dir(
    storage: Storage,
    log_dir: LogDir,
    request: TruncateRequest,
    *,
    run_id: str,
    plan: PlanAll | None = None,
    progress: Progress | None = None,
    writers: int = _WRITERS,
) -> RecoveredDir:
    """Recover one log directory, whose lock the caller holds. `plan` defaults to this process."""
    progress = progress or Silence()
    plan = plan or (lambda some: [_plan_one(log) for log in some])
    if log_dir.error is not None:
        return RecoveredDir(path=log_dir.path, logs=(), error=failure_of(log_dir.error))
    try:
        places, left_out = places_of(storage, log_dir, request)
    except FAILS_ONE_PARTITION as error:
        return RecoveredDir(path=log_dir.path, logs=(), error=failure_of(error))
    progress.stage(f"recovering {len(places)} logs in {log_dir.path}", total_tasks=len(places))
    logs: list[RecoveredLog] = []
    for some in in_order(places, lambda log: log.bytes, _ROUND_BYTES):
        ready = [_put_right(storage, log, request) for log in some]
        planned = iter(plan([log for log, error in zip(some, ready, strict=True) if not error]))
        work = [(log, error or next(planned)) for log, error in zip(some, ready, strict=True)]
        done = _apply_all(storage, work, request=request, run_id=run_id, writers=writers)
        logs += done
        progress.advance(len(done))
    logs.sort(key=lambda log: log.name)
    whole = not left_out and all(log.error is None for log in logs)
    result = RecoveredDir(path=log_dir.path, logs=tuple(logs), left_out=left_out)
    if not request.truncate:
        return result
    try:
        finish_log_dir(storage, log_dir, logs, whole=whole)
    except FAILS_ONE_PARTITION as error:
        return replace(result, error=failure(error).message)
    return replace(result, marked=whole)


def _plan_all(sc: SparkContext, logs: Sequence[LogToLoad]) -> list[_Planned]:
    planned = spread(
        sc,
        _plan_one,
        logs,
        weights=[log.bytes for log in logs],
        name=f"planning the recovery of {counted(len(logs), 'log')}",
        progress=Silence(),
    )
    return [one.message if isinstance(one, Failure) else one for one in planned]


def _plan_one(log: LogToLoad) -> _Planned:
    if isinstance(log.config, Unknown):
        return log.config.reason
    try:
        return load_log(Places(), log, log.config)
    except FAILS_ONE_PARTITION as error:
        return failure_of(error)


def _put_right(storage: Storage, log: LogToLoad, request: TruncateRequest) -> str | None:
    """Finish or roll back what an interrupted cleaning left. Return why that is impossible."""
    try:
        if log.error is not None:
            return log.error
        if not request.truncate:
            preview(storage, log.directory)
        elif log.kind is DirectoryKind.CURRENT and log.name == str(log.topic_partition):
            put_right(storage, log.log_dir, log.topic_partition, finish=False)
        else:
            recover(storage, log.directory)
    except FAILS_ONE_PARTITION as error:
        return failure_of(error)
    return None


def _apply_all(
    storage: Storage,
    work: Sequence[tuple[LogToLoad, _Planned]],
    *,
    request: TruncateRequest,
    run_id: str,
    writers: int,
) -> list[RecoveredLog]:
    """Apply plans, those that cut most first: on a full disk they free space for the others. A log
    that found too little is planned and tried once more.
    """
    apply = partial(_apply, storage, request=request, run_id=run_id)
    ordered = sorted(work, key=lambda one: -_cut_bytes(one[1]))
    with ThreadPoolExecutor(writers) as pool:
        first = list(pool.map(apply, ordered) if writers > 1 else map(apply, ordered))
    done = []
    for (log, _), outcome in zip(ordered, first, strict=True):
        if outcome.is_short_of_space:
            error = _put_right(storage, log, request)
            again = apply((log, error or _plan_one(log)))
            done.append(
                replace(
                    again,
                    cuts=(*outcome.cuts, *again.cuts),
                    removed=(*outcome.removed, *again.removed),
                )
            )
        else:
            done.append(outcome)
    return done


def _cut_bytes(planned: _Planned) -> int:
    return 0 if isinstance(planned, str) else planned.truncation.cut_bytes


def _apply(
    storage: Storage, work: tuple[LogToLoad, _Planned], *, request: TruncateRequest, run_id: str
) -> RecoveredLog:
    log, planned = work
    outcome = RecoveredLog(
        name=log.name,
        topic_partition=log.topic_partition,
        is_counted=log.kind is not DirectoryKind.STRAY,
    )
    if isinstance(planned, str):
        return replace(outcome, error=planned)
    change = planned.truncation
    outcome = replace(outcome, loaded=planned)
    if not request.truncate or not change:
        return replace(outcome, cuts=change.cuts, removed=change.removed)
    made: list[LogCut | RemovedSegment] = []
    try:
        kept = truncate_log(
            storage,
            log.directory,
            change,
            run_id=run_id,
            keep_cut=request.keep_cut,
            on_cut=made.append,
        )
        outcome = replace(outcome, kept=kept)
    except OSError as error:
        full = error.errno in NO_SPACE
        hint = ". Free some space" if full else ""
        if full and request.keep_cut:
            hint += ", or do not keep what is cut: --discard-cut"
        outcome = replace(outcome, error=f"{failure_of(error)}{hint}", is_short_of_space=full)
    except FAILS_ONE_PARTITION as error:
        outcome = replace(outcome, error=failure_of(error))
    return replace(
        outcome,
        cuts=tuple(one for one in change.cuts if one in made),
        removed=tuple(one for one in change.removed if one in made),
    )


_ANY_POLICY = "*:cleanup.policy=compact"
"""Recovery does not depend on the policy, so a topic whose policy is unknown is recovered too."""


def places_of(
    storage: Storage, log_dir: LogDir, request: TruncateRequest
) -> tuple[list[LogToLoad], int]:
    """Return the logs to recover, and how many `request.topics` leaves out.

    Replicas that are being moved, and stray ones, are recovered as well: the marker is for all logs
    of the directory. A deleted log is not: a broker does not recover it either. Nor is the metadata
    log: a broker recovers it at every start, whether there is a marker or not (KafkaRaftLog).
    """
    every = list(_places(storage, log_dir, request))
    chosen = [log for log in every if is_wanted(log.topic_partition.topic, request.topics)]
    return chosen, len(every) - len(chosen)


def _places(storage: Storage, log_dir: LogDir, request: TruncateRequest) -> Iterator[LogToLoad]:
    settings = replace(
        request.settings, topic_sets=(*request.settings.topic_sets, parse_topic_set(_ANY_POLICY))
    )
    for entry in storage.list_dir(log_dir.path):
        if not (entry.is_dir or entry.leads_to_dir) or entry.name == REMOTE_INDEX_CACHE:
            continue
        kind = parse_partition_dir(entry.name).kind
        plain = entry.name.rpartition(".")[0] if kind is not DirectoryKind.CURRENT else entry.name
        key = parse_partition_dir(plain).topic_partition
        if key is None or kind is DirectoryKind.DELETE or key.topic == METADATA_TOPIC:
            continue
        config = settings.resolve(key.topic, node_id=log_dir.meta.node_id)
        error, log_bytes = config.reason if isinstance(config, Unknown) else None, 0
        if not entry.is_dir:
            error = "it is a symbolic link, which Winnow does not follow"
        if error is None:
            try:
                log_bytes = _log_bytes(storage, f"{log_dir.path}/{entry.name}")
            except FAILS_ONE_PARTITION as failed:
                error = failure_of(failed)
        yield LogToLoad(
            log_dir=log_dir.path,
            name=entry.name,
            kind=kind,
            topic_partition=key,
            log_start_checkpoint=log_dir.checkpoints.log_start.get(key, 0),
            recovery_point=log_dir.checkpoints.recovery_point.get(key, 0),
            config=config,
            now=request.now,
            bytes=log_bytes,
            error=error,
        )


def _log_bytes(storage: Storage, directory: str) -> int:
    return sum(entry.size for entry in storage.list_dir(directory) if entry.name.endswith(LOG))
