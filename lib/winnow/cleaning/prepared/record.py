"""Write down what was prepared of a partition, and what a commit must check."""

from __future__ import annotations

from collections.abc import Iterable

from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.cleaning.prepared.checks import owner_of
from winnow.cleaning.prepared.tail import find_anchor
from winnow.cleaning.prepared.value import (
    Instant,
    PlannedRound,
    PreparedGroup,
    PreparedPartition,
    StagedAs,
    Stamp,
    settings_in_words,
    write_prepared,
)
from winnow.cleaning.request import Preparing, Request
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.errors import WinnowError
from winnow.logdir.names import LOG, segment_file
from winnow.storage.local import LocalStorage

_LOCAL = LocalStorage()
_MOST_REASON = 2_000
"""Characters of a reason that are stored."""


class ChangedError(WinnowError):
    """The partition was changed while it was being prepared. A later run prepares it."""


def record(
    item: PlannedPartition,
    staging: str,
    groups: tuple[CleanedGroup, ...],
    request: Request,
    preparing: Preparing,
) -> None:
    """Write the preparation of a partition whose groups are staged.

    `groups`: none if only retention is due. Raises ChangedError if a source is not any more the
    file that was read.
    """
    state, storage = item.state, request.storage
    _check_sources(state.directory, groups)
    taken = Instant.now()
    checkpoints, at = item.log_dir.checkpoints, item.place.topic_partition
    plan = item.plan.compaction
    grouped = {base for group in groups for base in group.source_bases}
    prepared = PreparedPartition(
        run_id=request.run_id,
        now=request.now,
        expires_ms=request.now + preparing.most_age_ms,
        taken=taken,
        owner=owner_of(storage, item.log_dir, state.directory),
        asked=preparing.asked,
        settings=settings_in_words(item.config),
        kafka_version=request.settings.kafka.versions,
        only=request.only,
        beside=tuple(s for s in state.segments if s.base_offset not in grouped),
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        cleaner_checkpoint=checkpoints.cleaner.get(at),
        log_start_checkpoint=checkpoints.log_start.get(at),
        leader_epochs=state.leader_epochs,
        anchor=find_anchor(storage, state),
        round=None
        if plan is None
        else PlannedRound(
            rule=item.plan.rule,
            reason=item.plan.reason[:_MOST_REASON],
            dirty_ratio=item.plan.dirty_ratio,
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=plan.end_offset,
            cleanable_bytes=plan.cleanable_bytes,
            compacts_less=item.compacts_less,
        ),
        groups=tuple(map(_group, groups)),
    )
    write_prepared(storage, staging, prepared)


def _check_sources(directory: str, groups: Iterable[CleanedGroup]) -> None:
    """Raise ChangedError unless each source still has its name (S8.12). The names are looked up in
    the directory itself, not in the read view.
    """
    for group in groups:
        for source in group.sources:
            name = segment_file(source.base_offset, LOG)
            try:
                found = _LOCAL.entry(f"{directory}/{name}").stamp
            except FileNotFoundError:
                found = ()
            if found != source.log_stamp:
                raise ChangedError(
                    "the partition was changed while it was being prepared",
                    expected=f"the same {name} as when it was read",
                    found="another file" if found else "no such file",
                    where=directory,
                    hint="The broker has cleaned it, or deleted or truncated it. Prepare again.",
                )


def _group(group: CleanedGroup) -> PreparedGroup:
    staged = group.staged
    entries = {} if staged is None else staged.entries
    checksums = {} if staged is None else staged.checksums
    return PreparedGroup(
        sources=group.sources,
        stamps=tuple(Stamp.of(source.log_stamp) for source in group.sources),
        checksums=tuple(group.source_checksums[base] for base in group.source_bases),
        segment=group.segment,
        files={
            suffix: StagedAs(entry.name, entry.size, checksums[suffix], Stamp.of(entry.stamp))
            for suffix, entry in entries.items()
        },
        checksum=group.checksum,
        unread=group.unread,
        records_before=group.records_before,
        records_after=group.records_after,
        removed=group.removed,
        tombstones=group.tombstones,
        duration_ms=group.duration_ms,
    )
