"""Decide what to do with one partition, and why (S3.4, S3.5, S7.1)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from winnow.errors import UsageError
from winnow.policy.cleanable import CleanableRange, cleanable_range
from winnow.policy.config import TopicConfig
from winnow.policy.grouping import group_segments
from winnow.policy.plan import CompactionPlan, PartitionPlan, Reason, RetentionPlan
from winnow.policy.producers import Transaction
from winnow.policy.retention import retention_config, retention_plan, why_kept
from winnow.policy.sources import CLEANER_OFF
from winnow.state import PartitionState
from winnow.words import counted, duration, size

ONLY = ("retention", "compaction")


def decide(
    state: PartitionState,
    config: TopicConfig,
    *,
    now: int,
    only: str | None = None,
    last_stable_offset: int | None = None,
    undecided: Transaction | None = None,
    compacts_less: bool = False,
) -> PartitionPlan:
    """Apply `config` to `state` at `now` (ms), as a broker's cleaner and retention would.

    `last_stable_offset` (S3.2) defaults to the high watermark, which is right without transactions.
    `undecided`: the transaction that makes it lower. `compacts_less`: see
    `retention_config`. `only`, one of ONLY, skips the other half. The
    plan's `reason` is never empty.
    """
    if only is not None and only not in ONLY:
        raise UsageError("unknown value of only", expected=" or ".join(ONLY), found=repr(only))
    plan = partial(PartitionPlan, state, config)
    if config.cleanup_compact and not config.log_cleaner_enable:
        # A broker leaves even the retention of compacted topics to its cleaner.
        words = (
            "log.cleaner.enable is false: compacted topics are not cleaned without "
            "--replace-cleaner"
        )
        return plan(rule=CLEANER_OFF, reason=words)
    if not config.cleanup_compact and only == "compaction":
        words = f"cleanup.policy is {config.cleanup_policy or 'empty'}: nothing to compact"
        return plan(rule="S3.1", reason=words)
    retention, of_retention = retention_of(state, config, now, only, compacts_less=compacts_less)
    if not config.cleanup_compact or only == "retention":
        return plan(rule=of_retention.rule, reason=of_retention.words, retention=retention)
    lso = state.high_watermark if last_stable_offset is None else last_stable_offset
    cleanable = cleanable_range(state, config, now, last_stable_offset=lso, undecided=undecided)
    compaction, decided = _compaction(state, config, cleanable)
    rule, why, afterwards = decided.rule, decided.words, ""
    if retention is not None or (config.cleanup_delete and only is None):
        words = of_retention.words
        limited = config.retention_bytes >= 0 or config.retention_ms >= 0
        if compaction is not None and (retention is not None or limited):
            words = afterwards = (
                "retention is decided after the compaction, on its result. "
                f"For the log as it is now: {words}"
            )
        why += f"; {words}"
        if compaction is None and retention is not None:
            rule = of_retention.rule
    if cleanable.checkpoint_reset is not None:
        why += (
            f"; the cleaner checkpoint {state.cleaner_checkpoint} lies outside the log "
            f"[{state.log_start_offset}, {state.log_end_offset}] and is reset to "
            f"{cleanable.checkpoint_reset}"
        )
    return plan(
        rule=rule,
        reason=why,
        dirty_ratio=cleanable.ratio,
        first_dirty_offset=cleanable.first_dirty_offset,
        compaction=compaction,
        retention=retention,
        checkpoint_reset=cleanable.checkpoint_reset,
        afterwards=afterwards,
        cleanable=cleanable,
    )


def after_retention(
    plan: PartitionPlan, *, now: int, only: str | None = None
) -> PartitionPlan | None:
    """Return the next plan, for the same time, if retention alone makes a log dirty enough to be
    compacted.

    Retention deletes clean segments, so the dirty ratio rises. A broker's cleaner would pick that
    log the next time it looks. None if there is no such round. Only a walk gives the last stable
    offset, so less may be cleaned then.
    """
    cleaned = plan.config.cleanup_compact and plan.config.log_cleaner_enable
    if only or plan.compaction is not None or plan.retention is None or not cleaned:
        return None
    following = decide(plan.retention.applied_to(plan.state), plan.config, now=now)
    return None if following.compaction is None else following


def retention_of(
    state: PartitionState,
    config: TopicConfig,
    now: int,
    only: str | None,
    *,
    compacts_less: bool = False,
) -> tuple[RetentionPlan | None, Reason]:
    """Return what retention deletes, and why it deletes that or nothing. `compacts_less`: see
    `retention_config`.
    """
    applied = retention_config(config, compacts_less=compacts_less)
    waits = ""
    if applied != config and only != "compaction":
        limit = size(config.retention_bytes)
        waits = f"; retention.bytes {limit} is not applied: a broker may compact more of this log"
    config = applied
    plan = None if only == "compaction" else retention_plan(state, config, now)
    if plan is None:
        why = why_kept(state, config, now)
        return None, replace(why, words=why.words + waits)
    rolled = f"; an empty segment follows at {state.log_end_offset}" if plan.roll else ""
    return plan, Reason("S7.3", plan.words + rolled + waits)


def _compaction(
    state: PartitionState, config: TopicConfig, cleanable: CleanableRange
) -> tuple[CompactionPlan | None, Reason]:
    """Return the round to do, if any, and the reason for it (S3.4)."""
    if cleanable.ratio is None or cleanable.cleanable_bytes == 0:
        return None, Reason("S3.2", _why_nothing_cleanable(state, cleanable))
    threshold = config.min_cleanable_dirty_ratio
    ratio = _ratio_words(cleanable.ratio, threshold)
    if cleanable.ratio > threshold:
        reason = f"dirty ratio {ratio} is above min.cleanable.dirty.ratio {threshold:g}"
    elif cleanable.needs_compaction_now:
        reason = (
            "max.compaction.lag.ms: a dirty record is older than "
            f"{duration(config.max_compaction_lag_ms)}"
        )
    else:
        return None, Reason(
            "S3.4", f"dirty ratio {ratio} is not above min.cleanable.dirty.ratio {threshold:g}"
        )
    end = cleanable.first_uncleanable_offset
    cleaned = [s for s in state.segments if s.base_offset < end]
    reason += (
        f" ({size(cleanable.cleanable_bytes)} dirty, {size(cleanable.clean_bytes)} clean; "
        f"{cleanable.why})"
    )
    plan = CompactionPlan(
        first_dirty_offset=cleanable.first_dirty_offset,
        end_offset=end,
        cleanable_bytes=cleanable.cleanable_bytes,
        groups=group_segments(cleaned, config, end_offset=end),
    )
    return plan, Reason("S3.4", reason)


def _ratio_words(ratio: float, threshold: float) -> str:
    """Format four digits, or all if four would look equal to the threshold."""
    words = f"{ratio:.4g}"
    return repr(ratio) if float(words) == threshold != ratio else words


def _why_nothing_cleanable(state: PartitionState, cleanable: CleanableRange) -> str:
    if len(state.segments) == 1:
        return "the only segment is the active one, which is never cleaned"
    first_dirty = cleanable.first_dirty_offset
    if first_dirty >= state.active.base_offset:
        return (
            f"{counted(len(state.segments) - 1, 'segment')} before the active one, all clean up to "
            f"{first_dirty}"
        )
    if state.lost_high_watermark is not None:
        return f"{state.lost_high_watermark}, so no record counts as committed"
    if state.high_watermark <= state.log_start_offset:
        return f"the high watermark is {state.high_watermark}: no record is known to be committed"
    return f"nothing to clean from offset {first_dirty} on: {cleanable.why}"
