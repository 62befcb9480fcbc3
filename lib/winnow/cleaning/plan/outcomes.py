"""Describe plans and outcomes of partitions as `PartitionResult`s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from winnow.cleaning.plan.counted import bases_replaced, records_of, segment_fates, segments_of
from winnow.cleaning.plan.partitions import PlannedPartition, SkippedPartition
from winnow.cleaning.request import Request
from winnow.cleaning.result import COMPACTED, NONE, RETAINED, Output, PartitionResult, Setting
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.staged import StagedPartition
from winnow.policy.cleanable import cleanable_range, oldest_first_batch, segments_between
from winnow.policy.config import KEYS, LONG_MAX, TopicConfig, is_default
from winnow.policy.decide import after_retention
from winnow.policy.plan import RetentionPlan, after_round
from winnow.runtime.failure import Failure
from winnow.runtime.stop import Stop
from winnow.scan.topic_usage import top_holders
from winnow.state import PartitionState

_UNCHANGED = "unchanged: "


def left_alone(item: SkippedPartition) -> PartitionResult:
    known: dict[str, Any] = {}
    if (state := item.state) is not None:
        segments, size = len(state.segments), state.log_bytes
        known = {"segments_before": segments, "segments_after": segments}
        known |= {"bytes_before": size, "bytes_after": size, "segments": segment_fates(state)}
    return PartitionResult(
        **item.place.named,
        policy=item.policy,
        actions=(NONE,),
        rule=item.reason.rule,
        reason=item.reason.words,
        error=item.error,
        left_alone=True,
        **known,
    )


def previewed(
    item: PlannedPartition, request: Request, settings: tuple[Setting, ...] | None = None
) -> PartitionResult:
    """Return what `clean` would do, as far as this is known without reading the records.

    `settings`: those of `settings_of`, if known already. Retention after a compaction is not
    predicted.
    """
    plan, state = item.plan, item.state
    compaction, retention = plan.compaction, plan.retention
    following = after_retention(plan, now=request.now, only=request.only)
    cleaned = compaction.segments if compaction else ()
    deleted = [segment.base_offset for segment in plan.deleted]
    records = records_of(item, (), deleted)
    predicted: dict[str, Any] = {
        "actions": _actions(compacted=bool(compaction or following), retained=bool(retention)),
        "first_dirty_offset_after": _first_dirty(
            item, compaction.end_offset if compaction else None
        ),
        "records_before": records["records_before"],
        "records_removed": None if compaction or following else records["records_removed"],
        "settings": settings_of(item.config) if settings is None else settings,
        "segments": segment_fates(
            state, compacted=[segment.base_offset for segment in cleaned], deleted=deleted
        ),
    }
    if compaction or retention:
        predicted |= {"dirty_ratio_after": None, "bytes_after": None, "segments_after": None}
    if compaction and not plan.afterwards and not item.overflowed:
        # It changes the sizes on which retention depends, so their combined result can't be
        # predicted. Nor can the number of parts of a split segment.
        predicted["segments_after"] = len(state.segments) - len(cleaned) + len(compaction.groups)
    if following or (compaction and plan.afterwards):
        predicted |= {"log_start_offset_after": None, "first_dirty_offset_after": None}
    elif retention and not compaction:
        predicted |= {
            "log_start_offset_after": retention.log_start_offset,
            "segments_after": len(state.segments) - len(deleted) + int(retention.roll),
            "bytes_after": state.log_bytes - sum(segment.log_bytes for segment in plan.deleted),
        }
    then = f"; then {following.reason}" if following else ""
    return _as_it_is(item, plan.rule, f"{_reason(item)}{then}", **predicted)


def followed(first: PartitionResult, then: PartitionResult) -> PartitionResult:
    """Combine both results of a partition that was compacted because of this run's retention."""
    durations = [ms for ms in (first.duration_ms, then.duration_ms) if ms is not None]
    return replace(
        then,
        actions=_actions(compacted=COMPACTED in then.actions, retained=True),
        reason=f"{first.reason}; then {then.reason}",
        dirty_ratio=first.dirty_ratio,
        first_dirty_offset_before=first.first_dirty_offset_before,
        log_start_offset_before=first.log_start_offset_before,
        segments_before=first.segments_before,
        bytes_before=first.bytes_before,
        # Nobody counted the records that retention deleted first.
        records_before=None,
        records_removed=None,
        segments=(*(s for s in first.segments if s.fate == "deleted"), *then.segments),
        duration_ms=sum(durations) if durations else None,
    )


