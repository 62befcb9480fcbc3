"""`commit`: install what `prepare` has staged, while the broker is stopped (S8.12).

For each partition with a preparation: remove what the broker's stop has left, check that everything
is as it was, then journal, swap, cleaner checkpoint and retention as `clean` does them. Needs
neither Spark nor compiled code: a broker waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from winnow.cleaning.commit.commit import commit_several, kept_bytes
from winnow.cleaning.commit.compaction import commit
from winnow.cleaning.commit.retention import retain_only
from winnow.cleaning.plan.partitions import (
    PlannedPartition,
    SkippedPartition,
    known_or_left_alone,
    why_checkpoints_unwritable,
    why_files_unwritable,
)
from winnow.cleaning.prepared.again import planned_again, staged_again
from winnow.cleaning.prepared.checks import Dropped, why_dropped
from winnow.cleaning.prepared.existing import Existing, existing_in, names_of_existing
from winnow.cleaning.prepared.sources import PreparedSettings, TopicConfigs
from winnow.cleaning.prepared.status import now_of
from winnow.cleaning.prepared.value import RULE, PreparedPartition
from winnow.cleaning.request import Only, Request
from winnow.cleaning.result import NONE, PartitionResult, RunResult
from winnow.cleaning.staged import StagedPartition
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, LogDirInUseError, WinnowError
from winnow.logdir.commit.recovery import recover
from winnow.logdir.commit.roll_forward import put_right
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.live.alone import alone_on
from winnow.logdir.lock import locked
from winnow.logdir.survey import LogDir, strangers_in, topics_of
from winnow.policy.plan import Reason
from winnow.policy.sources import Unknown
from winnow.runtime.failure import Failure, failure
from winnow.state import TopicPartition
from winnow.storage.contract import Entry
from winnow.storage.guarded import kept_open
from winnow.storage.mounts import why_seen_here_only
from winnow.storage.places import Places
from winnow.storage.urls import is_remote
from winnow.survey.place import PartitionPlace
from winnow.words import counted


def commit_prepared(log_dirs: Sequence[str], request: Request, *, dry_run: bool) -> RunResult:
    """Commit the preparations in these log directories, whose brokers are stopped.

    `request.settings` are not used: each preparation says where its settings come from, and they
    are read again. `dry_run`: only check. Partitions without a preparation are not in the result.
    """
    with (
        locked(log_dirs, to_change=not dry_run, beside_preparations=True) as dirs,
        ExitStack() as alone,
    ):
        request.check_globs(topics_of(dirs))
        busy = {d.path for d in dirs if not dry_run and _is_being_prepared(d, alone)}
        found = [
            (log_dir, at, names)
            for log_dir in dirs
            if log_dir.error is None
            for at in log_dir.partitions
            if request.wants(at.topic) and (names := _names(log_dir, at)) != ()
        ]
        known = _Known(
            PreparedSettings(dirs, request.stop),
            TopicConfigs(),
            {log_dir.path: why_checkpoints_unwritable(log_dir.path) for log_dir, _, _ in found},
        )
        done = commit_several(
            [
                partial(
                    _one,
                    d,
                    at,
                    names or (),
                    known,
                    request,
                    finished=d.path in busy,
                    dry_run=dry_run,
                )
                for d, at, names in found
            ],
            sorted({log_dir.path for log_dir, _, _ in found}),
            request.progress,
            doing=f"{'checking' if dry_run else 'committing'} {counted(len(found), 'partition')}",
        )
        notes = [note for d in dirs if (note := why_seen_here_only(d.path))]
        notes += [f"{d.path} is skipped: {d.error}" for d in dirs if d.error is not None]
        notes += [
            f"another run of Winnow prepares {path}: what it has finished is committed"
            for path in sorted(busy)
        ]
        return RunResult(
            run_id=request.run_id,
            verb="commit",
            now=request.now,
            partitions=tuple(result for result in done if result is not None),
            notes=tuple(notes),
            strangers=strangers_in(dirs),
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """What is read once for all partitions."""

    settings: PreparedSettings
    configs: TopicConfigs
    unwritable: Mapping[str, Reason | None]
    """Why the checkpoints of a log directory can't be replaced, by its path."""


