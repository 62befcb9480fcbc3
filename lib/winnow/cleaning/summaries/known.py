"""Which segments of a partition are known, so that a cleaning may leave them unread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from winnow.cleaning.request import Request
from winnow.cleaning.summaries.store import opened, place_of, read_list
from winnow.logdir.survey import LogDir
from winnow.policy.config import TopicConfig
from winnow.policy.plan import CompactionPlan
from winnow.scan.values import SegmentSummary
from winnow.state import PartitionState
from winnow.survey.walk import SegmentWalk


@dataclass(frozen=True, slots=True)
class KnownSegments:
    """What is known of a partition that is about to be compacted."""

    place: str = ""
    end_offset: int = 0
    segments: Mapping[int, SegmentSummary] = field(default_factory=dict)
    """By base offset, those that stay unless a dirty record has one of their keys."""
    unique: bool = False
    """See `Kept.has_unique_keys`."""


def known_of(
    key_summaries: str,
    state: PartitionState,
    plan: CompactionPlan,
    config: TopicConfig,
    *,
    producers_from: int,
) -> KnownSegments:
    """Return the segments that need not be read if no dirty record has one of their keys.

    Such a segment lies in the clean range and above the log start offset. It is alone in its group.
    Nobody needs its producers. It has the indexes that a cleaning would write now. After an unclean
    shutdown, nothing is known.
    """
    if state.recovered is not None or state.trusted_end is not None:
        return KnownSegments()
    place = place_of(key_summaries, state.directory)
    kept = read_list(place)
    alone = {group[0].base_offset for group in plan.groups if len(group) == 1}
    ends = {
        segment.base_offset: following.base_offset
        for segment, following in zip(state.segments, state.segments[1:], strict=False)
    }
    last = min(plan.first_dirty_offset, producers_from)
    settings = config.index_interval_bytes, config.segment_index_bytes
    segments = {
        base: summary
        for base, summary in kept.fitting(state).items()
        if base in alone
        and state.log_start_offset <= base
        and ends.get(base, last + 1) <= last
        and summary.next_offset <= ends[base]
        and (summary.index_interval_bytes, summary.segment_index_bytes) == settings
    }
    unique = kept.has_unique_keys(state, plan.first_dirty_offset)
    return KnownSegments(place, plan.end_offset, segments, unique=unique)


def as_walk(summary: SegmentSummary) -> SegmentWalk:
    """Return what a walk would find in a segment that is not read."""
    return SegmentWalk(
        summary.base_offset,
        summary.next_offset,
        batches=summary.batches,
        records=summary.records,
        first_live=summary.first_batch,
        stays=summary,
    )


def still_fits(
    walks: tuple[SegmentWalk, ...], plan: CompactionPlan | None, end_offset: int
) -> bool:
    """Return whether the unread segments may stay unread under the plan with transactions."""
    unread = {walk.base_offset for walk in walks if walk.stays is not None}
    if plan is None or not unread:
        return True
    alone = {group[0].base_offset for group in plan.groups if len(group) == 1}
    cleaned = {segment.base_offset for segment in plan.segments}
    return plan.end_offset <= end_offset and unread & cleaned <= alone


def with_summaries(request: Request, dirs: Sequence[LogDir]) -> Request:
    """Return the request with the secret of the summaries; without summaries if tasks run
    elsewhere, or if they can't be used.
    """
    where = request.key_summaries
    if where is None or request.spool is None:
        return replace(request, key_summaries=None)
    found = opened(where, {d.path: map(str, d.partitions) for d in dirs})
    if found is None:
        return replace(request, key_summaries=None)
    place, secret = found
    return replace(request, key_summaries=place, secret=secret)
