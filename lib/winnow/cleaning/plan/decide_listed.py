"""Decide about partitions whose files are listed: first without a walk, then with one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from winnow.cleaning.plan.leftovers import rest_of_round, what_was_left
from winnow.cleaning.plan.prepared import (
    NOTHING_BELOW,
    UNREADABLE,
    Known,
    LeftAlone,
    PartitionWork,
    Prepared,
    after_unclean_shutdown,
    why_unwritable,
)
from winnow.cleaning.request import Request
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.commit.split import is_overflowed
from winnow.logdir.listing import resolve
from winnow.policy.decide import decide
from winnow.policy.plan import PartitionPlan, Reason
from winnow.policy.retention import is_tiered
from winnow.runtime.failure import Failure, failure
from winnow.runtime.suspects import each_survived
from winnow.state import PartitionState
from winnow.survey.place import Listed
from winnow.survey.transactions import Snapshot, newest_snapshot, settle
from winnow.survey.walk import SegmentWalk


class Walk(Protocol):
    """`walk_partitions`, or a function that returns its earlier results."""

    def __call__(
        self, states: Sequence[PartitionState], *, producers_from: Sequence[int]
    ) -> list[tuple[SegmentWalk, ...] | Failure]: ...


def decide_listed(known: Known, listed: Listed | Failure, request: Request) -> Prepared:
    try:
        return _decide(known, listed, request)
    except FAILS_ONE_PARTITION as error:
        return LeftAlone(known.place, known.config.policy, UNREADABLE, error=failure(error).message)


def _decide(known: Known, listed: Listed | Failure, request: Request) -> Prepared:
    place, log_dir, config = known.place, known.log_dir, known.config
    if isinstance(listed, Failure):
        return LeftAlone(place, config.policy, UNREADABLE, error=listed.message)
    if listed.active is None:
        words = what_was_left(request.storage, listed.listing)
        return LeftAlone(place, config.policy, Reason("S6.3", words))
    state = resolve(
        listed.listing,
        log_dir=log_dir.path,
        topic_partition=place.topic_partition,
        checkpoints=log_dir.checkpoints,
        log_end_offset=listed.active.next_offset,
        trusted_end=place.trusted_end,
        lost_bytes=listed.lost_bytes,
    )
    return partition_work(known, state, request)


def partition_work(known: Known, state: PartitionState, request: Request) -> Prepared:
    """Return the plan of a partition, as far as the rules can decide without a walk."""
    place, config = known.place, known.config
    if state.trusted_end is not None and _nothing_trusted(state, state.trusted_end):
        return LeftAlone(place, config.policy, NOTHING_BELOW, state=state)
    plan = _with_limit(decide(state, config, now=request.now, only=request.only))
    if known.goes_on is not None:
        plan = rest_of_round(plan, known.goes_on.journal)
    if is_tiered(place.topic_partition.topic, config):
        return LeftAlone(place, config.policy, Reason(plan.rule, plan.reason), state=state)
    if request.touch and has_work(plan):
        unwritable = why_unwritable(place, [segment.base_offset for segment in state.segments])
        if unwritable is not None:
            return LeftAlone(place, config.policy, unwritable, state=state)
    snapshot = Snapshot(state.log_end_offset, ())
    if needs_walk(plan):
        try:
            snapshot = newest_snapshot(request.storage, state)
        except FAILS_ONE_PARTITION as error:
            return LeftAlone(
                place, config.policy, UNREADABLE, error=failure(error).message, state=state
            )
    return PartitionWork(
        place,
        known.log_dir,
        config,
        state,
        plan,
        snapshot,
        finished=known.finished,
        goes_on=known.goes_on,
    )


def has_work(plan: PartitionPlan) -> bool:
    """Return whether carrying out the plan changes the partition or its checkpoints."""
    work = (plan.compaction, plan.retention, plan.checkpoint_reset)
    return any(part is not None for part in work)


def _nothing_trusted(state: PartitionState, trusted_end: int) -> bool:
    """Return whether `below-recovery-point` keeps the whole log from being worked on. A log with
    one segment has nothing to work on anyway.
    """
    return len(state.segments) > 1 and state.segments[1].base_offset > trusted_end


def with_walks(decided: Sequence[Prepared], request: Request, walk: Walk) -> list[Prepared]:
    """Add the walks to the plans that compact. Skip partitions whose logs can't be read.

    Only a walk finds the last stable offset. It never allows more than the high watermark did.
    """
    chosen = [
        (number, item)
        for number, item in enumerate(decided)
        if isinstance(item, PartitionWork) and needs_walk(item.plan)
    ]
    request.stop.check()
    walked = each_survived(
        [(item.state, item.snapshot.offset) for _, item in chosen],
        lambda some: walk(
            [state for state, _ in some], producers_from=[offset for _, offset in some]
        ),
        goes_on=lambda: request.stop.reason is None,
    )
    if chosen:
        request.progress.stage("deciding", total_tasks=len(chosen))
    result = list(decided)
    for (number, item), walks in zip(chosen, walked, strict=True):
        request.progress.advance(1)
        if isinstance(walks, Failure):
            result[number] = LeftAlone(
                item.place, item.config.policy, UNREADABLE, error=walks.message, state=item.state
            )
            continue
        try:
            result[number] = _with_walks(item, walks, request)
        except FAILS_ONE_PARTITION as error:
            why = failure(error).message
            result[number] = LeftAlone(
                item.place, item.config.policy, UNREADABLE, error=why, state=item.state
            )
    return result


def needs_walk(plan: PartitionPlan) -> bool:
    """After an unclean shutdown the last stable offset is a limit for retention as well (S8.2)."""
    return plan.compaction is not None or (
        plan.retention is not None and plan.state.trusted_end is not None
    )


def _with_walks(
    item: PartitionWork, walks: tuple[SegmentWalk, ...], request: Request
) -> PartitionWork:
    state, config = item.state, item.config
    transactions = settle(
        state,
        item.snapshot,
        walks,
        now=request.now,
        expiration_ms=config.producer_id_expiration_ms,
        rules=config.rules,
    )
    item = replace(item, walks=walks, transactions=transactions)
    if transactions.undecided is None:
        return _with_overflowed(item, walks)
    if state.trusted_end is not None:
        state = replace(state, high_watermark=transactions.last_stable_offset)
        item = replace(item, state=state)
    if item.goes_on is not None:
        return item
    plan = decide(
        state,
        config,
        now=request.now,
        only=request.only,
        last_stable_offset=transactions.last_stable_offset,
        undecided=str(transactions.undecided),
    )
    return _with_overflowed(replace(item, plan=_with_limit(plan)), walks)


def _with_limit(plan: PartitionPlan) -> PartitionPlan:
    """Put what an unclean shutdown means for the partition first in the reason."""
    words = after_unclean_shutdown(plan.state)
    return plan if words is None else replace(plan, reason=f"{words}; {plan.reason}")


def _with_overflowed(item: PartitionWork, walks: Sequence[SegmentWalk]) -> PartitionWork:
    """Mark the segments to be cleaned that Kafka's cleaner would split first."""
    cleaned = (
        {segment.base_offset for segment in item.plan.compaction.segments}
        if item.plan.compaction
        else set()
    )
    overflowed = (
        walk.base_offset for walk in walks if is_overflowed(walk.base_offset, walk.next_offset)
    )
    return replace(item, overflowed=tuple(base for base in overflowed if base in cleaned))
