"""Recover log directories after an unclean shutdown: plan in Spark tasks, change on the driver.

Each partition is read and planned by a task. The driver, which holds the lock, applies the plans.
Then it writes the checkpoints, and last the marker of a clean shutdown (S8.9).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyspark import SparkContext

from winnow.cleaning.plan.settings import with_metadata
from winnow.clock import new_run_id
from winnow.errors import FAILS_ONE_PARTITION, NO_SPACE, UsageError, failure_of
from winnow.logdir.commit.lost import check_none_lost
from winnow.logdir.commit.quarantine import quarantine_path
from winnow.logdir.commit.recovery import ForcedSwap, preview, recover
from winnow.logdir.commit.roll_forward import put_right
from winnow.logdir.commit.truncation import LogCut, RemovedSegment, truncate_log
from winnow.logdir.copies import words_of
from winnow.logdir.lock import locked
from winnow.logdir.names import DirectoryKind
from winnow.logdir.survey import LogDir, survey_log_dirs
from winnow.logdir.topic_globs import is_wanted
from winnow.policy.sources import Unknown
from winnow.recovery.logs.finish import (
    finish_log_dir,
    remove_marker,
    remove_old_snapshots,
    write_marker,
)
from winnow.recovery.logs.values import (
    RecoveredDir,
    RecoveredLog,
    TruncateRequest,
    TruncateResult,
)
from winnow.runtime.failure import Failure, failure
from winnow.runtime.garbage import seldom_collecting
from winnow.runtime.no_space import FREE_INODES, lacks_inodes
from winnow.runtime.packing import in_order
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.same_directories import same_directories
from winnow.runtime.session import WithContext
from winnow.runtime.side_by_side import side_by_side
from winnow.runtime.spread import spread
from winnow.start.broker import expected_starts
from winnow.start.files import finished_swap
from winnow.start.loaded import LoadedLog, LogToLoad
from winnow.start.loader import load_log
from winnow.start.logs import logs_to_load
from winnow.start.loss import (
    SWAP_ASIDE,
    end_lost_of,
    loss_by_swap,
    loss_of,
    only_in_deleted_files,
)
from winnow.start.values import BrokerStart
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.storage.places import Places
from winnow.storage.urls import is_remote
from winnow.words import counted

_ROUND_BYTES = 32 << 30
"""Logs of about this many bytes are planned before their plans are applied: a plan holds the new
indexes, some thousandths of the log.
"""
_LOSES = "this deletes records that are still on the disk, and is not done without --lose-records:"
_WRITERS = 8
"""Threads that apply plans. They wait for the disk."""

_EVIDENCE = (
    "this overwrites the checkpoints, which show that records are lost, and is not done without "
    "--lose-records:"
)
_Planned = tuple[LoadedLog, str] | str
"""The plan and what it needs --lose-records for, or why there is none."""


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
    run_id, storage, sc = new_run_id(), Places(), spark.sparkContext
    with (
        locked(log_dirs, to_change=request.truncate) as dirs,
        same_directories(sc, [log_dir.path for log_dir in dirs]),
        seldom_collecting(),
    ):
        settings, notes = with_metadata(request.settings, storage, dirs)
        request = replace(request, settings=settings)
        done, starts = recover_dirs(storage, dirs, request, run_id=run_id, sc=sc, progress=progress)
    return TruncateResult(
        run_id=run_id,
        truncated=request.truncate,
        log_dirs=done,
        starts=starts,
        clean=tuple(log_dir.path for log_dir in dirs if log_dir.clean_shutdown),
        kafka=settings.kafka,
        notes=(*settings.notes(), *notes),
    )


def recover_dirs(
    storage: Storage,
    log_dirs: Sequence[LogDir],
    request: TruncateRequest,
    *,
    run_id: str,
    sc: SparkContext | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[RecoveredDir, ...], tuple[BrokerStart, ...]]:
    """Recover the log directories without a marker, and return what the brokers do when they start
    then. The caller holds the locks. Without `sc`, all is done in this thread.

    The markers are written if all is recovered and each start `is_safe`, and otherwise none: so a
    marker and a failure exclude each other. Without it, the next start recovers the directory
    again, which harms nothing.
    """
    progress = progress or Silence()
    unclean = [log_dir for log_dir in log_dirs if not log_dir.clean_shutdown]
    done = [_recover_dir(storage, one, request, run_id, sc, progress) for one in unclean]
    as_now = partial(expected_starts, sc, now=request.now, progress=progress)
    if not request.truncate:
        known = {
            f"{one.path}/{log.name}": log.loaded
            for one in done
            for log in one.logs
            if log.loaded is not None
        }
        wanted = partial(is_wanted, globs=request.topics)
        return tuple(done), as_now(log_dirs, request.settings, known=known, wanted=wanted)
    surveyed = survey_log_dirs(storage, [log_dir.path for log_dir in log_dirs])
    starts: tuple[BrokerStart, ...] = ()
    if request.may_mark and all(log_dir.is_whole for log_dir in done):
        marked = [replace(log_dir, clean_shutdown=True) for log_dir in surveyed]
        starts = as_now(marked, request.settings)
        if all(start.is_safe for start in starts):
            done = _marked(storage, done)
    if not all(log_dir.marked for log_dir in done):
        starts = as_now(surveyed, request.settings)
    for log_dir in done:
        with suppress(FAILS_ONE_PARTITION):
            remove_old_snapshots(storage, log_dir.path, log_dir.logs)
    return tuple(done), starts


def _marked(storage: Storage, done: Sequence[RecoveredDir]) -> list[RecoveredDir]:
    """Write the markers of all log directories. If one can't be written, remove the others."""
    for log_dir in done:
        try:
            write_marker(storage, log_dir.path)
        except FAILS_ONE_PARTITION as error:
            refused = replace(log_dir, error=failure(error).message)
            for other in done:
                remove_marker(storage, other.path)
            return [refused if other is log_dir else other for other in done]
    return [replace(log_dir, marked=True) for log_dir in done]


