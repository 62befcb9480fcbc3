"""Which segments exceed the log start offset, `retention.bytes` and `retention.ms` (S7.1-S7.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, takewhile

from winnow.policy.config import TopicConfig
from winnow.policy.plan import Reason, RetentionPlan
from winnow.policy.timestamps import Blocking, why_so_old
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
    by_time = f"retention.ms: {{}} older than {duration(config.retention_ms)}"
    if config.cleanup_delete and config.retention_ms >= 0:
        rules[by_time] = lambda n: _is_expired(segments[n], config, now)
    most, taken, words, dates = deletable(state), 0, [], ""
    for form, expired in rules.items():
        before = taken
        while taken < most and expired(taken):
            taken += 1
        if taken > before:
            words.append(form.format(counted(taken - before, "segment")))
            if form == by_time:
                dates = why_so_old(
                    segments[before:taken],
                    everything=taken == len(segments),
                    now=now,
                    limit=config.retention_ms,
                )
    if not taken:
        return None
    blocking = blocked_at(state, config, now, first=taken)
    words += [*([dates] if dates else []), *([] if blocking is None else [str(blocking)])]
    return RetentionPlan(
        deleted=segments[:taken],
        roll=taken == len(segments),
        log_start_offset=max(start, ends[taken - 1]),
        words="; ".join(words),
        dates=dates,
    )


def _is_expired(segment: Segment, config: TopicConfig, now: int) -> bool:
    return now - segment.largest_timestamp > config.retention_ms


def blocked_at(
    state: PartitionState, config: TopicConfig, now: int, *, first: int = 0
) -> Blocking | None:
    """Return what `retention.ms` stops at, if that is a timestamp in the future. `first`: the
    number of the first segment that stays.
    """
    if first >= deletable(state) or not config.cleanup_delete or config.retention_ms < 0:
        return None
    segment, *newer = state.segments[first : deletable(state)]
    if segment.largest_timestamp <= now:
        return None
    kept = tuple(one for one in newer if _is_expired(one, config, now))
    return Blocking("retention.ms", segment, state.future_offset(segment), kept)


def retention_config(config: TopicConfig, *, compacts_less: bool) -> TopicConfig:
    """Return the settings that decide retention.

    `compacts_less`: a broker compacts more of this log. It is smaller then, and `retention.bytes`
    deletes less, perhaps nothing. So that limit does not apply (S3.2, Ours).
    """
    waits = compacts_less and config.cleanup_compact and config.retention_bytes >= 0
    return replace(config, retention_bytes=-1) if waits else config


def _ends(state: PartitionState) -> list[int]:
    """Return where each segment ends: at the next one, the last one at the log end."""
    return [*(segment.base_offset for segment in state.segments[1:]), state.log_end_offset]


def deletable(state: PartitionState) -> int:
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
    held = retention_plan(all_committed(state), config, now)
    if held is None or state.high_watermark >= upper:
        return _by_settings(state, config, now)
    if state.lost_high_watermark is not None:
        words = (
            f"{state.lost_high_watermark}, so no record counts as committed: that alone keeps "
            f"{counted(len(held.deleted), 'segment')}, {size(held.deleted_bytes)}"
        )
    else:
        words = (
            f"the high watermark is {state.high_watermark}, and segment {first.base_offset} ends "
            f"at {upper}: nothing above it is known to be committed"
        )
    return Reason("S7.2", words)


def _by_settings(state: PartitionState, config: TopicConfig, now: int) -> Reason:
    """Return why size and time keep the first segment."""
    first, blocking = state.segments[0], blocked_at(state, config, now)
    too_old = _why_not_too_old(first, config, now) if blocking is None else str(blocking)
    return Reason("S7.3", f"{_why_not_too_large(state, config)}; {too_old}")


def all_committed(state: PartitionState) -> PartitionState:
    """Return the state with the log end as the high watermark."""
    return replace(state, high_watermark=state.log_end_offset, lost_high_watermark=None)


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
    return (
        f"retention.ms {duration(config.retention_ms)}: segment {first.base_offset} is "
        f"{duration(age)} old"
    )
