"""Add up what is known of a partition's segments: records, key holders, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from winnow.cleaning.plan.prepared import PartitionWork
from winnow.cleaning.result import Fate, RecordsRemoved, SegmentFate
from winnow.cleaning.rewrite.output import CleanedGroup
from winnow.scan.topic_usage import Holdings
from winnow.state import PartitionState
from winnow.survey.walk import SegmentWalk

_T = TypeVar("_T")


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
    item: PartitionWork, groups: Sequence[CleanedGroup], deleted: Collection[int]
) -> int | None:
    """`deleted`: base offsets of the segments that retention deletes afterwards."""
    if item.walks is None or item.state.trusted_end is not None:
        return None
    records = _records_left(item, groups)
    for base in deleted:
        del records[base]
    left = [count for count in records.values() if count is not None]
    return sum(left) if len(left) == len(records) else None


def records_removed(
    item: PartitionWork, groups: Sequence[CleanedGroup], deleted: Collection[int]
) -> RecordsRemoved | None:
    if item.finished is not None:
        return None  # only an earlier run knew
    counts = _records_left(item, groups)
    gone = [counts.get(base) for base in deleted]
    known = [count for count in gone if count is not None]
    if len(known) < len(gone):
        return None
    return sum((group.removed for group in groups), RecordsRemoved(retention=sum(known)))


def _records_left(item: PartitionWork, groups: Sequence[CleanedGroup]) -> dict[int, int | None]:
    """Return the records of each segment after `groups` are in place; None where nobody counted."""
    return _left(
        item,
        groups,
        lambda walk: None if walk.guessed else walk.records,
        lambda group: group.records_after,
    )


def holdings_before(item: PartitionWork) -> list[Holdings | None]:
    return [walk.holdings for walk in item.walks or ()]


def holdings_after(
    item: PartitionWork, groups: Sequence[CleanedGroup], deleted: Collection[int]
) -> list[Holdings | None]:
    left = _left(item, groups, lambda walk: walk.holdings, lambda group: group.holdings)
    gone = {*deleted}
    return [holdings for base, holdings in left.items() if base not in gone]


def _left(
    item: PartitionWork,
    groups: Sequence[CleanedGroup],
    of_walk: Callable[[SegmentWalk], _T],
    of_group: Callable[[CleanedGroup], _T],
) -> dict[int, _T]:
    """Return what is known of each segment, by base offset, after `groups` are in place. Empty if
    no header was read.
    """
    left = {walk.base_offset: of_walk(walk) for walk in item.walks or ()}
    for group in groups:
        for source in group.source_bases:
            left.pop(source, None)
        left[group.base_offset] = of_group(group)
    return left


def counts_of(groups: Sequence[CleanedGroup]) -> dict[str, Any]:
    """Return the fields of `PartitionResult` that count unchanged segments."""
    return {
        "segments_unchanged": sum(group.unchanged for group in groups) if groups else None,
        "segments_unread": sum(group.unread for group in groups) if groups else None,
    }


def tombstones_left(groups: Sequence[CleanedGroup]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*(group.tombstones for group in groups), strict=True)))


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
