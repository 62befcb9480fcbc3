"""Which segments exceed the log start offset, `retention.bytes` and `retention.ms` (S7.1-S7.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from winnow.policy.config import TopicConfig
from winnow.policy.plan import Reason, RetentionPlan
from winnow.state import Entries, PartitionState, Segment
from winnow.wire.internal_topics import INTERNAL_TOPICS
from winnow.words import counted, duration, size

_NEVER_TIERED = {*INTERNAL_TOPICS, "__remote_log_metadata", "__cluster_metadata"}

_Expired = Callable[[Segment, Segment | None], bool]
"""Called with a segment and the next one (None for the active segment)."""


def retention_plan(state: PartitionState, config: TopicConfig, now: int) -> RetentionPlan | None:
    """Return what to delete, or None. The rules apply in order: start offset, size, time. Each sees
    what the previous one left (S7.1).

    The state is taken as it is: for `compact,delete` call it again after the compaction.
    """
    if is_tiered(state.topic_partition.topic, config):
        return None
    left = _Left(state)
    took = {f"log start offset {state.log_start_offset}: {{}}": left.by_start_offset()}
    if config.cleanup_delete:
        took[f"retention.bytes {size(config.retention_bytes)}: {{}}"] = left.by_size(config)
        time_limit = duration(config.retention_ms)
        took[f"retention.ms: {{}} older than {time_limit}"] = left.by_time(config, now)
    words = [form.format(counted(count, "segment")) for form, count in took.items() if count]
    return left.plan("; ".join(words)) if words else None


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
    first = state.segments[0]
    upper = state.segments[1].base_offset if len(state.segments) > 1 else state.log_end_offset
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


@dataclass(slots=True)
class _Left:
    """The segments that remain while the rules are applied one after the other."""

    state: PartitionState
    taken: int = 0

    def by_start_offset(self) -> int:
        start = self.state.log_start_offset
        return self._take(
            lambda _, following: following is not None and following.base_offset <= start
        )

    def by_size(self, config: TopicConfig) -> int:
        taken = sum(s.log_bytes for s in self.state.segments[: self.taken])
        surplus = self.state.whole_bytes - taken - config.retention_bytes
        if config.retention_bytes < 0 or surplus < 0:
            return 0

        def expired(segment: Segment, _following: Segment | None) -> bool:
            nonlocal surplus
            if surplus - segment.log_bytes < 0:
                return False
            surplus -= segment.log_bytes
            return True

        return self._take(expired)

    def by_time(self, config: TopicConfig, now: int) -> int:
        if config.retention_ms < 0:
            return 0
        return self._take(lambda segment, _: now - segment.largest_timestamp > config.retention_ms)

    def plan(self, words: str) -> RetentionPlan:
        left = self.state.segments[self.taken :]
        first = left[0].base_offset if left else self.state.log_end_offset
        return RetentionPlan(
            deleted=self.state.segments[: self.taken],
            roll=not left,
            log_start_offset=max(self.state.log_start_offset, first),
            words=words,
        )

    def _take(self, expired: _Expired) -> int:
        """Kafka's `deletableSegments` (S7.2): from the oldest on, up to the first that fails.

        After an unclean shutdown a broker must recover the active segment first (S8.2).
        """
        before = self.taken
        segments = self.state.segments
        while self.taken < len(segments):
            segment = segments[self.taken]
            following = segments[self.taken + 1] if self.taken + 1 < len(segments) else None
            upper = self.state.log_end_offset if following is None else following.base_offset
            kept_active = following is None and (
                segment.log_bytes == 0 or self.state.recovered is not None
            )
            if self.state.high_watermark < upper or kept_active or not expired(segment, following):
                break
            self.taken += 1
        return self.taken - before
