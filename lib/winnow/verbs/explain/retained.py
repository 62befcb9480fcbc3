"""Which segments retention deletes, also of those that a compaction makes, and why (S7, S3.5)."""

from __future__ import annotations

from dataclasses import replace

from winnow.policy.config import TopicConfig
from winnow.policy.fate import Decision, Fact, Verdict
from winnow.policy.retention import retention_plan
from winnow.state import PartitionState
from winnow.words import duration, size

Deleted = dict[int, Decision]
"""Base offset of a segment that retention deletes -> the rule that deletes it."""


def deleted_segments(state: PartitionState, config: TopicConfig, now: int) -> Deleted:
    """Return each segment of `state` that retention deletes at `now` (ms)."""
    # Each rule applies to what the previous one left (S7.1). So plans without the later rules show
    # which rule deletes what.
    start = _deleted_count(state, replace(config, cleanup_policy="compact"), now)
    by_size = _deleted_count(state, replace(config, retention_ms=-1), now)
    all_rules = _deleted_count(state, config, now)
    deleted: Deleted = {}
    for number, segment in enumerate(state.segments[:all_rules]):
        if number < start:
            words = (
                f"segment {segment.base_offset} is entirely below the log start offset "
                f"{state.log_start_offset}"
            )
            fact = Fact("log_start_offset", state.log_start_offset)
        elif number < by_size:
            words = (
                f"retention.bytes {size(config.retention_bytes)}: without segment "
                f"{segment.base_offset}, the log still has at least that much"
            )
            fact = Fact("retention_bytes", config.retention_bytes)
        else:
            age = duration(now - segment.largest_timestamp)
            words = (
                f"retention.ms {duration(config.retention_ms)}: segment {segment.base_offset} "
                f"is {age} old"
            )
            fact = Fact("newest_record", segment.largest_timestamp, time=True)
        deleted[segment.base_offset] = Decision(Verdict.GOES, "S7.3", words, (fact,))
    return deleted


def _deleted_count(state: PartitionState, config: TopicConfig, now: int) -> int:
    plan = retention_plan(state, config, now)
    return 0 if plan is None else len(plan.deleted)


def may_depend_on_sizes(state: PartitionState, config: TopicConfig, *, may_grow: bool) -> bool:
    """Return whether retention's choice may depend on what a compaction keeps.

    `may_grow`: v0 and v1 batches may take more space as v2.
    """
    by_size = config.retention_bytes >= 0 and (
        may_grow or state.whole_bytes >= config.retention_bytes
    )
    return config.cleanup_delete and (by_size or config.retention_ms >= 0)
