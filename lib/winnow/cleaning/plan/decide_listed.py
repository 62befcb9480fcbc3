"""Decide about partitions whose files are listed: first without a walk, then with one, or again
with other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TypeGuard

from winnow.cleaning.plan.future import with_future_offsets
from winnow.cleaning.plan.partitions import (
    NOTHING_BELOW,
    UNREADABLE,
    Planned,
    PlannedPartition,
    SelectedPartition,
    SkippedPartition,
    after_unclean_shutdown,
    why_unwritable,
)
from winnow.cleaning.plan.rebuilt import NOT_REBUILT, are_known
from winnow.cleaning.request import Request
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.commit.journal import Journal
from winnow.logdir.commit.roll_forward import open_round
from winnow.logdir.commit.split import is_overflowed
from winnow.logdir.listing import SegmentListing
from winnow.policy.config import TopicConfig
from winnow.policy.decide import decide
from winnow.policy.more_deleted import deletes_more
from winnow.policy.plan import CompactionPlan, PartitionPlan, Reason
from winnow.policy.retention import is_tiered
from winnow.policy.sources import Settings, Unknown
from winnow.runtime.failed_job import each_survived
from winnow.runtime.failure import Failure, failure
from winnow.state import PartitionState
from winnow.storage.contract import Storage
from winnow.survey.place import ListedPartition
from winnow.survey.survey import ToWalk
from winnow.survey.transactions import Snapshot, Transactions, newest_snapshot, settle
from winnow.survey.walk import SegmentWalk
from winnow.words import counted

Walk = Callable[[Sequence[ToWalk]], list[tuple[SegmentWalk, ...] | Failure]]
"""`walk_partitions`, or a function that returns its earlier results."""


def decide_listed(
    known: SelectedPartition, listed: ListedPartition | Failure, request: Request
) -> Planned:
    if isinstance(listed, Failure):
        return known.left_alone(UNREADABLE, error=listed.message)
    try:
        if listed.log_end_offset is None:
            return known.left_alone(Reason("S6.3", what_was_left(request.storage, listed.listing)))
        return partition_work(known, known.state_of(listed, listed.log_end_offset), request)
    except FAILS_ONE_PARTITION as error:
        return known.left_alone(UNREADABLE, error=failure(error).message)


def partition_work(known: SelectedPartition, state: PartitionState, request: Request) -> Planned:
    """Return the plan of a partition, as far as the rules can decide without a walk."""
    place, config = known.place, known.config
    end, segments = state.trusted_end, state.segments
    # A log with one segment has nothing to work on anyway.
    if end is not None and len(segments) > 1 and segments[1].base_offset > end:
        return known.left_alone(NOTHING_BELOW, state=state)
    plan = _decide(state, config, request)
    named = with_future_offsets(request.storage, plan, request.now)
    if named != state:
        state, plan = named, _decide(named, config, request)
    if known.goes_on is not None:
        plan = rest_of_round(plan, known.goes_on.journal)
    if is_tiered(place.topic_partition.topic, config):
        return known.left_alone(Reason(plan.rule, plan.reason), state=state)
    if request.touch and has_work(plan):
        unwritable = why_unwritable(place, [segment.base_offset for segment in segments])
        if unwritable is not None:
            return known.left_alone(unwritable, state=state)
    snapshot = Snapshot(state.log_end_offset, ())
    if needs_walk(plan):
        try:
            snapshot = newest_snapshot(request.storage, state)
        except FAILS_ONE_PARTITION as error:
            return known.left_alone(UNREADABLE, error=failure(error).message, state=state)
    own = {one.name: getattr(known, one.name) for one in fields(SelectedPartition)}
    return PlannedPartition(**own, state=state, plan=plan, snapshot=snapshot)


def rethink(planned: Sequence[Planned], request: Request, walk: Walk) -> list[Planned]:
    """Return what `prepare` would return with the settings of `request`, all else being equal.

    Skipped partitions stay skipped: too little is known of their files or their policy.
    """
    decided = list(planned)
    for number, item in enumerate(planned):
        if isinstance(item, PlannedPartition):
            place, log_dir, state = item.place, item.log_dir, item.state
            topic, node_id = place.topic_partition.topic, log_dir.meta.node_id
            config = request.settings.resolve(topic, node_id=node_id)
            decided[number] = (
                SkippedPartition(place, None, Reason("S9.2", config.reason), state=state)
                if isinstance(config, Unknown)
                else partition_work(SelectedPartition(place, log_dir, config), state, request)
            )
    return with_walks(decided, request, walk)


def has_work(plan: PartitionPlan) -> bool:
    """Return whether carrying out the plan changes the partition or its checkpoints."""
    return (plan.compaction, plan.retention, plan.checkpoint_reset) != (None, None, None)


def _decide(
    state: PartitionState,
    config: TopicConfig,
    request: Request,
    transactions: Transactions | None = None,
) -> PartitionPlan:
    """Decide. Put what an unclean shutdown means for the partition first in the reason."""
    plan = decide(
        state,
        config,
        now=request.now,
        only=request.only,
        last_stable_offset=None if transactions is None else transactions.last_stable_offset,
        undecided=None if transactions is None else transactions.undecided,
        compacts_less=transactions is not None and transactions.compacts_less,
    )
    words = after_unclean_shutdown(state)
    return plan if words is None else replace(plan, reason=f"{words}; {plan.reason}")


def overridden(
    planned: Sequence[Planned], settings: Settings
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return, by log directory and topic that the run changes, which options let more be deleted
    than the topic's own settings do (decision 47).
    """
    if not settings.sets and not settings.topic_sets:
        return {}
    changed = {
        (item.place.log_dir, item.place.topic_partition.topic): item
        for item in planned
        if isinstance(item, PlannedPartition) and has_work(item.plan)
    }
    found = {
        (at, topic): deletes_more(settings, topic, item.config, node_id=item.log_dir.meta.node_id)
        for (at, topic), item in changed.items()
    }
    return {key: some for key, some in found.items() if some}


