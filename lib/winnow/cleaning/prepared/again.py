"""What a commit works on: the plan and the staged groups as `clean` has them, made from what was
prepared, for the partition as it is now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.cleaning.prepared.tail import log_end
from winnow.cleaning.prepared.value import RULE, PreparedGroup, PreparedPartition
from winnow.cleaning.request import Request
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.staged import StagedPartition
from winnow.errors import CorruptLogError
from winnow.logdir.commit.journal import Journal, JournalGroup
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.listing import list_again, resolve
from winnow.logdir.survey import LogDir
from winnow.policy.config import TopicConfig
from winnow.policy.decide import retention_of
from winnow.policy.plan import CompactionPlan, PartitionPlan
from winnow.state import PartitionState
from winnow.storage.contract import Entry
from winnow.survey.place import PartitionPlace
from winnow.survey.transactions import Snapshot


def planned_again(
    prepared: PreparedPartition,
    place: PartitionPlace,
    log_dir: LogDir,
    config: TopicConfig,
    request: Request,
    entries: Sequence[Entry],
) -> PlannedPartition:
    """Return the plan of a preparation that holds, for the partition as it is now. `entries`: what
    has just been found in its directory.
    """
    state = _state(prepared, place, log_dir, request, entries)
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
    prepared: PreparedPartition,
    place: PartitionPlace,
    log_dir: LogDir,
    request: Request,
    entries: Sequence[Entry],
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
    listing = list_again(storage, place.directory, known, entries=entries)
    if listing.problems:
        raise listing.problems[0]
    if not listing.segments:
        raise CorruptLogError("a partition without a segment", where=place.directory)
    active = listing.segments[-1]
    end = active.base_offset
    if log_dir.clean_shutdown:
        end = log_end(storage, place.directory, active)
    return resolve(
        listing,
        log_dir=place.log_dir,
        topic_partition=at,
        checkpoints=log_dir.checkpoints,
        log_end_offset=end,
        clean_shutdown=log_dir.clean_shutdown,
    )


def staged_again(
    prepared: PreparedPartition, staging: str, inside: Mapping[str, Entry]
) -> StagedPartition:
    """Return what is staged of a preparation that holds. `inside`: what is in its directory."""
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
        groups=tuple(_cleaned(group, staging, inside) for group in prepared.groups),
    )


def _cleaned(group: PreparedGroup, staging: str, inside: Mapping[str, Entry]) -> CleanedGroup:
    staged = None
    if group.files:
        staged = StagedGroup(
            sources=group.sources,
            paths={suffix: f"{staging}/{file.name}" for suffix, file in group.files.items()},
            checksums={suffix: file.crc32c for suffix, file in group.files.items()},
            entries={suffix: inside[file.name] for suffix, file in group.files.items()},
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
