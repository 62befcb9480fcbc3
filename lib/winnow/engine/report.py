"""What is told of each partition: plans and outcomes as `PartitionResult`s."""

from __future__ import annotations

from collections.abc import Sequence

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
    deleted = retention.deleted if retention else ()
    segments = len(state.segments) - len(deleted) + bool(retention and retention.roll)
    if compaction:
        segments = len(state.segments) - len(compaction.segments) + len(compaction.groups)
    # Compaction comes first and changes the sizes that retention looks at, so both together can't be foreseen.
    known = not compaction
    return PartitionResult(
        **_common(item),
        actions=_actions(compacted=compaction is not None, retained=retention is not None),
        reason=_reason(item),
        first_dirty_offset_after=_first_dirty(item, compaction.end_offset if compaction else None),
        log_start_offset_after=retention.log_start_offset if retention else state.log_start_offset,
        segments_after=segments if not (compaction and retention) else None,
        bytes_after=state.log_bytes - sum(s.log_bytes for s in deleted) if known else None,
        records_before=_records(item),
        left_alone=item.not_compacted is not None,
    )


def failed(item: Undertaking, why: Failure) -> PartitionResult:
    """Nothing of this partition was changed."""
    return PartitionResult(
        **_common(item),
        actions=(NONE,),
        reason="left as it was: it could not be cleaned safely",
        first_dirty_offset_after=item.plan.first_dirty_offset,
        log_start_offset_after=item.state.log_start_offset,
        segments_after=len(item.state.segments),
        bytes_after=item.state.log_bytes,
        error=why.message,
        left_alone=True,
    )


def done(
    item: Undertaking,
    *,
    after: PartitionState,
    groups: Sequence[RewrittenGroup],
    retention: RetentionPlan | None,
    first_dirty_offset: int | None,
    reason: str | None = None,
) -> PartitionResult:
    """What was done, with the state read again afterwards."""
    return PartitionResult(
        **_common(item),
        actions=_actions(compacted=bool(groups), retained=retention is not None),
        reason=reason or _reason(item),
        first_dirty_offset_after=_first_dirty(item, first_dirty_offset),
        log_start_offset_after=after.log_start_offset,
        segments_after=len(after.segments),
        bytes_after=after.log_bytes,
        records_before=_records(item),
        records_after=_records_after(item, groups, retention),
        left_alone=item.not_compacted is not None,
    )


def _common(item: Undertaking) -> dict[str, object]:
    return {
        "topic": item.place.topic_partition.topic,
        "partition": item.place.topic_partition.partition,
        "log_dir": item.place.log_dir,
        "policy": item.config.policy,
        "dirty_ratio": item.plan.dirty_ratio,
        "first_dirty_offset_before": item.plan.first_dirty_offset,
        "log_start_offset_before": item.state.log_start_offset,
        "segments_before": len(item.state.segments),
        "bytes_before": item.state.log_bytes,
    }


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


def _records_after(
    item: Undertaking, groups: Sequence[RewrittenGroup], retention: RetentionPlan | None
) -> int | None:
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