def _is_being_prepared(log_dir: LogDir, alone: ExitStack) -> bool:
    """Return whether another run prepares a log directory. Otherwise keep such runs away."""
    try:
        if not is_remote(log_dir.path):
            alone.enter_context(alone_on(log_dir.path, needed=False))
    except LogDirInUseError:
        return True
    return False


def _names(log_dir: LogDir, at: TopicPartition) -> tuple[str, ...] | None:
    """Return the names of the staging directories of a partition. None if they can't be listed,
    which is reported where they are listed again. They are read one partition at a time, so that
    those of many partitions take no memory together.
    """
    try:
        return names_of_existing(Places(), f"{log_dir.path}/{at}")
    except FAILS_ONE_PARTITION:
        return None


def _existing(log_dir: LogDir, at: TopicPartition, *, finished: bool) -> list[Existing] | Failure:
    """Return the staging directories of a partition. `finished`: without those that another run may
    be writing.
    """
    try:
        found = [*existing_in(Places(), log_dir, at)]
    except FAILS_ONE_PARTITION as error:
        return failure(error)
    return [
        existing
        for existing in found
        if existing.journal or existing.is_preparation or not finished
    ]


def _one(
    log_dir: LogDir,
    at: TopicPartition,
    names: Sequence[str],
    known: _Known,
    request: Request,
    *,
    finished: bool,
    dry_run: bool,
) -> PartitionResult | None:
    """Commit the newest preparation of a partition, and remove all others. Return None if there is
    nothing to tell. `names`: of its staging directories. `finished`: see `_existing`.
    """
    directory = f"{log_dir.path}/{at}"
    try:
        with kept_open(log_dir.path, directory, *(f"{directory}/{name}" for name in names)):
            here = _existing(log_dir, at, finished=finished)
            if isinstance(here, Failure):
                return _left(log_dir, at, here)
            return _one_of(log_dir, at, here, known, request, dry_run=dry_run) if here else None
    except FAILS_ONE_PARTITION as error:
        return _left(log_dir, at, failure(error))


def _one_of(
    log_dir: LogDir,
    at: TopicPartition,
    here: Sequence[Existing],
    known: _Known,
    request: Request,
    *,
    dry_run: bool,
) -> PartitionResult | None:
    if any(existing.journal for existing in here):
        return None if dry_run else _finished(log_dir, at, request)
    readable = [existing for existing in here if existing.prepared is not None]
    if not readable:
        return _unread(log_dir, at, here, request, dry_run=dry_run)
    newest = max(
        readable,
        key=lambda existing: existing.prepared.taken.wall_ms if existing.prepared else 0,
    )
    for existing in here:
        if existing is not newest and not dry_run:
            remove_staging(request.storage, existing.staging)
    return _newest(newest, known, request, dry_run=dry_run)


def _newest(
    existing: Existing, known: _Known, request: Request, *, dry_run: bool
) -> PartitionResult:
    prepared, log_dir, at = existing.prepared, existing.log_dir, existing.topic_partition
    if prepared is None:
        raise CorruptLogError("a preparation that can't be read", where=existing.staging)
    place = PartitionPlace(log_dir.path, at)
    settings = known.settings.of(prepared.asked, existing.writer)
    if isinstance(settings, Failure):
        return _left(log_dir, at, settings)
    if (why := _why_not_begun(prepared, place, known, request)) is not None:
        return _left(log_dir, at, why)
    now = now_of(existing, prepared, settings, request.stop, known.configs)
    config, storage = now.resolved.config, request.storage
    request = replace(request, settings=settings)
    selected = known_or_left_alone(place, log_dir, config, request)
    if isinstance(selected, SkippedPartition) and not isinstance(config, Unknown):
        return _unchanged(log_dir, at, selected.reason.words, left_alone=True)
    entries = existing.beside
    # What the broker was doing when it stopped. It is no change of the log.
    if not dry_run and recover(storage, place.directory, keep=(existing.staging,), entries=entries):
        entries = storage.list_dir(place.directory)
    dropped = why_dropped(prepared, existing.staging, now, entries, existing.inside)
    if dropped is not None or isinstance(config, Unknown):
        if not dry_run:
            remove_staging(storage, existing.staging)
        return _dropped(existing, prepared, dropped)
    request = replace(
        request,
        run_id=prepared.run_id,
        now=prepared.now,
        # After an unclean shutdown nobody knows yet where the log ends.
        only=cast("Only | None", prepared.only) if log_dir.clean_shutdown else "compaction",
    )
    item = planned_again(prepared, place, log_dir, config, request, entries)
    if dry_run:
        return _would(item, prepared)
    return _install(item, prepared, existing, entries, request)