def _recover_dir(
    storage: Storage,
    log_dir: LogDir,
    request: TruncateRequest,
    run_id: str,
    sc: SparkContext | None,
    progress: Progress,
) -> RecoveredDir:
    """Recover one log directory, but for its marker."""
    try:
        if log_dir.error is not None:
            raise log_dir.error
        every = list(_places(storage, log_dir, request))
    except FAILS_ONE_PARTITION as error:
        return RecoveredDir(path=log_dir.path, logs=(), error=failure_of(error))
    places = [log for log in every if is_wanted(log.topic_partition.topic, request.topics)]
    left_out = len(every) - len(places)
    progress.stage(f"recovering {len(places)} logs in {log_dir.path}", total_tasks=len(places))
    apply = partial(_apply, storage, request=request, run_id=run_id)
    logs: list[RecoveredLog] = []
    for some in in_order(places, lambda log: log.bytes, _ROUND_BYTES):
        ready = [_put_right(storage, log, request, run_id) for log in some]
        planned = map(_plan_one, ready) if sc is None else _plan_all(sc, ready)
        # Those that cut most come first: on a full disk they free space for the others.
        work = sorted(zip(ready, planned, strict=True), key=lambda one: -_shorter_bytes(one[1]))
        at_once = 1 if sc is None else _WRITERS
        first = side_by_side([partial(apply, *one) for one in work], at_once=at_once)
        for (log, _), outcome in zip(work, first, strict=True):
            if outcome.is_short_of_space:  # try once more
                log_again = _put_right(storage, log, request, run_id)
                again = apply(log_again, _plan_one(log_again))
                cuts, removed = (*outcome.cuts, *again.cuts), (*outcome.removed, *again.removed)
                logs.append(replace(again, cuts=cuts, removed=removed))
            else:
                logs.append(outcome)
        progress.advance(len(work))
    logs.sort(key=lambda log: log.name)
    whole = not left_out and all(log.error is None for log in logs)
    result = RecoveredDir(path=log_dir.path, logs=tuple(logs), left_out=left_out, is_whole=whole)
    if not request.truncate:
        return result
    try:
        finish_log_dir(storage, log_dir, logs, whole=whole)
    except FAILS_ONE_PARTITION as error:
        return replace(result, error=failure(error).message, is_whole=False)
    return result


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
    if log.error is not None:
        return log.error
    if isinstance(log.config, Unknown):
        return log.config.reason
    try:
        # A broker goes on without the records, and deletes what shows that they are lost.
        if log.kind is not DirectoryKind.STRAY:
            check_none_lost(Places(), log.directory, has_no_gaps=log.has_no_gaps)
        loaded = load_log(Places(), log, log.config)
        return loaded, _needs_consent(log, loaded)
    except FAILS_ONE_PARTITION as error:
        return failure_of(error)


