"""Which segments of a partition are known, so that a cleaning may leave them unread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.cleaning.plan.prepared import PartitionWork
from winnow.cleaning.request import Request
from winnow.cleaning.summaries.store import opened, place_of, read_list
from winnow.logdir.survey import LogDir
from winnow.policy.plan import CompactionPlan
from winnow.scan.values import SegmentSummary
from winnow.state import PartitionState
from winnow.storage.urls import is_remote
from winnow.wire.internal_topics import INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class KnownSegments:
    """What is known of a partition that is about to be compacted."""

    place: str
    end_offset: int
    segments: Mapping[int, SegmentSummary]
    """By base offset, those that stay unless a dirty record has one of their keys."""
    unique: bool
    """See `Kept.has_unique_keys`."""


def place_for(state: PartitionState, request: Request) -> str | None:
    """Return the directory for the summaries of a partition, if there are any.

    Kafka's own topics are always read whole: a run counts the holders of their keys. So are remote
    segments: their files have no inode and no ctime.
    """
    internal = state.topic_partition.topic in INTERNAL_TOPICS
    if request.key_summaries is None or internal or is_remote(state.directory):
        return None
    return place_of(request.key_summaries, state.directory)


def known_of(item: PartitionWork, request: Request) -> KnownSegments | None:
    """Return the segments that need not be read if no dirty record has one of their keys, if any.

    Such a segment lies in the clean range and above the log start offset. It is alone in its group.
    Nobody needs its producers. It has the indexes that a cleaning would write now. After an unclean
    shutdown, nothing is known.
    """
    state, plan, config = item.state, item.plan.compaction, item.config
    place = place_for(state, request)
    if place is None or plan is None or request.spool is None or item.goes_on is not None:
        return None
    if state.recovered is not None or state.trusted_end is not None:
        return None
    kept = read_list(place)
    ends = {
        segment.base_offset: following.base_offset
        for segment, following in zip(state.segments, state.segments[1:], strict=False)
    }
    last = min(plan.first_dirty_offset, item.snapshot.offset)
    alone, settings = _alone(plan), (config.index_interval_bytes, config.segment_index_bytes)
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
    return KnownSegments(place, plan.end_offset, segments, unique) if segments else None


def _alone(plan: CompactionPlan) -> set[int]:
    return {group[0].base_offset for group in plan.groups if len(group) == 1}


def still_fits(item: PartitionWork, known: KnownSegments) -> bool:
    """Return whether the unread segments may stay unread under the plan with transactions."""
    plan = item.plan.compaction
    unread = {walk.base_offset for walk in item.walks or () if walk.stays is not None}
    if plan is None or not unread:
        return True
    cleaned = {segment.base_offset for segment in plan.segments}
    return plan.end_offset <= known.end_offset and unread & cleaned <= _alone(plan)


def with_summaries(request: Request, dirs: Sequence[LogDir]) -> Request:
    """Return the request with the secret of the summaries; without summaries if tasks run
    elsewhere, or if they can't be used.
    """
    where, found = request.key_summaries, None
    if where is not None and request.spool is not None:
        found = opened(where, {d.path: map(str, d.partitions) for d in dirs})
    if found is None:
        return replace(request, key_summaries=None)
    place, secret = found
    return replace(request, key_summaries=place, secret=secret)
