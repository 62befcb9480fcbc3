"""Add up what is known of a partition's segments: records, key holders, and what became of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.cleaning.result import Fate, RecordsRemoved, SegmentFate
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.scan.topic_usage import top_holders
from winnow.state import PartitionState
from winnow.survey.walk import SegmentWalk


def records_of(
    item: PlannedPartition, groups: Sequence[CleanedGroup], deleted: Collection[int]
) -> dict[str, Any]:
    """Return the fields of `PartitionResult` that count records, once `groups` are in place and
    then the segments at the base offsets `deleted` are gone. A count is None if it is unknown.
    """
    left: dict[int, SegmentWalk | CleanedGroup] = {w.base_offset: w for w in item.walks or ()}
    before = [one.holdings for one in left.values()]
    for group in groups:
        for source in group.source_bases:
            left.pop(source, None)
        left[group.base_offset] = group
    compacted = _records(left.values())
    gone = _records([left.pop(base, None) for base in deleted])
    after = _records(left.values())
    if item.walks is None or item.state.trusted_end is not None:  # not every header was read
        compacted = after = None
    dropped = sum(group.records_before - group.records_after for group in groups)
    removed = None
    if gone is not None and item.finished is None:  # else only an earlier run knew
        removed = sum((group.removed for group in groups), RecordsRemoved(retention=gone))
    return {
        "records_before": None if compacted is None else compacted + dropped,
        "records_after": after,
        "records_removed": removed,
        "holders": top_holders(before, [one.holdings for one in left.values()])[0],
    }


def _records(some: Iterable[SegmentWalk | CleanedGroup | None]) -> int | None:
    """Return the number of records in some segments. None if it is unknown for one: headers of v0
    and v1 don't contain it.
    """
    total = 0
    for one in some:
        if one is None or (isinstance(one, SegmentWalk) and one.guessed):
            return None
        total += one.records if isinstance(one, SegmentWalk) else one.records_after
    return total


def segments_of(groups: Sequence[CleanedGroup], deleted: Collection[int] = ()) -> dict[str, Any]:
    """Return the fields of `PartitionResult` that count unchanged segments and the tombstones in
    segments that are not `deleted` afterwards.
    """
    left = [group.tombstones for group in groups if group.base_offset not in deleted]
    return {
        "segments_unchanged": sum(group.unchanged for group in groups) if groups else None,
        "segments_unread": sum(group.unread for group in groups) if groups else None,
        "tombstones": tuple(map(sum, zip(*left, strict=True))),
    }


def bases_replaced(groups: Sequence[CleanedGroup]) -> list[int]:
    return [base for group in groups if not group.unchanged for base in group.source_bases]


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
