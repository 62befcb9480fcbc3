"""Explain why a partition is cleaned or not: the rule, its facts, and each segment's fate."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.policy.cleanable import CleanableRange, oldest_first_batch
from winnow.policy.fate import Decision, Fact, Verdict
from winnow.policy.plan import CompactionPlan
from winnow.policy.retention import why_kept
from winnow.state import PartitionState, Segment
from winnow.verbs.explain.records import Ground
from winnow.verbs.explain.values import SegmentDecision
from winnow.words import counted


def trusted(state: PartitionState) -> tuple[Segment, ...]:
    """Return the segments that are certainly sound: outside what a crash may have torn (S8.2)."""
    end = state.trusted_end
    if end is None:
        return state.segments
    return tuple(one for one, after in pairwise(state.segments) if after.base_offset <= end)


def state_facts(state: PartitionState) -> tuple[Fact, ...]:
    return (
        Fact("segments", len(state.segments)),
        Fact("bytes", state.log_bytes),
        Fact("log_start_offset", state.log_start_offset),
        Fact("high_watermark", state.high_watermark),
        Fact("log_end_offset", state.log_end_offset),
        Fact("active_segment", state.active.base_offset),
        Fact("cleaner_checkpoint", state.cleaner_checkpoint),
        *([Fact("trusted_end", state.trusted_end)] if state.trusted_end is not None else []),
    )


def compaction_facts(item: PlannedPartition) -> tuple[Fact, ...]:
    config, plan, found = item.config, item.plan.compaction, item.plan.cleanable
    if found is None:
        return ()
    dirty = [s for s in item.state.segments[:-1] if s.base_offset >= found.first_dirty_offset]
    # Transactions were not read if the partition is not compacted anyway.
    known = [item.transactions] if item.transactions else []
    return (
        *(Fact("last_stable_offset", one.last_stable_offset) for one in known),
        Fact("first_dirty_offset", found.first_dirty_offset),
        Fact("first_uncleanable_offset", found.first_uncleanable_offset),
        Fact("why_uncleanable", found.why),
        Fact("clean_bytes", found.clean_bytes),
        Fact("cleanable_bytes", found.cleanable_bytes),
        Fact("dirty_ratio", found.ratio),
        Fact("min_cleanable_dirty_ratio", config.min_cleanable_dirty_ratio),
        Fact("oldest_dirty_batch", oldest_first_batch(dirty), time=True),
        *([Fact("split_first", len(item.overflowed))] if item.overflowed else []),
        Fact("groups", None if plan is None else len(plan.groups)),
    )


def retention_facts(item: PlannedPartition, *, previewed: bool) -> tuple[Fact, ...]:
    """Return the facts about retention.

    `previewed`: what it deletes does not depend on what a compaction keeps (S3.5).
    """
    plan = item.plan.retention
    if not previewed:
        return (Fact("retention", "runs after compaction, on what compaction keeps (S3.5)"),)
    if plan is None:
        return ()
    return (
        Fact("retention_takes_segments", len(plan.deleted)),
        Fact("log_start_offset_after", plan.log_start_offset),
    )


def not_compacted(item: PlannedPartition, now: int, *, deleted: int) -> Decision:
    """Explain why records are kept that neither a round nor retention reaches. `deleted` is the
    number of segments that retention deletes.
    """
    if not deleted or deleted == len(item.state.segments):
        return Decision(Verdict.STAYS, item.plan.rule, item.plan.reason)
    left = replace(item.state, segments=item.state.segments[deleted:])
    kept = why_kept(left, item.config, now)
    return Decision(Verdict.STAYS, kept.rule, f"retention stops before its segment: {kept.words}")


def beyond_cleanable(found: CleanableRange) -> Decision:
    """Explain why a record at or above U' is not reached."""
    end = found.first_uncleanable_offset
    words = f"it is not cleaned: cleaning ends at offset {end}, because {found.why}"
    return Decision(Verdict.STAYS, "S3.3", words, (Fact("first_uncleanable_offset", end),))


def segment_fates(ground: Ground, plan: CompactionPlan | None) -> tuple[SegmentDecision, ...]:
    together = {group[0].base_offset: len(group) for group in plan.groups} if plan else {}
    fates = []
    for segment in ground.state.segments:
        base = segment.base_offset
        home = ground.source_of.get(base)
        if home is None:
            active = base == ground.state.active.base_offset
            fate = _ACTIVE if active and ground.job is not None else ground.untouched
        elif together[home] == 1:
            fate = Decision(Verdict.STAYS, "S5.2", "cleaned alone")
        else:
            others = counted(together[home] - 1, "other")
            fate = Decision(Verdict.STAYS, "S5.2", f"cleaned into segment {home}, with {others}")
        taken = (ground.deleted or {}).get(base if home is None else home)
        if taken is not None and home is not None:
            taken = Decision(Verdict.GOES, taken.rule, f"{fate.words}; then {taken.words}")
        newest = segment.largest_timestamp
        fates.append(SegmentDecision(base, segment.log_bytes, newest, taken or fate))
    return tuple(fates)


_ACTIVE = Decision(Verdict.STAYS, "S3.2", "the active segment is never cleaned")
