"""Which segments exceed the log start offset, `retention.bytes` and `retention.ms` (S7.1-S7.3)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, takewhile

from winnow.policy.config import TopicConfig
from winnow.policy.plan import Reason, RetentionPlan
from winnow.state import Entries, PartitionState, Segment
from winnow.wire.internal_topics import INTERNAL_TOPICS
from winnow.words import counted, duration, size

_NEVER_TIERED = {*INTERNAL_TOPICS, "__remote_log_metadata", "__cluster_metadata"}


def retention_plan(state: PartitionState, config: TopicConfig, now: int) -> RetentionPlan | None:
    """Return what to delete, or None. The rules apply in order: start offset, size, time. Each goes
    on where the previous one stopped, up to the first segment that fails (S7.1).

    The state is taken as it is: for `compact,delete` call it again after the compaction.
    """
    if is_tiered(state.topic_partition.topic, config):
        return None
    segments, start = state.segments, state.log_start_offset
    ends = _ends(state)
    deleted_bytes = list(accumulate(segment.log_bytes for segment in segments))
    rules: dict[str, Callable[[int], bool]] = {
        f"log start offset {start}: {{}}": lambda n: n + 1 < len(segments) and ends[n] <= start
    }
    if config.cleanup_delete and config.retention_bytes >= 0:
        surplus = state.whole_bytes - config.retention_bytes
        rules[f"retention.bytes {size(config.retention_bytes)}: {{}}"] = lambda n: (
            deleted_bytes[n] <= surplus
        )
    if config.cleanup_delete and config.retention_ms >= 0:
        rules[f"retention.ms: {{}} older than {duration(config.retention_ms)}"] = lambda n: (
            now - segments[n].largest_timestamp > config.retention_ms
        )
    deletable, taken, words = _deletable(state), 0, []
    for form, expired in rules.items():
        before = taken
        while taken < deletable and expired(taken):
            taken += 1
        if taken > before:
            words.append(form.format(counted(taken - before, "segment")))
    if not taken:
        return None
    return RetentionPlan(
        deleted=segments[:taken],
        roll=taken == len(segments),
        log_start_offset=max(start, ends[taken - 1]),
        words="; ".join(words),
    )


def _ends(state: PartitionState) -> list[int]:
    """Return where each segment ends: at the next one, the last one at the log end."""
    return [*(segment.base_offset for segment in state.segments[1:]), state.log_end_offset]


def _deletable(state: PartitionState) -> int:
    """Return how many segments may be deleted at all (S7.2): those below the high watermark. After
    an unclean shutdown a broker must recover the active segment first (S8.2).
    """
    below = sum(1 for _ in takewhile(lambda end: end <= state.high_watermark, _ends(state)))
    active_stays = state.active.log_bytes == 0 or state.recovered is not None
    return min(below, len(state.segments) - active_stays)


def has_remote_storage(topic: str, config: TopicConfig) -> bool:
    """Kafka's `isRemoteLogEnabled`: a part of the log may lie in remote storage (S7.5)."""
    return (
        config.remote_storage_enable
        and config.remote_log_storage_system_enable is not False
        and not config.cleanup_compact
        and topic not in _NEVER_TIERED
    )


def is_tiered(topic: str, config: TopicConfig) -> bool:
    """Whether segments may be deleted only after an upload that is not known locally (S7.5)."""
    return has_remote_storage(topic, config) and not config.remote_log_copy_disable


def checkpoint_entries(topic: str, config: TopicConfig) -> Entries:
    """Return which checkpoint entries of a partition follow its log start offset (S7.6)."""
    return Entries(compacted=config.cleanup_compact, remote=has_remote_storage(topic, config))


def why_kept(state: PartitionState, config: TopicConfig, now: int) -> Reason:
    """Return why `retention_plan` deletes nothing."""
    if is_tiered(state.topic_partition.topic, config):
        words = (
            "remote.storage.enable: only uploaded segments may be deleted, "
            "and the local disk does not show which were uploaded"
        )
        return Reason("S7.5", words)
    if not config.cleanup_delete:
        policy = config.cleanup_policy or "empty"
        words = (
            f"cleanup.policy is {policy}, and no segment lies below the log start offset "
            f"{state.log_start_offset}"
        )
        return Reason("S7.1", words)
    first, upper = state.segments[0], _ends(state)[0]
    if len(state.segments) == 1 and first.log_bytes == 0:
        return Reason("S7.2", "the log is empty")
    if len(state.segments) == 1 and state.recovered is not None:
        words = (
            "the only segment is active, and after an unclean shutdown a broker recovers it first"
        )
        return Reason("S8.2", words)
    if state.high_watermark < upper:
        words = (
            f"the high watermark is {state.high_watermark}, and segment {first.base_offset} ends "
            f"at {upper}: nothing above it is known to be committed"
        )
        return Reason("S7.2", words)
    return Reason(
        "S7.3", "; ".join((_why_not_too_large(state, config), _why_not_too_old(first, config, now)))
    )


def _why_not_too_large(state: PartitionState, config: TopicConfig) -> str:
    if config.retention_bytes < 0:
        return "retention.bytes is unlimited"
    limit, has = size(config.retention_bytes), size(state.whole_bytes)
    if state.whole_bytes < config.retention_bytes:
        return f"retention.bytes {limit}: the log has only {has}"
    first = state.segments[0].base_offset
    return (
        f"retention.bytes {limit}: the log has {has} and would fall below it without segment "
        f"{first}"
    )


def _why_not_too_old(first: Segment, config: TopicConfig, now: int) -> str:
    if config.retention_ms < 0:
        return "retention.ms is unlimited"
    age = now - first.largest_timestamp
    if age < 0:
        return f"retention.ms: segment {first.base_offset} ends {duration(-age)} in the future"
    return (
        f"retention.ms {duration(config.retention_ms)}: segment {first.base_offset} is "
        f"{duration(age)} old"
    )
