"""Finish or roll back what a crash interrupted; undo a run; purge what it kept. Needs no Spark.

Each partition is handled on its own. One that can't be recovered or undone is reported with the
reason and left unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from winnow.arguments import checked
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, UsageError, failure_of
from winnow.logdir.commit.kept import kept_path, kept_run_ids, read_kept
from winnow.logdir.commit.recovery import preview
from winnow.logdir.commit.roll_forward import put_right
from winnow.logdir.commit.undo import plan_undo, purge, undo
from winnow.logdir.files import tree_bytes
from winnow.logdir.lock import lock_log_dir, lock_to_read
from winnow.logdir.survey import LogDir, survey_log_dirs, topics_of
from winnow.logdir.topic_globs import check_globs, is_wanted
from winnow.recovery.runs.undone_log import check_undone_log
from winnow.recovery.runs.values import Action, Kept, PartitionRecovery, RecoverResult
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.storage.places import Places
from winnow.storage.urls import is_remote

ALL = "all"
"""In place of a run id: every run that keeps something."""


@checked
def recover_log_dirs(
    log_dirs: Sequence[str],
    *,
    topics: Sequence[str] = (),
    undo_run: str | None = None,
    purge_run: str | None = None,
    dry_run: bool = False,
    storage: Storage | None = None,
    on_partition: Callable[[int, int], None] = lambda _done, _total: None,
) -> RecoverResult:
    """Recover every partition of these log directories from a crash; then undo or purge, if
    requested.

    `undo_run`: id of a run of `clean(..., keep_replaced=True)` whose originals are put back.
    `purge_run`: id of a run whose kept files are deleted for good, or `ALL`. `topics`: globs; empty
    means all topics. `on_partition` is called before the first partition and after each one, with
    how many are done and how many there are.

    Raises UsageError for an undo together with a purge, for a run that keeps nothing here, and for
    a directory that is not a Kafka log directory. Raises LogDirInUseError if a broker runs on one.
    """
    if undo_run is not None and purge_run is not None:
        raise UsageError("undo and purge together", expected="one of them, or neither")
    if "" in (undo_run, purge_run):
        raise UsageError(
            "the run to undo or to purge is empty",
            expected="the id of a run of `clean --keep-replaced`",
            hint="Is a variable empty?",
        )
    storage = storage or Places()
    with ExitStack() as locks:
        for log_dir in survey_log_dirs(storage, log_dirs):
            locks.enter_context(
                lock_to_read(log_dir.path) if dry_run else lock_log_dir(log_dir.path)
            )
            if not dry_run:
                storage.settle(log_dir.path)
        surveyed = survey_log_dirs(storage, log_dirs)
        unclean = tuple(
            log_dir.path
            for log_dir in surveyed
            if not log_dir.clean_shutdown and not is_remote(log_dir.path)
        )
        places = [
            (log_dir, topic_partition)
            for log_dir in surveyed
            for topic_partition in log_dir.partitions
            if is_wanted(topic_partition.topic, topics)
        ]
        check_globs(topics, topics_of(surveyed), option="--topics")
        run_id = undo_run or purge_run
        if run_id not in {None, ALL}:
            places = _places_of(storage, places, run_id)
        partitions = []
        on_partition(0, len(places))
        for log_dir, topic_partition in places:
            found = PartitionRecovery(
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                log_dir=log_dir.path,
            )
            try:
                found = _recovered(storage, log_dir, found, dry_run=dry_run)
                if undo_run is not None:
                    found = _undo(storage, log_dir, found, undo_run, dry_run=dry_run)
                if purge_run is not None:
                    found = _purge(storage, found, purge_run, dry_run=dry_run)
                found = replace(found, kept=_kept(storage, _directory(found)))
            except FAILS_ONE_PARTITION as error:
                found = replace(found, error=failure_of(error))
            partitions.append(found)
            on_partition(len(partitions), len(places))
    return RecoverResult(partitions=tuple(partitions), dry_run=dry_run, unclean=unclean)


def _places_of(
    storage: Storage, places: Sequence[tuple[LogDir, TopicPartition]], run_id: str | None
) -> list[tuple[LogDir, TopicPartition]]:
    kept = [_kept_run_ids(storage, f"{log_dir.path}/{at}") for log_dir, at in places]
    chosen = [place for place, runs in zip(places, kept, strict=True) if run_id in runs]
    if not chosen:
        known = sorted({other for runs in kept for other in runs})
        raise UsageError(
            "no partition keeps anything of this run",
            expected=" or ".join(known) or "a run of `clean --keep-replaced`",
            found=str(run_id),
        )
    return chosen


def _kept_run_ids(storage: Storage, directory: str) -> tuple[str, ...]:
    """Return the ids of runs that keep something here; empty if they can't be read. Then nothing is
    put back or removed in this directory, and the others are still handled.
    """
    try:
        return kept_run_ids(storage, directory)
    except FAILS_ONE_PARTITION:
        return ()


def _directory(found: PartitionRecovery) -> str:
    return f"{found.log_dir}/{found.topic}-{found.partition}"


def _kept(storage: Storage, directory: str) -> tuple[Kept, ...]:
    runs = [read_kept(storage, directory, run_id) for run_id in kept_run_ids(storage, directory)]
    old = "an older version of Winnow kept it"
    return tuple(
        Kept(r.run_id, r.kept_at_ms, r.segments, r.bytes, r.closed_by if r.bound else old)
        for r in runs
    )


def _recovered(
    storage: Storage, log_dir: LogDir, found: PartitionRecovery, *, dry_run: bool
) -> PartitionRecovery:
    if dry_run:
        report, finished = preview(storage, _directory(found)), None
    else:
        finish = log_dir.clean_shutdown and log_dir.error is None
        at = TopicPartition(found.topic, found.partition)
        done = put_right(storage, log_dir.path, at, finish=finish)
        report, finished = done.recovery, done.finished
    if not report and finished is None:
        return found
    return replace(
        found, actions=(Action.RECOVERED,), removed=report.removed, renamed=report.renamed
    )


def _undo(
    storage: Storage, log_dir: LogDir, found: PartitionRecovery, run_id: str, *, dry_run: bool
) -> PartitionRecovery:
    if log_dir.error is not None:
        raise log_dir.error
    if not log_dir.clean_shutdown:
        raise CorruptLogError(
            "the broker was not shut down cleanly",
            expected=".kafka_cleanshutdown in the log directory",
            where=log_dir.path,
            hint="Start the broker once and stop it with SIGTERM, then run again.",
        )
    directory = _directory(found)
    if dry_run and found.actions != (Action.NONE,):
        raise CorruptLogError(
            "files that a crash left must be handled first",
            where=directory,
            hint="Run `recover` first, then this again.",
        )
    if not storage.exists(kept_path(directory, run_id)):
        # the run died before it changed anything, and recovery has removed what it had prepared
        return found
    run = read_kept(storage, directory, run_id)
    topic_partition = TopicPartition(found.topic, found.partition)
    plan = plan_undo(storage, log_dir.path, topic_partition, run)
    check_undone_log(storage, plan)
    if not dry_run:
        undo(storage, log_dir.path, topic_partition, plan)
    return replace(
        found,
        actions=_with(found, Action.UNDONE),
        segments_restored=len(plan.restored),
        bytes_restored=sum(plan.restored.values()),
        log_start_offset=run.log_start_offset if plan.deletions else None,
    )


def _purge(
    storage: Storage, found: PartitionRecovery, run_id: str, *, dry_run: bool
) -> PartitionRecovery:
    directory = _directory(found)
    for kept in kept_run_ids(storage, directory):
        if run_id not in {ALL, kept}:
            continue
        path = kept_path(directory, kept)
        size = tree_bytes(storage, path)
        if not dry_run:
            purge(storage, directory, path)
        found = replace(
            found, actions=_with(found, Action.PURGED), bytes_freed=found.bytes_freed + size
        )
    return found


def _with(found: PartitionRecovery, action: Action) -> tuple[Action, ...]:
    return (*(a for a in found.actions if a not in {Action.NONE, action}), action)
