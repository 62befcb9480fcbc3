"""`commit`: install what `prepare` has staged, while the broker is stopped (S8.12).

For each partition with a preparation: remove what the broker's stop has left, check that everything
is as it was, then journal, swap, cleaner checkpoint and retention as `clean` does them. Needs
neither Spark nor compiled code: a broker waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from winnow.cleaning.asked import SettingsAsked
from winnow.cleaning.commit.commit import commit_several
from winnow.cleaning.commit.compaction import commit
from winnow.cleaning.commit.retention import retain_only
from winnow.cleaning.plan.partitions import PlannedPartition, why_unwritable
from winnow.cleaning.plan.settings import with_metadata
from winnow.cleaning.prepared.checks import Dropped, Now, config_now, why_dropped
from winnow.cleaning.prepared.existing import Existing, existing_in
from winnow.cleaning.prepared.value import Instant, PreparedGroup, PreparedPartition
from winnow.cleaning.request import Only, Request
from winnow.cleaning.result import NONE, PartitionResult, RunResult
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.staged import StagedPartition
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, WinnowError
from winnow.logdir.commit.journal import Journal, JournalGroup
from winnow.logdir.commit.recovery import recover
from winnow.logdir.commit.roll_forward import put_right
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.listing import list_again, resolve
from winnow.logdir.lock import locked, why_seen_here_only
from winnow.logdir.survey import LogDir, strangers_in, topics_of
from winnow.policy.config import TopicConfig
from winnow.policy.decide import retention_of
from winnow.policy.plan import CompactionPlan, PartitionPlan
from winnow.policy.sources import Settings, Unknown
from winnow.runtime.failure import Failure, failure
from winnow.state import PartitionState, TopicPartition
from winnow.storage.places import Places
from winnow.survey.place import PartitionPlace
from winnow.survey.transactions import Snapshot
from winnow.words import counted

RULE = "S8.12"
AllSettings = Mapping[SettingsAsked, Settings | Failure]
"""By the sources that preparations name."""


def commit_prepared(log_dirs: Sequence[str], request: Request, *, dry_run: bool) -> RunResult:
    """Commit the preparations in these log directories, whose brokers are stopped.

    `request.settings` are not used: each preparation says where its settings come from, and they
    are read again. `dry_run`: only check. Partitions without a preparation are not in the result.
    """
    with locked(log_dirs, to_change=not dry_run) as dirs:
        request.check_globs(topics_of(dirs))
        found = [
            (log_dir, at, here)
            for log_dir in dirs
            if log_dir.error is None
            for at in log_dir.partitions
            if request.wants(at.topic) and (here := [*existing_in(Places(), log_dir, at)])
        ]
        used = {one.prepared.asked for *_, here in found for one in here if one.prepared}
        settings = {asked: _settings_of(asked, dirs, request) for asked in used}
        done = commit_several(
            [partial(_one, *one, settings, request, dry_run=dry_run) for one in found],
            [f"{log_dir.path}/{at}" for log_dir, at, _ in found],
            request.progress,
            doing=f"{'checking' if dry_run else 'committing'} {counted(len(found), 'partition')}",
        )
        notes = [note for d in dirs if (note := why_seen_here_only(d.path))]
        notes += [f"{d.path} is skipped: {d.error}" for d in dirs if d.error is not None]
        return RunResult(
            run_id=request.run_id,
            verb="commit",
            now=request.now,
            partitions=tuple(result for result in done if result is not None),
            notes=tuple(notes),
            strangers=strangers_in(dirs),
        )


def _settings_of(
    asked: SettingsAsked, dirs: Sequence[LogDir], request: Request
) -> Settings | Failure:
    """Read the settings again that preparations were made with."""
    try:
        return with_metadata(asked.read(), Places(), dirs, request.stop)[0]
    except FAILS_ONE_PARTITION as error:
        return failure(error)


def _one(
    log_dir: LogDir,
    at: TopicPartition,
    here: Sequence[Existing],
    settings: AllSettings,
    request: Request,
    *,
    dry_run: bool,
) -> PartitionResult | None:
    """Commit the newest preparation of a partition, and remove all others. Return None if there is
    nothing to tell.
    """
    try:
        if any(one.journal for one in here):
            return None if dry_run else _finished(log_dir, at, request)
        readable = [one for one in here if one.prepared is not None]
        if not readable:
            return _unread(log_dir, at, here, request, dry_run=dry_run)
        newest = max(readable, key=lambda one: one.prepared.taken.wall_ms if one.prepared else 0)
        for one in here:
            if one is not newest and not dry_run:
                remove_staging(request.storage, one.staging)
        return _newest(newest, settings, request, dry_run=dry_run)
    except FAILS_ONE_PARTITION as error:
        return _left(log_dir, at, failure(error))


def _newest(
    one: Existing, settings: AllSettings, request: Request, *, dry_run: bool
) -> PartitionResult:
    prepared, log_dir, at = one.prepared, one.log_dir, one.topic_partition
    if prepared is None:
        raise CorruptLogError("a preparation that can't be read", where=one.staging)
    place, known = PartitionPlace(log_dir.path, at), settings[prepared.asked]
    if isinstance(known, Failure):
        return _left(log_dir, at, known)
    if (why := _why_not_begun(prepared, place, request)) is not None:
        return _left(log_dir, at, why)
    if not dry_run:
        # What the broker was doing when it stopped. It is no change of the log.
        recover(request.storage, place.directory, keep=(one.staging,))
    now = Now(
        storage=request.storage,
        log_dir=log_dir,
        topic_partition=at,
        settings=known,
        at=Instant.now(),
        kafka_version=known.kafka.versions,
        check_stopped=request.stop.check,
    )
    dropped, config = why_dropped(prepared, one.staging, now), config_now(now)
    if dropped is not None or isinstance(config, Unknown):
        if not dry_run:
            remove_staging(request.storage, one.staging)
        return _dropped(one, prepared, dropped)
    request = replace(
        request,
        run_id=prepared.run_id,
        now=prepared.now,
        only=cast("Only | None", prepared.only),
        settings=known,
    )
    item = planned_again(prepared, place, log_dir, config, request)
    return _would(item, prepared) if dry_run else _install(item, prepared, one.staging, request)


def _why_not_begun(
    prepared: PreparedPartition, place: PartitionPlace, request: Request
) -> Failure | None:
    """Return why a preparation is not even checked."""
    if (reason := request.stop.reason) is not None:
        return Failure(f"not begun: the run was stopped, {reason}", WinnowError.exit_code)
    unwritable = why_unwritable(place, [segment.base_offset for segment in prepared.segments])
    return None if unwritable is None else Failure(unwritable.words, WinnowError.exit_code)


def _install(
    item: PlannedPartition, prepared: PreparedPartition, staging: str, request: Request
) -> PartitionResult:
    if prepared.round is None:
        result = retain_only(item, request)
        remove_staging(request.storage, staging)
        return result
    done = commit(item, staged_again(prepared, staging), request)
    if isinstance(done, StagedPartition):
        raise CorruptLogError("a preparation of which groups are missing", where=staging)
    return done


def planned_again(
    prepared: PreparedPartition,
    place: PartitionPlace,
    log_dir: LogDir,
    config: TopicConfig,
    request: Request,
) -> PlannedPartition:
    """Return the plan of a preparation that holds, for the partition as it is now."""
    state = _state(prepared, place, log_dir, request)
    decided, compaction = prepared.round, None
    retention, words = None, ""
    if decided is not None:
        groups = tuple(group.sources for group in prepared.groups)
        compaction = CompactionPlan(
            first_dirty_offset=decided.first_dirty_offset,
            end_offset=decided.end_offset,
            cleanable_bytes=decided.cleanable_bytes,
            groups=groups,
        )
    elif log_dir.clean_shutdown:
        retention, why = retention_of(state, config, request.now, request.only)
        words = why.words
    plan = PartitionPlan(
        state=state,
        config=config,
        rule=RULE if decided is None else decided.rule,
        reason=(words or "only retention was prepared") if decided is None else decided.reason,
        dirty_ratio=None if decided is None else decided.dirty_ratio,
        first_dirty_offset=None if decided is None else decided.first_dirty_offset,
        compaction=compaction,
        retention=retention,
    )
    return PlannedPartition(
        place=place,
        log_dir=log_dir,
        config=config,
        state=state,
        plan=plan,
        snapshot=Snapshot(state.log_end_offset, ()),
        compacts_less=decided is not None and decided.compacts_less,
    )


def _state(
    prepared: PreparedPartition, place: PartitionPlace, log_dir: LogDir, request: Request
) -> PartitionState:
    """Return the partition as it is now. Segments that are as they were are not read again."""
    storage, at = request.storage, place.topic_partition
    stamps = {
        source.base_offset: stamp
        for group in prepared.groups
        for source, stamp in zip(group.sources, group.stamps, strict=True)
    }
    device = storage.entry(place.directory).stamp[0]
    known = PartitionState(
        log_dir=place.log_dir,
        topic_partition=at,
        segments=tuple(
            replace(segment, log_stamp=(device, stamp.inode, stamp.mtime, stamp.ctime))
            for segment in prepared.segments
            if (stamp := stamps.get(segment.base_offset)) is not None
        ),
        log_start_offset=prepared.log_start_offset,
        log_end_offset=prepared.log_end_offset,
        high_watermark=prepared.log_start_offset,
        cleaner_checkpoint=prepared.cleaner_checkpoint,
        log_start_checkpoint=prepared.log_start_checkpoint,
        snapshot_offsets=(),
        leader_epochs=prepared.leader_epochs,
    )
    listing = list_again(storage, place.directory, known)
    if listing.problems:
        raise listing.problems[0]
    if not listing.segments:
        raise CorruptLogError("a partition without a segment", where=place.directory)
    end = listing.segments[-1].base_offset
    if log_dir.clean_shutdown:  # a broker that stops writes down where each log ends
        end = max(end, log_dir.checkpoints.recovery_point.get(at, 0))
    return resolve(
        listing,
        log_dir=place.log_dir,
        topic_partition=at,
        checkpoints=log_dir.checkpoints,
        log_end_offset=end,
    )


def staged_again(prepared: PreparedPartition, staging: str) -> StagedPartition:
    """Return what is staged of a preparation that holds."""
    directory = staging.rpartition("/")[0]
    end = prepared.end_offset
    if end is None:
        raise ValueError("a preparation without a round")
    return StagedPartition(
        directory=directory,
        staging=staging,
        journal=Journal(
            run_id=prepared.run_id,
            now=prepared.now,
            end_offset=end,
            checkpoint_before=prepared.cleaner_checkpoint,
            groups=tuple(
                JournalGroup(sources=group.sources, open_producers=(), lingering=(), output=None)
                for group in prepared.groups
            ),
            rest=None,
        ),
        begun=False,
        total_groups=len(prepared.groups),
        groups=tuple(_cleaned(group, staging) for group in prepared.groups),
    )


def _cleaned(group: PreparedGroup, staging: str) -> CleanedGroup:
    staged = None
    if group.files:
        staged = StagedGroup(
            sources=group.sources,
            paths={suffix: f"{staging}/{file.name}" for suffix, file in group.files.items()},
            checksums={suffix: file.crc32c for suffix, file in group.files.items()},
        )
    return CleanedGroup(
        sources=group.sources,
        segment=group.segment,
        unchanged=staged is None,
        records_before=group.records_before,
        records_after=group.records_after,
        removed=group.removed,
        tombstones=group.tombstones,
        checksum=group.checksum,
        source_checksums=dict(zip(group.source_bases, group.checksums, strict=True)),
        unread=group.unread,
        staged=staged,
        duration_ms=group.duration_ms,
    )


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
    for one in here:
        if not dry_run:
            remove_staging(request.storage, one.staging)
    problems = [one.problem for one in here if one.problem is not None]
    if not problems:
        return None  # an interrupted preparation
    words = f"the preparation can't be read: {problems[0]}"
    return _unchanged(log_dir, at, words, left_alone=True)


def _dropped(
    one: Existing, prepared: PreparedPartition, dropped: Dropped | None
) -> PartitionResult:
    words = f"the preparation was dropped: {dropped or 'its settings are unknown'}"
    result = _unchanged(one.log_dir, one.topic_partition, words, left_alone=True)
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


def preparations_of(dirs: Sequence[LogDir]) -> Iterator[Existing]:
    """Yield all preparations in these log directories."""
    for log_dir in dirs:
        for at in log_dir.partitions:
            yield from (one for one in existing_in(Places(), log_dir, at) if not one.journal)