def failed(item: PlannedPartition, why: Failure) -> PartitionResult:
    """Describe a partition that could not be cleaned and is unchanged."""
    words = f"{_UNCHANGED}cleaning failed"
    return _as_it_is(
        item, "S8.8", words, error=why.message, error_code=why.exit_code, left_alone=True
    )


def changed_meanwhile(result: PartitionResult) -> PartitionResult:
    """Describe a partition whose error says nothing: its running broker has changed files while
    they were read.
    """
    words = "its broker changed files while they were read, as a follower that truncates its log"
    reason = f"{_UNCHANGED}{words}; run again"
    return replace(result, rule="S8.11", reason=reason, error=None, left_alone=False)


def stopped(item: PlannedPartition, why: str) -> PartitionResult:
    """Describe a partition that was not reached before the run stopped."""
    return _as_it_is(item, "S8.8", f"{_UNCHANGED}the run was stopped, {why}", left_alone=True)


def given_up(item: PlannedPartition, why: Failure, stop: Stop) -> PartitionResult:
    """Describe a partition that is unchanged because of a failure. A requested stop explains any
    failure.
    """
    reason = stop.reason
    return failed(item, why) if reason is None else stopped(item, reason)


def partly(
    item: PlannedPartition,
    staged: StagedPartition,
    unchanged: PartitionResult,
    after: PartitionState,
) -> PartitionResult:
    """Describe a cleaning that ended after some groups were committed. `unchanged`: the result that
    it would have had without any.
    """
    done, groups = staged.placed, staged.total_groups
    why = unchanged.error or unchanged.reason.removeprefix(_UNCHANGED)
    return _as_it_is(
        item,
        "S6.2",
        f"{len(done)} of {groups} groups of segments are cleaned, the others unchanged: {why}",
        actions=(COMPACTED,),
        segments_after=len(after.segments),
        bytes_after=after.log_bytes,
        dirty_ratio_after=None,
        **segments_of(done),
        segments=segment_fates(item.state, compacted=bases_replaced(done)),
        duration_ms=staged.duration_ms,
        error=unchanged.error,
        error_code=unchanged.error_code,
        left_alone=True,
    )


def interrupted(item: PlannedPartition, why: Failure) -> PartitionResult:
    """Describe a failed commit: each group is old or new and nothing is lost (S6.2). How many are
    new is not known.
    """
    return replace(
        failed(item, why),
        rule="S6.2",
        reason="interrupted during the commit; the next run finishes or undoes it",
        first_dirty_offset_after=None,
        log_start_offset_after=None,
        segments_after=None,
        bytes_after=None,
        oldest_dirty_timestamp=None,
        dirty_ratio_after=None,
        segments=(),
    )


def done(
    item: PlannedPartition,
    request: Request,
    after: PartitionState,
    retention: RetentionPlan | None,
    *,
    duration_ms: int | None,
    groups: Sequence[CleanedGroup] = (),
    cleaned_to: int | None = None,
    afterwards: str = "",
) -> PartitionResult:
    """Describe what was done. `cleaned_to`: where a compaction of `groups` ended. `afterwards`:
    what retention did then.
    """
    sources = {group.base_offset: group.source_bases for group in groups}
    deleted = [segment.base_offset for segment in retention.deleted] if retention else []
    compacted = bool(groups) or item.finished is not None
    reached = None if cleaned_to is None else max(cleaned_to, after.log_start_offset)
    first_dirty = _first_dirty(item, reached)
    return _as_it_is(
        item,
        item.plan.rule,
        _reason(item, afterwards),
        actions=_actions(compacted=compacted, retained=retention is not None),
        dirty_ratio_after=_dirty_ratio(
            item, replace(after, cleaner_checkpoint=first_dirty), request.now
        ),
        first_dirty_offset_after=first_dirty,
        log_start_offset_after=after.log_start_offset,
        segments_after=len(after.segments),
        bytes_after=after.log_bytes,
        oldest_dirty_timestamp=_oldest_dirty(item, after, first_dirty),
        segments=segment_fates(
            item.state,
            compacted=bases_replaced(groups),
            # What retention deleted of the new segments counts as deleted for all their sources.
            deleted=[source for base in deleted for source in sources.get(base, (base,))],
            checksums={
                base: sum_ for group in groups for base, sum_ in group.source_checksums.items()
            },
        ),
        outputs=tuple(
            Output(
                base_offset=group.base_offset,
                bytes=group.bytes_after,
                checksum=group.checksum,
                sources=group.source_bases,
            )
            for group in sorted(groups, key=lambda group: group.base_offset)
            if not group.unchanged
        ),
        **records_of(item, groups, deleted),
        **segments_of(groups, deleted),
        duration_ms=duration_ms if compacted or retention else None,
    )


