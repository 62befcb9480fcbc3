"""Which part of a log is clean, dirty, or not yet cleanable (S3.2-S3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.policy.config import TopicConfig
from winnow.policy.producers import Transaction
from winnow.policy.timestamps import Blocking
from winnow.state import PartitionState, Segment
from winnow.words import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanableRange:
    """Offsets and `.log` bytes. Dirty is [first_dirty_offset, first_uncleanable_offset)."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """U' of S3.3: the base of a segment. Below `first_dirty_offset` if nothing is cleanable."""
    clean_bytes: int
    cleanable_bytes: int
    ratio: float | None
    """None if there are no bytes at all."""
    checkpoint_reset: int | None
    """`first_dirty_offset`, if the checkpoint lies outside the log and must be rewritten (S3.2)."""
    needs_compaction_now: bool
    """A dirty record is older than `max.compaction.lag.ms`."""
    why: str
    """What ends the cleanable range, for people."""
    blocking: Blocking | None = None
    """What ends the cleanable range, if that is a timestamp in the future."""


def segments_between(segments: Sequence[Segment], start: int, end: int) -> tuple[Segment, ...]:
    """Kafka's `LogSegments.values`: from the segment that holds `start` (or the first one) to the
    last one whose base is below `end`.
    """
    if start == end:
        return ()
    below_end = [s for s in segments if s.base_offset < end]
    floors = [s.base_offset for s in segments if s.base_offset <= start]
    return tuple(s for s in below_end if not floors or s.base_offset >= floors[-1])


def oldest_first_batch(segments: Sequence[Segment]) -> int | None:
    """Return the lowest known timestamp, ms, of the first batches of segments, or None."""
    known = [s.first_batch_max_timestamp for s in segments]
    return min((timestamp for timestamp in known if timestamp > 0), default=None)


def cleanable_range(
    state: PartitionState,
    config: TopicConfig,
    now: int,
    *,
    last_stable_offset: int,
    undecided: Transaction | None = None,
) -> CleanableRange:
    """Kafka's `cleanableOffsets` and `LogToClean`. `last_stable_offset`: S3.2; the high watermark
    if there are no transactions. `undecided`: the transaction that makes it lower.
    """
    start, active = state.log_start_offset, state.active.base_offset
    checkpoint = start if state.cleaner_checkpoint is None else state.cleaner_checkpoint
    first_dirty = checkpoint if start <= checkpoint <= state.log_end_offset else start
    dirty = segments_between(state.segments, first_dirty, active)
    limits = [
        (active, f"the active segment starts at {active}"),
        (last_stable_offset, str(undecided or f"the high watermark is {last_stable_offset}")),
    ]
    lag = config.min_compaction_lag_ms
    # Strictly younger. The first such segment stops all later ones, even older ones.
    young = next((s for s in dirty if lag > 0 and s.largest_timestamp > now - lag), None)
    blocking = None
    if young is not None:
        base = young.base_offset
        words = f"min.compaction.lag.ms: segment {base} is younger than {duration(lag)}"
        if young.largest_timestamp > now:
            old = (s for s in dirty if s.base_offset > base and s.largest_timestamp <= now - lag)
            offset = state.future_offset(young)
            blocking = Blocking("min.compaction.lag.ms", young, offset, tuple(old))
            words = str(blocking)
        limits.append((base, words))
    limit, why = min(limits, key=lambda limit: limit[0])
    not_cleanable = segments_between(state.segments, max(first_dirty, limit), active)
    end = (not_cleanable[0] if not_cleanable else state.active).base_offset
    clean_bytes = sum(s.log_bytes for s in state.segments if s.base_offset < first_dirty)
    cleanable_bytes = sum(
        s.log_bytes for s in segments_between(state.segments, min(first_dirty, end), end)
    )
    total = clean_bytes + cleanable_bytes
    oldest = oldest_first_batch(dirty)
    return CleanableRange(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=end,
        clean_bytes=clean_bytes,
        cleanable_bytes=cleanable_bytes,
        ratio=cleanable_bytes / total if total else None,
        checkpoint_reset=None if first_dirty == checkpoint else first_dirty,
        needs_compaction_now=oldest is not None and oldest < now - config.max_compaction_lag_ms,
        why=why,
        blocking=blocking if blocking and why == str(blocking) else None,
    )
