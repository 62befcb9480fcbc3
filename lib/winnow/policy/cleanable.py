"""Which part of a log is clean, dirty, or not yet cleanable (S3.2-S3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.policy.config import TopicConfig
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


def segments_between(segments: Sequence[Segment], start: int, end: int) -> tuple[Segment, ...]:
    """Kafka's `LogSegments.values`: from the segment that holds `start` (or the first one) to the
    last one whose base is below `end`.
    """
    if start == end:
        return ()
    below_end = [s for s in segments if s.base_offset < end]
    floors = [s.base_offset for s in segments if s.base_offset <= start]
    return tuple(s for s in below_end if not floors or s.base_offset >= floors[-1])


def oldest_dirty(state: PartitionState, first_dirty_offset: int) -> int | None:
    """Return the lowest timestamp, ms, of the first batches of dirty segments, the active one
    included: it is rolled no later than `max.compaction.lag.ms` after it (S3.4). None if there are
    none or none is known.
    """
    return oldest_first_batch(
        segments_between(state.segments, first_dirty_offset, state.log_end_offset)
    )


def oldest_first_batch(segments: Sequence[Segment]) -> int | None:
    """Return the lowest known timestamp, ms, of the first batches of segments. None if there is
    none.
    """
    known = [s.first_batch_max_timestamp for s in segments]
    return min((timestamp for timestamp in known if timestamp > 0), default=None)


def cleanable_range(
    state: PartitionState,
    config: TopicConfig,
    now: int,
    *,
    last_stable_offset: int,
    undecided: str = "",
) -> CleanableRange:
    """Kafka's `cleanableOffsets` and `LogToClean`. `last_stable_offset`: S3.2; the high watermark
    if there are no transactions. `undecided`: describes the transaction that makes it lower.
    """
    first_dirty, reset = _first_dirty(state)
    limit, why = _first_uncleanable(
        state,
        config,
        now,
        first_dirty=first_dirty,
        last_stable_offset=last_stable_offset,
        undecided=undecided,
    )
    not_cleanable = _non_active_from(state, max(first_dirty, limit))
    end = (not_cleanable[0] if not_cleanable else state.active).base_offset
    clean_bytes = sum(s.log_bytes for s in state.segments if s.base_offset < first_dirty)
    cleanable_bytes = sum(
        s.log_bytes for s in segments_between(state.segments, min(first_dirty, end), end)
    )
    total = clean_bytes + cleanable_bytes
    oldest = oldest_first_batch(_non_active_from(state, first_dirty))
    return CleanableRange(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=end,
        clean_bytes=clean_bytes,
        cleanable_bytes=cleanable_bytes,
        ratio=cleanable_bytes / total if total else None,
        checkpoint_reset=first_dirty if reset else None,
        needs_compaction_now=oldest is not None and oldest < now - config.max_compaction_lag_ms,
        why=why,
    )


def _first_dirty(state: PartitionState) -> tuple[int, bool]:
    """Return the first dirty offset, and whether the checkpoint lies outside the log (S3.2)."""
    checkpoint = state.cleaner_checkpoint
    if checkpoint is None:
        return state.log_start_offset, False
    if not state.log_start_offset <= checkpoint <= state.log_end_offset:
        return state.log_start_offset, True
    return checkpoint, False


def _first_uncleanable(
    state: PartitionState,
    config: TopicConfig,
    now: int,
    *,
    first_dirty: int,
    last_stable_offset: int,
    undecided: str,
) -> tuple[int, str]:
    limits = [
        (state.active.base_offset, f"the active segment starts at {state.active.base_offset}")
    ]
    if last_stable_offset < state.high_watermark:
        words = undecided or f"a transaction is undecided from offset {last_stable_offset} on"
        limits.append((last_stable_offset, words))
    else:
        limits.append((last_stable_offset, f"the high watermark is {last_stable_offset}"))
    if config.min_compaction_lag_ms > 0:
        for segment in _non_active_from(state, first_dirty):
            # Strictly younger. The first such segment stops all later ones, even older ones.
            if segment.largest_timestamp > now - config.min_compaction_lag_ms:
                lag = duration(config.min_compaction_lag_ms)
                words = (
                    f"min.compaction.lag.ms: segment {segment.base_offset} is younger than {lag}"
                )
                limits.append((segment.base_offset, words))
                break
    return min(limits, key=lambda limit: limit[0])


def _non_active_from(state: PartitionState, offset: int) -> tuple[Segment, ...]:
    if offset > state.active.base_offset:
        return ()
    return segments_between(state.segments, offset, state.active.base_offset)