def _why_not_begun(
    prepared: PreparedPartition, place: PartitionPlace, known: _Known, request: Request
) -> Failure | None:
    """Return why a preparation is not even checked."""
    if (reason := request.stop.reason) is not None:
        return Failure(f"not begun: the run was stopped, {reason}", WinnowError.exit_code)
    unwritable = known.unwritable[place.log_dir] or why_files_unwritable(
        place, [segment.base_offset for segment in prepared.segments]
    )
    return None if unwritable is None else Failure(unwritable.words, WinnowError.exit_code)


def _install(
    item: PlannedPartition,
    prepared: PreparedPartition,
    existing: Existing,
    entries: Sequence[Entry],
    request: Request,
) -> PartitionResult:
    done: StagedPartition | PartitionResult
    staging = existing.staging
    if prepared.round is None:
        done = retain_only(item, request)
        remove_staging(request.storage, staging)
    else:
        done = commit(item, staged_again(prepared, staging, existing.inside), request, entries)
    if isinstance(done, StagedPartition):
        raise CorruptLogError("a preparation of which groups are missing", where=staging)
    kept = kept_bytes(request, item.state.directory)
    return done if kept is None else replace(done, kept_bytes=kept)


def _finished(log_dir: LogDir, at: TopicPartition, request: Request) -> PartitionResult:
    """Finish a commit that was interrupted, or give it up."""
    done = put_right(request.storage, log_dir.path, at, finish=True)
    if done.finished is None:
        words = "an interrupted commit was given up: the partition has changed since"
        return _unchanged(log_dir, at, words, left_alone=True)
    words = f"finished the commit up to {done.finished.end_offset} that was interrupted"
    return _unchanged(log_dir, at, words, left_alone=False)


def _unread(
    log_dir: LogDir,
    at: TopicPartition,
    here: Sequence[Existing],
    request: Request,
    *,
    dry_run: bool,
) -> PartitionResult | None:
    """Remove staging directories that are no preparations."""
    for existing in here:
        if not dry_run:
            remove_staging(request.storage, existing.staging)
    problems = [existing.problem for existing in here if existing.problem is not None]
    if not problems:
        return None  # an interrupted preparation
    words = f"the preparation can't be read: {problems[0]}"
    return _unchanged(log_dir, at, words, left_alone=True)


def _dropped(
    existing: Existing, prepared: PreparedPartition, dropped: Dropped | None
) -> PartitionResult:
    words = f"the preparation was dropped: {dropped or 'its settings are unknown'}"
    result = _unchanged(existing.log_dir, existing.topic_partition, words, left_alone=True)
    return (
        result
        if prepared.round is None
        else replace(result, dirty_ratio=prepared.round.dirty_ratio)
    )


def _would(item: PlannedPartition, prepared: PreparedPartition) -> PartitionResult:
    words = "the preparation holds: `commit` installs it"
    result = _unchanged(item.log_dir, item.place.topic_partition, words, left_alone=False)
    return replace(
        result,
        dirty_ratio=item.plan.dirty_ratio,
        segments_before=len(item.state.segments),
        bytes_before=item.state.log_bytes,
        records_before=sum(group.records_before for group in prepared.groups) or None,
    )


def _unchanged(
    log_dir: LogDir, at: TopicPartition, words: str, *, left_alone: bool
) -> PartitionResult:
    return PartitionResult(
        topic=at.topic,
        partition=at.partition,
        log_dir=log_dir.path,
        policy=None,
        actions=(NONE,),
        rule=RULE,
        reason=words,
        left_alone=left_alone,
    )


def _left(log_dir: LogDir, at: TopicPartition, why: Failure) -> PartitionResult:
    result = _unchanged(
        log_dir, at, "unchanged: the preparation was not committed", left_alone=True
    )
    return replace(result, rule="S8.8", error=why.message, error_code=why.exit_code)
