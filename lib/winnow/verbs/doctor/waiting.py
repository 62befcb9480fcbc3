"""Find work that waits for a broker: since when partitions are due for compaction, segments are
past retention, and records are not committed. Times are those of the files: no timestamp of a
record makes them earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from winnow.cleaning.plan.partitions import Planned, PlannedPartition
from winnow.policy.cleanable import oldest_first_batch, segments_between
from winnow.policy.plan import PartitionPlan
from winnow.state import PartitionState, Segment
from winnow.verbs.doctor.values import UNCOMMITTED, Expired, Held, Overdue
from winnow.words import counted, duration

_UNCOMMITTED_MS = 600_000
"""A running broker writes high watermarks each 5 s."""
Starts = Mapping[str, int | None]
"""The start times of running brokers by log directory, in ms since 1970; None if unknown. It has no
log directory without a running broker.
"""


def overdue_in(items: Iterable[PlannedPartition], starts: Starts) -> tuple[Overdue, ...]:
    """Return the partitions that are due for compaction, most dirty bytes first."""
    found = [overdue for item in items for overdue in _overdue(item, starts)]
    return tuple(sorted(found, key=lambda o: (-o.dirty_bytes, o.topic, o.partition)))


def _overdue(item: PlannedPartition, starts: Starts) -> Iterator[Overdue]:
    plan = item.plan
    if plan.compaction is None or plan.dirty_ratio is None or plan.first_dirty_offset is None:
        return
    clean = [s for s in item.state.segments if s.base_offset < plan.first_dirty_offset]
    yield Overdue(
        **item.place.named,
        rule=plan.rule,
        reason=plan.reason,
        dirty_ratio=plan.dirty_ratio,
        dirty_bytes=plan.compaction.cleanable_bytes,
        dirty_since=oldest_first_batch(_dirty(plan)),
        due_since=_not_before_start(due_since(plan), item, starts),
        last_cleaned=max((s.log_stamp[3] for s in clean if len(s.log_stamp) > 3), default=0)
        // 1_000_000
        or None,
    )


def _dirty(plan: PartitionPlan) -> tuple[Segment, ...]:
    """Return the segments that the plan compacts, without those that are clean."""
    if plan.compaction is None or plan.first_dirty_offset is None:
        return ()
    segments = plan.state.segments
    return segments_between(segments, plan.first_dirty_offset, plan.compaction.end_offset)


def due_since(plan: PartitionPlan) -> int | None:
    """Return a time at which the partition was due, in ms since 1970: enough of its dirty segments
    were closed and old enough. None: unknown. A segment was closed before the last write to the
    next segment.
    """
    config, segments, dirty = plan.config, plan.state.segments, _dirty(plan)
    after = dict(pairwise(segments))
    clean_bytes = plan.cleanable.clean_bytes if plan.cleanable is not None else 0
    dirty_bytes = closed = 0
    oldest: int | None = None
    known = []
    for segment in dirty:
        if segment not in after:
            break
        closed = max(
            closed,
            after[segment].log_mtime_ms,
            segment.largest_timestamp + config.min_compaction_lag_ms,
        )
        dirty_bytes += segment.log_bytes
        first = oldest_first_batch([segment])
        if first is not None:
            oldest = first if oldest is None else min(oldest, first)
        if oldest is not None:
            known.append(max(closed, oldest + config.max_compaction_lag_ms))
        total = clean_bytes + dirty_bytes
        if total and dirty_bytes / total > config.min_cleanable_dirty_ratio:
            known.append(closed)
            break
    return min(known, default=None)


def expired_in(
    items: Iterable[PlannedPartition], starts: Starts, *, now: int
) -> tuple[Expired, ...]:
    """Return what running brokers have not deleted, most bytes first."""
    found = [
        Expired(
            **item.place.named,
            segments=len(retention.deleted),
            log_bytes=retention.deleted_bytes,
            since=_not_before_start(expired_since(item.plan, now), item, starts),
        )
        for item in items
        if item.place.log_dir in starts and (retention := item.plan.retention) is not None
    ]
    return tuple(sorted(found, key=lambda e: (-e.log_bytes, e.topic, e.partition)))


def expired_since(plan: PartitionPlan, now: int) -> int | None:
    """Return a time at which the first segment was past retention by age or by size, in ms since
    1970. None: unknown.
    """
    config, (first, *rest) = plan.config, plan.state.segments
    if not config.cleanup_delete or not rest:
        return None
    known = []
    if config.retention_ms >= 0 and first.largest_timestamp + config.retention_ms < now:
        known.append(max(first.largest_timestamp + config.retention_ms, rest[0].log_mtime_ms))
    newer = 0
    for segment in rest:
        newer += segment.log_bytes
        if 0 <= config.retention_bytes <= newer:
            known.append(segment.log_mtime_ms)
            break
    return min(known, default=None)


def uncommitted_in(items: Iterable[Planned], starts: Starts, *, now: int) -> Iterator[Held]:
    """Yield partitions of running brokers whose high watermark has been below records for long,
    also if their settings are unknown.
    """
    for item in items:
        state = item.state
        if item.place.log_dir not in starts or state is None:
            continue
        if state.lost_high_watermark is not None:
            continue
        if state.high_watermark >= state.log_end_offset:
            continue
        since = _not_before_start(uncommitted_since(state), item, starts)
        if since is None or now - since < _UNCOMMITTED_MS:
            continue
        many = counted(state.log_end_offset - state.high_watermark, "offset")
        yield Held(
            **item.place.named,
            by=UNCOMMITTED,
            log_bytes=sum(s.log_bytes for s in _above(state)),
            words=f"the high watermark is {state.high_watermark}, {many} below the log end, and "
            f"records above it were written at least {duration(now - since)} ago",
            since=since,
        )


def uncommitted_since(state: PartitionState) -> int:
    """Return a time, in ms since 1970, at which there were records above the high watermark. It is
    below the log end.
    """
    first = next((s for s in _above(state) if s.log_bytes), state.active)
    return first.log_mtime_ms


def _above(state: PartitionState) -> list[Segment]:
    """Return the segments of which no record is committed."""
    return [s for s in state.segments if s.base_offset >= state.high_watermark]


def _not_before_start(since: int | None, item: Planned, starts: Starts) -> int | None:
    """Return the later of a time and the start of the broker."""
    started = starts.get(item.place.log_dir)
    return since if since is None or started is None else max(since, started)