def after_commit(
    item: PlannedPartition,
    groups: Sequence[CleanedGroup],
    end_offset: int,
    request: Request,
    *,
    duration_ms: int | None,
) -> PartitionResult:
    """Describe what a commit of these groups would do, and retention after it (S3.5)."""
    after = after_round(item.state, [(g.sources, g.segment) for g in groups], end_offset)
    retention, words = item.then_retained(after, request)
    return done(
        item,
        request,
        after if retention is None else retention.applied_to(after),
        retention,
        duration_ms=duration_ms,
        groups=groups,
        cleaned_to=end_offset,
        afterwards=words,
    )


def _dirty_ratio(item: PlannedPartition, after: PartitionState, now: int) -> float | None:
    """Return the ratio that the next run would find at the same clock and transactions (S3.3)."""
    if item.plan.dirty_ratio is None:
        return None
    stable = item.transactions.last_stable_offset if item.transactions else after.high_watermark
    return cleanable_range(after, item.config, now, last_stable_offset=stable).ratio


def _as_it_is(item: PlannedPartition, rule: str, reason: str, **changed: Any) -> PartitionResult:  # noqa: ANN401 - any field
    """Describe an unchanged partition. `changed`: fields with other values."""
    state, plan = item.state, item.plan
    holders, holders_total = top_holders([walk.holdings for walk in item.walks or ()], None)
    replaced = item.finished.groups if item.finished else ()
    log_bytes, segments = state.log_bytes, len(state.segments)
    unchanged: dict[str, Any] = {
        **item.place.named,
        "policy": item.config.cleanup_policy,
        "actions": (NONE,),
        "rule": rule,
        "reason": reason,
        "dirty_ratio": plan.dirty_ratio,
        "dirty_ratio_after": plan.dirty_ratio,
        "first_dirty_offset_before": plan.first_dirty_offset,
        "first_dirty_offset_after": plan.first_dirty_offset,
        "log_start_offset_before": state.log_start_offset,
        "log_start_offset_after": state.log_start_offset,
        "segments_before": segments + sum(len(group.sources) - 1 for group in replaced),
        "segments_after": segments,
        "bytes_before": log_bytes + sum(group.saved_bytes for group in replaced),
        "bytes_after": log_bytes,
        "holders": holders,
        "holders_total": holders_total,
        "max_compaction_lag_ms": item.config.max_compaction_lag_ms
        if item.config.cleanup_compact and item.config.max_compaction_lag_ms < LONG_MAX
        else None,
        "oldest_dirty_timestamp": _oldest_dirty(item, state, plan.first_dirty_offset),
    }
    if "segments" not in changed:
        unchanged["segments"] = segment_fates(state)
    return PartitionResult(**unchanged | changed)


def _oldest_dirty(
    item: PlannedPartition, state: PartitionState, first_dirty: int | None
) -> int | None:
    if not item.config.cleanup_compact or first_dirty is None:
        return None
    # The active segment is rolled no later than `max.compaction.lag.ms` after it (S3.4).
    dirty = segments_between(state.segments, first_dirty, state.log_end_offset)
    return oldest_first_batch(dirty)


def settings_of(config: TopicConfig) -> tuple[Setting, ...]:
    """Return all settings that decided, defaults included."""
    settings = []
    for key in KEYS:
        value, source = getattr(config, key.attribute), config.sources[key.name]
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            settings.append(Setting(key.name, text, source, is_default(source)))
    return tuple(settings)


def _actions(*, compacted: bool, retained: bool) -> tuple[str, ...]:
    return ((COMPACTED,) if compacted else ()) + ((RETAINED,) if retained else ()) or (NONE,)


def _reason(item: PlannedPartition, afterwards: str = "") -> str:
    reason = item.plan.reason_after(afterwards) if afterwards else item.plan.reason
    if item.overflowed:
        which = ", ".join(map(str, item.overflowed))
        reason = f"{reason}; split first: segment {which}, spanning more than 2^31 - 1 offsets"
    if item.finished:
        reason = (
            f"finished the cleaning up to {item.finished.end_offset} "
            f"that {item.finished.run_id} began; {reason}"
        )
    return reason


def _first_dirty(item: PlannedPartition, reached: int | None) -> int | None:
    known = (reached, item.plan.checkpoint_reset, item.plan.first_dirty_offset)
    return next((offset for offset in known if offset is not None), None)
