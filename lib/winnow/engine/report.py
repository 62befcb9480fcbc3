"""What is told of each partition: plans and outcomes as `PartitionResult`s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from winnow.engine.compaction import Failure
from winnow.engine.prepare import LeftAlone, Undertaking
from winnow.engine.result import COMPACTED, NONE, RETAINED, PartitionResult
from winnow.engine.rewrite import RewrittenGroup
from winnow.logdir.state import PartitionState
from winnow.policy.plan import RetentionPlan


def left_alone(item: LeftAlone) -> PartitionResult:
    state = item.state
    return PartitionResult(
        topic=item.place.topic_partition.topic,
        partition=item.place.topic_partition.partition,
        log_dir=item.place.log_dir,
        policy=item.policy,
        actions=(NONE,),
        reason=item.reason,
        segments_before=len(state.segments) if state else None,
        segments_after=len(state.segments) if state else None,
        bytes_before=state.log_bytes if state else None,
        bytes_after=state.log_bytes if state else None,
        error=item.error,
        left_alone=True,
    )


def foreseen(item: Undertaking) -> PartitionResult:
    """What `clean` would do, as far as it can be told without reading the records."""
    plan, state = item.plan, item.state
    compaction = None if item.not_compacted else plan.compaction
    retention = plan.retention
    result = replace(
        _as_it_is(item, _reason(item)),
        actions=_actions(compacted=compaction is not None, retained=retention is not None),
        first_dirty_offset_after=_first_dirty(item, compaction.end_offset if compaction else None),
        records_before=_records(item),
        left_alone=item.not_compacted is not None,
    )
    if compaction:
        # It changes the sizes that retention looks at afterwards, so both together can't be foreseen.
        segments = len(state.segments) - len(compaction.segments) + len(compaction.groups)
        result = replace(result, bytes_after=None, segments_after=None if retention else segments)
    if retention:
        result = replace(result, log_start_offset_after=retention.log_start_offset)
    if retention and not compaction:
        segments = len(state.segments) - len(retention.deleted) + int(retention.roll)
        gone = sum(segment.log_bytes for segment in retention.deleted)
        result = replace(result, bytes_after=state.log_bytes - gone, segments_after=segments)
    return result


def failed(item: Undertaking, why: Failure) -> PartitionResult:
    """It could not be cleaned, and nothing of it was changed."""
    result = _as_it_is(item, "left as it was: it could not be cleaned")
    return replace(result, error=why.message, error_code=why.exit_code, left_alone=True)


def interrupted(item: Undertaking, why: Failure) -> PartitionResult:
    """The commit failed: each group is old or new and nothing is lost (S6.2), but how far it went is not known."""
    return replace(
        failed(item, why),
        reason="stopped in the middle of the commit; the next run finishes or undoes what was begun",
        first_dirty_offset_after=None,
        log_start_offset_after=None,
        segments_after=None,
        bytes_after=None,
    )


def done(
    item: Undertaking,
    *,
    after: PartitionState,
    groups: Sequence[RewrittenGroup],
    retention: RetentionPlan | None,
    first_dirty_offset: int | None,
) -> PartitionResult:
    """What was done, with the state read again afterwards."""
    return replace(
        _as_it_is(item, _reason(item)),
        actions=_actions(compacted=bool(groups), retained=retention is not None),
        first_dirty_offset_after=_first_dirty(item, first_dirty_offset),
        log_start_offset_after=after.log_start_offset,
        segments_after=len(after.segments),
        bytes_after=after.log_bytes,
        records_before=_records(item),
        records_after=_records_after(item, groups, retention),
        left_alone=item.not_compacted is not None,
    )


def _as_it_is(item: Undertaking, reason: str) -> PartitionResult:
    state, plan = item.state, item.plan
    return PartitionResult(
        topic=item.place.topic_partition.topic,
        partition=item.place.topic_partition.partition,
        log_dir=item.place.log_dir,
        policy=item.config.policy,
        actions=(NONE,),
        reason=reason,
        dirty_ratio=plan.dirty_ratio,
        first_dirty_offset_before=plan.first_dirty_offset,
        first_dirty_offset_after=plan.first_dirty_offset,
        log_start_offset_before=state.log_start_offset,
        log_start_offset_after=state.log_start_offset,
        segments_before=len(state.segments),
        segments_after=len(state.segments),
        bytes_before=state.log_bytes,
        bytes_after=state.log_bytes,
    )


def _actions(*, compacted: bool, retained: bool) -> tuple[str, ...]:
    return ((COMPACTED,) if compacted else ()) + ((RETAINED,) if retained else ()) or (NONE,)


def _reason(item: Undertaking) -> str:
    return f"not compacted: {item.not_compacted}" if item.not_compacted else item.plan.reason


def _first_dirty(item: Undertaking, reached: int | None) -> int | None:
    if reached is not None:
        return reached
    if item.plan.checkpoint_reset is not None:
        return item.plan.checkpoint_reset
    return item.plan.first_dirty_offset


def _records(item: Undertaking) -> int | None:
    """Counted only where every batch header was read, and only v2 headers tell."""
    if item.walks is None or any(walk.legacy for walk in item.walks):
        return None
    return sum(walk.records for walk in item.walks)


def _records_after(item: Undertaking, groups: Sequence[RewrittenGroup], retention: RetentionPlan | None) -> int | None:
    if item.walks is None or _records(item) is None:
        return None
    records = {walk.base_offset: walk.records for walk in item.walks}
    for group in groups:
        for source in group.staged.source_bases:
            del records[source]
        records[group.staged.base_offset] = group.records_after
    for segment in retention.deleted if retention else ():
        del records[segment.base_offset]
    return sum(records.values())