def _needs_consent(log: LogToLoad, loaded: LoadedLog) -> str:
    storage = Places()
    loss = loss_of(storage, log.directory, loaded, has_no_gaps=log.has_no_gaps)
    if loss is None and log.kind is not DirectoryKind.STRAY:
        loss = only_in_deleted_files(storage, log, loaded.log_end_offset)
    if loss is not None:
        return f"{_LOSES} {loss}"
    if log.kind is DirectoryKind.STRAY:
        return ""
    entries = storage.list_dir(log.directory)
    lost = end_lost_of(storage, log, loaded.log_end_offset, entries)
    return "" if lost is None else f"{_EVIDENCE} {lost}"


def _put_right(
    storage: Storage, log: LogToLoad, request: TruncateRequest, run_id: str
) -> LogToLoad:
    """Finish or roll back what an interrupted cleaning left. Where that is impossible, the log gets
    an error.
    """
    try:
        if log.error is not None or isinstance(log.config, Unknown):
            return log
        swap = finished_swap(storage, log.directory)
        # With consent to the loss it does not matter whether there is a loss.
        compacts = bool(log.compacts) if request.lose_records else log.compacts
        loss = loss_by_swap(storage, log.directory, swap, compacts=compacts)
        if loss and not request.lose_records:
            return replace(log, error=f"{_LOSES} {loss}. {SWAP_ASIDE}")
        if swap and loss and request.truncate:
            aside = quarantine_path(log.directory, run_id) if request.keep_cut else None
            recover(storage, log.directory, forced=ForcedSwap(swap.end, aside))
        elif not request.truncate:
            preview(storage, log.directory)
        elif log.kind is DirectoryKind.CURRENT and log.name == str(log.topic_partition):
            put_right(storage, log.log_dir, log.topic_partition, finish=False)
        else:
            recover(storage, log.directory)
    except FAILS_ONE_PARTITION as error:
        return replace(log, error=failure_of(error))
    return log


def _shorter_bytes(planned: _Planned) -> int:
    return 0 if isinstance(planned, str) else planned[0].truncation.shorter_bytes


def _apply(
    storage: Storage, log: LogToLoad, planned: _Planned, *, request: TruncateRequest, run_id: str
) -> RecoveredLog:
    outcome = RecoveredLog(
        name=log.name,
        topic_partition=log.topic_partition,
        is_counted=log.kind is not DirectoryKind.STRAY,
    )
    if isinstance(planned, str):
        return replace(outcome, error=planned)
    loaded, consent_for = planned
    change = loaded.truncation
    outcome = replace(outcome, loaded=loaded)
    if consent_for and not request.lose_records:
        outcome = replace(outcome, error=consent_for)
        if request.truncate:
            return outcome
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
    except FAILS_ONE_PARTITION as error:
        full = isinstance(error, OSError) and error.errno in NO_SPACE
        hint = f". {_hint(storage, log, request)}" if full else ""
        outcome = replace(outcome, error=f"{failure_of(error)}{hint}", is_short_of_space=full)
    return replace(
        outcome,
        cuts=tuple(one for one in change.cuts if one in made),
        removed=tuple(one for one in change.removed if one in made),
    )


def _hint(storage: Storage, log: LogToLoad, request: TruncateRequest) -> str:
    """Return what helps against a full disk."""
    if lacks_inodes(storage.volume(log.log_dir)):
        return f"No inode is free, so no file can be made. {FREE_INODES}. Then run again"
    return "Free some space" + (
        ", or do not keep what is cut: --discard-cut" if request.keep_cut else ""
    )


def _places(storage: Storage, log_dir: LogDir, request: TruncateRequest) -> Iterator[LogToLoad]:
    """Yield all logs to recover, also those that `request.topics` leaves out.

    Replicas that are being moved, and stray ones, are recovered as well: the marker is for all logs
    of the directory. A deleted log is not: a broker does not recover it either. Nor is the metadata
    log: a broker recovers it at every start, whether there is a marker or not (KafkaRaftLog).
    """
    for log in logs_to_load(storage, log_dir, request.settings, request.now):
        if log.kind is DirectoryKind.DELETE:
            continue
        key = log.topic_partition
        copies = log_dir.duplicates.get(key) if log.kind is DirectoryKind.CURRENT else None
        if copies is not None:
            words = words_of(storage, copies, _assigned(log_dir, key, request))
            yield replace(log, error=words, bytes=0)
        else:
            yield log


def _assigned(log_dir: LogDir, key: TopicPartition, request: TruncateRequest) -> str | None:
    metadata = request.settings.metadata
    if metadata is None:
        return None
    return metadata.directory_of(key.topic, key.partition, log_dir.meta.node_id)
