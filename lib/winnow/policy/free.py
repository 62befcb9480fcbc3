"""Choose segments to delete when only some space is needed: the oldest of those that retention
allows to delete (S7.2, S7.3).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from winnow.policy.plan import RetentionPlan
from winnow.state import PartitionState, Segment
from winnow.words import counted, first_few, size

_SHOWN = 5


def file_bytes(segment: Segment) -> int:
    return segment.log_bytes + sum(size or 0 for size in segment.index_sizes)


def freed_by_deletion(segment: Segment) -> int:
    """Return the bytes that the deletion of a segment frees: none if its log has another name."""
    return file_bytes(segment) if segment.log_links == 1 else 0


def linked_note(states: Iterable[PartitionState]) -> Iterator[str]:
    """Yield that logs have other names, whose bytes no verb frees."""
    linked = [
        (state, sum(one.log_bytes for one in state.segments if one.log_links > 1))
        for state in states
    ]
    found = [(state, count) for state, count in linked if count]
    if found:
        names = [str(state.topic_partition) for state, _ in found]
        yield (
            f"logs of {first_few(names, _SHOWN)} have other names (hard links), as after `cp -l`: "
            f"{size(sum(count for _, count in found))} stay on the disk until these names are "
            "removed, too"
        )


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
        freed += freed_by_deletion(segment)
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