def with_walks(decided: Sequence[Planned], request: Request, walk: Walk) -> list[Planned]:
    """Add the walks to the plans that compact. Skip partitions whose logs can't be read.

    Only a walk finds the last stable offset. It never allows more than the high watermark did.
    """
    to_read = [(number, item) for number, item in enumerate(decided) if to_walk(item)]
    chosen = [(number, item) for number, item in to_read if are_known(item.state)]
    request.stop.check()
    walked = each_survived(
        [(item.state, item.snapshot.offset) for _, item in chosen],
        walk,
        goes_on=lambda: request.stop.reason is None,
    )
    if chosen:
        request.progress.stage("deciding", total_tasks=len(chosen))
    result = list(decided)
    for number, item in to_read:
        if not are_known(item.state):
            result[number] = item.left_alone(NOT_REBUILT, state=item.state)
    for (number, item), walks in zip(chosen, walked, strict=True):
        request.progress.advance(1)
        why = walks
        if not isinstance(why, Failure):
            try:
                result[number] = _with_walks(item, why, request)
                continue
            except FAILS_ONE_PARTITION as error:
                why = failure(error)
        result[number] = item.left_alone(UNREADABLE, error=why.message, state=item.state)
    return result


def needs_walk(plan: PartitionPlan) -> bool:
    """After an unclean shutdown the last stable offset is a limit for retention as well (S8.2)."""
    return plan.compaction is not None or (
        plan.retention is not None and plan.state.trusted_end is not None
    )


def to_walk(item: Planned) -> TypeGuard[PlannedPartition]:
    """Return whether a partition needs a walk and had none yet."""
    return isinstance(item, PlannedPartition) and item.walks is None and needs_walk(item.plan)


def _with_walks(
    item: PlannedPartition, walks: tuple[SegmentWalk, ...], request: Request
) -> PlannedPartition:
    state, config = item.state, item.config
    transactions = settle(
        state,
        item.snapshot,
        walks,
        now=request.now,
        expiration_ms=config.producer_id_expiration_ms,
        rules=config.rules,
    )
    less = transactions.compacts_less
    item = replace(item, walks=walks, transactions=transactions, compacts_less=less)
    if transactions.undecided is not None:
        if state.trusted_end is not None:
            state = replace(state, high_watermark=transactions.last_stable_offset)
            item = replace(item, state=state)
        if item.goes_on is None:
            item = replace(item, plan=_decide(state, config, request, transactions))
    compaction = item.plan.compaction
    cleaned = {segment.base_offset for segment in compaction.segments} if compaction else set()
    # Kafka's cleaner would split these first.
    overflowed = tuple(
        walk.base_offset
        for walk in walks
        if walk.base_offset in cleaned and is_overflowed(walk.base_offset, walk.next_offset)
    )
    return replace(item, overflowed=overflowed)


def what_was_left(storage: Storage, listing: SegmentListing) -> str:
    """Describe what `clean` would repair."""
    left = f"an interrupted run left {counted(len(listing.leftovers), 'file')} here"
    interrupted = open_round(storage, listing.directory, storage.list_dir(listing.directory))
    if interrupted is None:
        return f"{left}; `clean` repairs that first"
    journal = interrupted.journal
    replaced = sum(not group.unchanged for group in journal.groups)
    return (
        f"{left}: {journal.run_id} was replacing {counted(replaced, 'group')} of "
        f"segments below offset {journal.end_offset}; `clean` finishes that first, "
        "or abandons it if something has changed since"
    )


def rest_of_round(plan: PartitionPlan, journal: Journal) -> PartitionPlan:
    """Return the plan with the rest of the round that an earlier run began at the same clock
    (docs/decisions/0012).

    A new plan would differ because of what is done already: other groups, another dirty ratio.
    """
    if journal.rest is None:
        return plan
    segments = {segment.base_offset: segment for segment in plan.state.segments}
    groups = tuple(
        tuple(segments[base] for base in group.source_bases) for group in journal.waiting
    )
    first_dirty = journal.rest.first_dirty_offset
    compaction = CompactionPlan(
        first_dirty_offset=first_dirty,
        end_offset=journal.end_offset,
        cleanable_bytes=sum(segment.log_bytes for group in groups for segment in group),
        groups=groups,
    )
    reason = (
        f"continues the cleaning up to {journal.end_offset} that {journal.run_id} began: "
        f"{counted(len(groups), 'group')} of {len(journal.groups)}"
    )
    return replace(
        plan, compaction=compaction, reason=reason, rule="S5.1", first_dirty_offset=first_dirty
    )
