"""Choose segments to delete when only some space is needed: the oldest of those that retention
allows to delete (S7.2, S7.3).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from winnow.policy.plan import RetentionPlan
from winnow.state import PartitionState, Segment
from winnow.words import counted


def file_bytes(segment: Segment) -> int:
    return segment.log_bytes + sum(size or 0 for size in segment.index_sizes)


def oldest_first(
    plans: Sequence[tuple[PartitionState, RetentionPlan | None]], *, wanted: int
) -> list[RetentionPlan | None]:
    """Return what to delete of each partition, in the order given: at most its plan, and no active
    segment.

    Of the lowest deletable segments of all partitions, the one whose newest record is oldest is
    deleted next, until the deleted files have `wanted` bytes or nothing more may be deleted.
    Deleting an active segment would require writing a new one.
    """
    may_go = [
        [(segment, which) for segment in plan.deleted[: len(state.segments) - 1]]
        for which, (state, plan) in enumerate(plans)
        if plan is not None
    ]
    taken = [0] * len(plans)
    freed = 0
    for segment, which in heapq.merge(*may_go, key=lambda item: item[0].largest_timestamp):
        if freed >= wanted:
            break
        freed += file_bytes(segment)
        taken[which] += 1
    return [_first(state, plan, count) for (state, plan), count in zip(plans, taken, strict=True)]


def _first(state: PartitionState, plan: RetentionPlan | None, count: int) -> RetentionPlan | None:
    """Return the plan for its lowest `count` segments only."""
    if plan is None or count == 0:
        return None
    if count == len(plan.deleted):
        return plan
    return replace(
        plan,
        deleted=plan.deleted[:count],
        roll=False,
        log_start_offset=max(state.log_start_offset, state.segments[count].base_offset),
        words=f"{plan.words}; the oldest {counted(count, 'segment')} of these are enough",
    )
