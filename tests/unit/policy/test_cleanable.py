"""S3.2-S3.4: what is clean, dirty and not yet cleanable."""

from __future__ import annotations

import pytest

from tests.unit.policy.states import NOW, config, partition, segment
from winnow.policy.cleanable import CleanableRange, cleanable_range, segments_between
from winnow.policy.config import TopicConfig
from winnow.policy.producers import Transaction
from winnow.state import PartitionState, Segment


def ranged(
    state: PartitionState,
    settings: TopicConfig | None = None,
    *,
    undecided: Transaction | None = None,
) -> CleanableRange:
    stable = state.high_watermark if undecided is None else undecided.first_offset
    return cleanable_range(
        state, settings or config(), NOW, last_stable_offset=stable, undecided=undecided
    )


def six() -> list[Segment]:
    """Return six segments of one record each; the sixth is active."""
    return [segment(base) for base in range(6)]


def test_case_62_uncleanable_section_begins_at_the_high_watermark() -> None:
    found = ranged(partition(six(), end=6, checkpoint=2, high_watermark=4))
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (2, 4)
    assert (found.clean_bytes, found.cleanable_bytes, found.ratio) == (200, 200, 0.5)


def test_case_59_checkpoint_beyond_the_end_is_reset() -> None:
    found = ranged(partition([segment(10), segment(100)], start=10, end=150, checkpoint=200))
    assert (found.first_dirty_offset, found.checkpoint_reset) == (10, 10)


@pytest.mark.parametrize("checkpoint", [0, -1])
def test_case_60_checkpoint_below_the_log_start_is_reset(checkpoint: int) -> None:
    found = ranged(partition([segment(10), segment(20)], start=10, end=30, checkpoint=checkpoint))
    assert (found.first_dirty_offset, found.checkpoint_reset) == (10, 10)


@pytest.mark.parametrize("checkpoint", [None, 10, 30])
def test_checkpoint_inside_the_log_or_none_is_not_reset(checkpoint: int | None) -> None:
    found = ranged(partition([segment(10), segment(20)], start=10, end=30, checkpoint=checkpoint))
    assert found.checkpoint_reset is None
    assert found.first_dirty_offset == (10 if checkpoint is None else checkpoint)


def test_case_61_single_segment_with_a_log_start_has_nothing_cleanable() -> None:
    found = ranged(partition([segment(0)], start=2, end=10))
    assert (found.cleanable_bytes, found.ratio) == (0, 0.0)


def test_case_61_checkpoint_beyond_the_active_base_cleans_nothing() -> None:
    found = ranged(partition([segment(0), segment(2)], end=5, checkpoint=3))
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (3, 2)
    assert (found.clean_bytes, found.cleanable_bytes) == (200, 0)


def test_empty_log_has_no_ratio() -> None:
    assert ranged(partition([segment(0, 0)], end=0)).ratio is None


@pytest.mark.parametrize(
    ("high_watermark", "end", "why"), [(6, 5, "active segment"), (3, 3, "high watermark is 3")]
)
def test_case_63_active_segment_or_high_watermark_ends_the_range(
    high_watermark: int, end: int, why: str
) -> None:
    found = ranged(partition(six(), end=6, high_watermark=high_watermark))
    assert found.first_uncleanable_offset == end
    assert why in found.why


def test_segment_with_the_high_watermark_is_excluded() -> None:
    found = ranged(partition([segment(0), segment(10), segment(20)], end=30, high_watermark=15))
    assert (found.first_uncleanable_offset, found.cleanable_bytes) == (10, 100)


def test_segment_across_the_first_dirty_offset_counts_on_both_sides() -> None:
    found = ranged(partition([segment(0), segment(10), segment(20)], end=30, checkpoint=15))
    assert (found.clean_bytes, found.cleanable_bytes) == (200, 100)


def test_case_27_and_40_open_transaction_ends_the_range() -> None:
    undecided = Transaction(first_offset=2, producer_id=7, marker_offset=None)
    found = ranged(partition(six(), end=6), undecided=undecided)
    assert found.first_uncleanable_offset == 2
    assert "transaction open since offset 2" in found.why


def test_case_64_min_compaction_lag_ends_at_the_first_young_segment() -> None:
    lag = 1000
    segments = [
        segment(0, last=NOW - lag),  # exactly as old as required
        segment(1, last=NOW - lag + 1),
        segment(2, last=NOW - 10 * lag),  # old, but after a young one
        segment(3),
    ]
    found = ranged(partition(segments, end=4), config(min_compaction_lag_ms=lag))
    assert found.first_uncleanable_offset == 1
    assert found.why == "min.compaction.lag.ms: segment 1 is younger than 1 s"


def test_case_64_age_of_clean_segments_is_ignored() -> None:
    segments = [segment(0, last=NOW), segment(1, last=0), segment(2, last=0)]
    found = ranged(partition(segments, end=3, checkpoint=1), config(min_compaction_lag_ms=1000))
    assert found.first_uncleanable_offset == 2


def test_case_94_without_timestamps_the_file_time_counts() -> None:
    segments = [segment(0, last=-1, log_mtime_ms=NOW), segment(1)]
    assert ranged(partition(segments, end=2), config(min_compaction_lag_ms=1)).cleanable_bytes == 0
    assert (
        ranged(partition(segments, end=2), config(min_compaction_lag_ms=0)).cleanable_bytes == 100
    )


@pytest.mark.parametrize(("age", "now"), [(1000, False), (1001, True)])
def test_case_65_max_compaction_lag_is_strict(age: int, *, now: bool) -> None:
    segments = [
        segment(0, first=NOW - 10**9),
        segment(1, first=-1),
        segment(2, first=NOW - age),
        segment(3, first=1),
    ]
    state = partition(segments, end=4, checkpoint=1)
    assert ranged(state, config(max_compaction_lag_ms=1000)).needs_compaction_now is now


@pytest.mark.parametrize("first", [0, -1])
def test_case_65_unknown_timestamps_never_force_a_compaction(first: int) -> None:
    state = partition([segment(0, first=first), segment(1)], end=2)
    assert not ranged(state, config(max_compaction_lag_ms=1)).needs_compaction_now


@pytest.mark.parametrize(
    ("start", "end", "bases"),
    [
        (5, 5, []),
        (0, 20, [10]),
        (10, 20, [10]),
        (15, 30, [10, 20]),
        (20, 31, [20, 30]),
        (99, 100, [30]),
    ],
)
def test_segments_between_two_offsets_are_found(start: int, end: int, bases: list[int]) -> None:
    segments = [segment(10), segment(20), segment(30)]
    assert [s.base_offset for s in segments_between(segments, start, end)] == bases


def test_high_watermark_below_first_dirty_offset_cleans_nothing() -> None:
    found = ranged(
        partition([segment(0), segment(10), segment(20)], end=30, checkpoint=15, high_watermark=3)
    )
    assert (found.first_uncleanable_offset, found.cleanable_bytes, found.clean_bytes) == (
        10,
        0,
        200,
    )
