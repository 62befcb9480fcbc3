"""Add up what is known of a partition's segments: records, key holders, and what became of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from winnow.cleaning.plan.prepared import PartitionWork
from winnow.cleaning.result import Fate, RecordsRemoved, SegmentFate
from winnow.cleaning.rewrite.output import CleanedGroup
from winnow.policy.plan import RetentionPlan
from winnow.scan.topic_usage import Holdings
from winnow.state import PartitionState


def records_counted(item: PartitionWork, groups: Sequence[CleanedGroup] = ()) -> int | None:
    """Return the number of records, known only if every batch header was read. Headers of v0 and v1
    don't contain the count, but `groups` have counted.
    """
    if item.walks is None or item.state.trusted_end is not None:
        return None
    rewritten = {source for group in groups for source in group.source_bases}
    left = [walk for walk in item.walks if walk.base_offset not in rewritten]
    if any(walk.guessed for walk in left):
        return None
    return sum(walk.records for walk in left) + sum(group.records_before for group in groups)


def records_after(
    item: PartitionWork, groups: Sequence[CleanedGroup], retention: RetentionPlan | None
) -> int | None:
    if item.walks is None or item.state.trusted_end is not None:
        return None
    records = _records_left(item, groups)
    for segment in retention.deleted if retention else ():
        del records[segment.base_offset]
    left = [count for count in records.values() if count is not None]
    return sum(left) if len(left) == len(records) else None


def _records_left(item: PartitionWork, groups: Sequence[CleanedGroup]) -> dict[int, int | None]:
    """Return the records of each segment after `groups` are in place; None where headers don't say.
    Empty if no header was read.
    """
    records = {
        walk.base_offset: None if walk.guessed else walk.records for walk in item.walks or ()
    }
    for group in groups:
        for source in group.source_bases:
            records.pop(source, None)
        records[group.base_offset] = group.records_after
    return records


def records_removed(
    item: PartitionWork, groups: Sequence[CleanedGroup], retention: RetentionPlan | None
) -> RecordsRemoved | None:
    if item.finished is not None:
        return None  # only an earlier run knew
    counts = _records_left(item, groups)
    counts_deleted = (
        [counts.get(segment.base_offset) for segment in retention.deleted] if retention else []
    )
    known = [count for count in counts_deleted if count is not None]
    if len(known) < len(counts_deleted):
        return None
    return sum((group.removed for group in groups), RecordsRemoved(retention=sum(known)))


def tombstones_left(groups: Sequence[CleanedGroup]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*(group.tombstones for group in groups), strict=True)))


def bases_replaced(groups: Sequence[CleanedGroup]) -> list[int]:
    return [base for group in groups if not group.unchanged for base in group.source_bases]


def segments_unchanged(groups: Sequence[CleanedGroup]) -> int | None:
    """Return the number of segments that stay as they are; None without groups."""
    return sum(group.unchanged for group in groups) if groups else None


def segments_unread(groups: Sequence[CleanedGroup]) -> int | None:
    """Return the number of segments that were not read; None without groups."""
    return sum(group.unread for group in groups) if groups else None


def holdings_before(item: PartitionWork) -> list[Holdings | None]:
    return [walk.holdings for walk in item.walks or ()]


def holdings_after(
    item: PartitionWork, groups: Sequence[CleanedGroup], retention: RetentionPlan | None
) -> list[Holdings | None]:
    if item.walks is None:
        return []
    left = {walk.base_offset: walk.holdings for walk in item.walks}
    for group in groups:
        for source in group.source_bases:
            del left[source]
        left[group.base_offset] = group.holdings
    for segment in retention.deleted if retention else ():
        left.pop(segment.base_offset, None)  # missing without a walk
    return list(left.values())


def segment_fates(
    state: PartitionState,
    *,
    compacted: Collection[int] = (),
    deleted: Collection[int] = (),
    checksums: Mapping[int, int] | None = None,
) -> tuple[SegmentFate, ...]:
    """Return the fates of all segments of `state`.

    `compacted`, `deleted`: base offsets; a segment in both was compacted, then deleted.
    `checksums`: of segments that compaction read, by base offset.
    """
    fates: dict[int, Fate] = {
        **dict.fromkeys(compacted, "compacted"),
        **dict.fromkeys(deleted, "deleted"),
    }
    return tuple(
        SegmentFate(
            segment.base_offset,
            segment.log_bytes,
            segment.largest_timestamp,
            fates.get(segment.base_offset, "kept"),
            (checksums or {}).get(segment.base_offset),
        )
        for segment in state.segments
    )
