"""Finish or roll back what a crash interrupted; undo a run; purge what it kept. Needs no Spark.

Each partition is handled on its own. One that can't be recovered or undone is reported with the
reason and left unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from winnow.arguments import checked, names
from winnow.cleaning.plan.settings import with_metadata
from winnow.clock import new_run_id
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, UsageError, failure_of
from winnow.logdir.commit.journal import Journal
from winnow.logdir.commit.kept import kept_path, kept_run_ids, read_kept
from winnow.logdir.commit.lost import check_none_lost
from winnow.logdir.commit.quarantine import quarantine_path
from winnow.logdir.commit.recovery import ForcedSwap, RecoveryReport, preview
from winnow.logdir.commit.recovery import recover as recover_directory
from winnow.logdir.commit.roll_forward import put_right
from winnow.logdir.commit.undo import plan_undo, purge, undo
from winnow.logdir.copies import words_of
from winnow.logdir.files import tree_bytes
from winnow.logdir.lock import locked
from winnow.logdir.survey import LogDir, strangers_in, topics_of
from winnow.logdir.topic_globs import check_globs, is_wanted
from winnow.policy.config import TopicConfig
from winnow.policy.sources import Settings, Unknown
from winnow.recovery.runs.undone_log import check_undone_log
from winnow.recovery.runs.values import Action, KeptFiles, PartitionRecovery, RecoverResult
from winnow.start.files import finished_swap
from winnow.start.loaded import is_compacted, is_without_gaps
from winnow.start.loss import check_swap
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.storage.places import Places
from winnow.storage.urls import is_remote

ALL = "all"
"""In place of a run id: every run that keeps something."""


@checked
def recover(
    log_dirs: str | Sequence[str],
    *,
    topics: str | Sequence[str] = (),
    undo_run: str | None = None,
    purge_run: str | None = None,
    dry_run: bool = False,
    lose_records: bool = False,
    settings: Settings | None = None,
    storage: Storage | None = None,
    on_partition: Callable[[int, int], None] = lambda _done, _total: None,
) -> RecoverResult:
    """Recover every partition of these log directories from a crash of Winnow; then undo or purge a
    run, if requested. Needs no Spark.

    Args:
        log_dirs: One path or URL, or all `log.dirs` of one or several stopped brokers.
        topics: Globs of topics. By default all topics.
        undo_run: Id of a run of `clean(..., keep_replaced=True)` whose originals are put back. By
            default none is undone.
        purge_run: Id of a run whose kept files are deleted for good, or `"all"`. By default none
            is purged.
        dry_run: Change nothing, and report what would be done. By default it is done.
        lose_records: Finish an interrupted swap as a broker that starts does, although records are
            lost. The logs that go are kept in `.winnow-quarantine-RUN`. By default such a partition
            is left alone.
        settings: All settings, already parsed. By default those of the metadata log.
        storage: The only way in which log directories are changed. By default that of their paths.
        on_partition: Is called before the first partition and after each one, with how many are
            done and how many there are. By default nothing is.

    Returns:
        What was done to each partition, and which runs it keeps.

    Raises:
        UsageError: An argument can't be used, both `undo_run` and `purge_run` are given, the run
            keeps nothing here, or a directory is not a Kafka log directory.
        LogDirInUseError: A broker is running on a log directory.

    Example:
        >>> winnow.api.recover("/var/lib/kafka").status
        'done'
    """
    log_dirs, topics = names(log_dirs, "log_dirs"), names(topics, "topics")
    if undo_run is not None and purge_run is not None:
        raise UsageError("undo and purge together", expected="one of them, or neither")
    if "" in (undo_run, purge_run):
        raise UsageError(
            "the run to undo or to purge is empty",
            expected="the id of a run of `clean --keep-replaced`",
            hint="Is a variable empty?",
        )
    storage, new_id = storage or Places(), new_run_id()
    with locked(log_dirs, to_change=not dry_run) as surveyed:
        unclean = tuple(
            log_dir.path
            for log_dir in surveyed
            if not (log_dir.clean_shutdown or log_dir.in_doubt or is_remote(log_dir.path))
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

        completed, _ = with_metadata(settings or Settings(), storage, surveyed)
        on_partition(0, len(places))
        for log_dir, at in places:
            lose_in = new_id if lose_records and not dry_run else None
            partition = _Partition(
                storage, log_dir, at, dry_run=dry_run, lose_in=lose_in, settings=completed
            )
            found = PartitionRecovery(topic=at.topic, partition=at.partition, log_dir=log_dir.path)
            try:
                if (copies := log_dir.duplicates.get(at)) is not None:
                    raise CorruptLogError(words_of(storage, copies, partition.assigned()))
                found = partition.recovered(found)
                if undo_run is not None:
                    found = partition.undone(found, undo_run)
                if purge_run is not None:
                    found = partition.purged(found, purge_run)
                found = replace(found, kept=partition.kept())
            except FAILS_ONE_PARTITION as error:
                found = replace(found, error=failure_of(error))
            partitions.append(found)
            on_partition(len(partitions), len(places))
        strangers = strangers_in(surveyed)
    return RecoverResult(
        partitions=tuple(partitions), dry_run=dry_run, unclean=unclean, strangers=strangers
    )


def _places_of(
    storage: Storage, places: Sequence[tuple[LogDir, TopicPartition]], run_id: str | None
) -> list[tuple[LogDir, TopicPartition]]:
    """Return those of the partitions that keep something of this run."""
    chosen, known = [], set[str]()
    for log_dir, at in places:
        # A partition whose kept runs can't be read is skipped. The others are still handled.
        with suppress(FAILS_ONE_PARTITION):
            runs = kept_run_ids(storage, f"{log_dir.path}/{at}")
            known.update(runs)
            if run_id in runs:
                chosen.append((log_dir, at))
    if not chosen:
        raise UsageError(
            "no partition keeps anything of this run",
            expected=" or ".join(sorted(known)) or "a run of `clean --keep-replaced`",
            found=str(run_id),
        )
    return chosen


class _Partition:
    """Recovers, undoes and purges one partition. Each step adds what it did to the result."""

    def __init__(
        self,
        storage: Storage,
        log_dir: LogDir,
        at: TopicPartition,
        *,
        dry_run: bool,
        lose_in: str | None,
        settings: Settings,
    ) -> None:
        self._storage, self._log_dir, self._at, self._dry_run = storage, log_dir, at, dry_run
        self._lose_in, self._settings = lose_in, settings
        self._directory = f"{log_dir.path}/{at}"

    def kept(self) -> tuple[KeptFiles, ...]:
        storage, directory = self._storage, self._directory
        runs = [read_kept(storage, directory, run) for run in kept_run_ids(storage, directory)]
        old = "an older version of Winnow kept it"
        return tuple(
            KeptFiles(r.run_id, r.kept_at_ms, r.segments, r.bytes, r.closed_by if r.log else old)
            for r in runs
        )

    def assigned(self) -> str | None:
        """Return the `directory.id` that the controller means for it, None if it is unknown."""
        at, metadata = self._at, self._settings.metadata
        if metadata is None:
            return None
        return metadata.directory_of(at.topic, at.partition, self._log_dir.meta.node_id)

    def recovered(self, found: PartitionRecovery) -> PartitionRecovery:
        log_dir = self._log_dir
        if log_dir.in_doubt and log_dir.error is not None:
            raise log_dir.error
        config, has_been = self._config(), self._at in log_dir.checkpoints.cleaner
        check_none_lost(
            self._storage,
            self._directory,
            has_no_gaps=is_without_gaps(config, has_been=has_been),
        )
        if self._dry_run:
            self._check_swap()
            report, finished = preview(self._storage, self._directory), None
        else:
            report, finished = self._put_right()
        if not report and finished is None:
            return found
        return replace(
            found, actions=(Action.RECOVERED,), removed=report.removed, renamed=report.renamed
        )

    def _put_right(self) -> tuple[RecoveryReport, Journal | None]:
        log_dir = self._log_dir
        finish = log_dir.clean_shutdown and log_dir.error is None
        try:
            self._check_swap()
            done = put_right(self._storage, log_dir.path, self._at, finish=finish)
        except CorruptLogError:
            swap = finished_swap(self._storage, self._directory)
            if self._lose_in is None or swap is None:
                raise
            forced = ForcedSwap(swap.end, quarantine_path(self._directory, self._lose_in))
            return recover_directory(self._storage, self._directory, forced=forced), None
        return done.recovery, done.finished

    def _check_swap(self) -> None:
        """Raise CorruptLogError if an interrupted swap would delete records."""
        swap = finished_swap(self._storage, self._directory)
        if swap is None:
            return
        try:
            preview(self._storage, self._directory)
        except CorruptLogError:  # `put_right` raises it, or goes by the checksums of a journal
            return
        compacts = is_compacted(
            self._config(), has_been=self._at in self._log_dir.checkpoints.cleaner
        )
        check_swap(self._storage, self._directory, swap, compacts=compacts)

    def _config(self) -> TopicConfig | Unknown:
        node_id = self._log_dir.meta.node_id
        return self._settings.resolve_for_any_policy(self._at.topic, node_id=node_id)

    def undone(self, found: PartitionRecovery, run_id: str) -> PartitionRecovery:
        storage, log_dir, at = self._storage, self._log_dir, self._at
        if log_dir.error is not None:
            raise log_dir.error
        if not log_dir.clean_shutdown:
            raise CorruptLogError(
                "the broker was not shut down cleanly",
                expected=".kafka_cleanshutdown in the log directory",
                where=log_dir.path,
                hint="Start the broker once and stop it with SIGTERM, then run again.",
            )
        if self._dry_run and found.actions != (Action.NONE,):
            raise CorruptLogError(
                "files that a crash left must be handled first",
                where=self._directory,
                hint="Run `recover` first, then this again.",
            )
        if not storage.exists(kept_path(self._directory, run_id)):
            # the run died before it changed anything, and recovery has removed what it had prepared
            return found
        run = read_kept(storage, self._directory, run_id)
        plan = plan_undo(storage, log_dir.path, at, run)
        check_undone_log(storage, plan)
        if not self._dry_run:
            undo(storage, log_dir.path, at, plan)
        return replace(
            found,
            actions=_with(found, Action.UNDONE),
            segments_restored=len(plan.restored),
            bytes_restored=sum(plan.restored.values()),
            log_start_offset=run.log_start_offset if plan.deletions else None,
        )

    def purged(self, found: PartitionRecovery, run_id: str) -> PartitionRecovery:
        for kept in kept_run_ids(self._storage, self._directory):
            if run_id in {ALL, kept}:
                path = kept_path(self._directory, kept)
                freed = found.bytes_freed + tree_bytes(self._storage, path)
                if not self._dry_run:
                    purge(self._storage, self._directory, path)
                found = replace(found, actions=_with(found, Action.PURGED), bytes_freed=freed)
        return found


def _with(found: PartitionRecovery, action: Action) -> tuple[Action, ...]:
    return (*(a for a in found.actions if a not in {Action.NONE, action}), action)
