"""Since when work waits for a broker, by the times of files."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.policy.states import NOW, config, partition, segment
from winnow.cleaning.plan.partitions import SkippedPartition
from winnow.policy.decide import decide
from winnow.policy.plan import Reason
from winnow.state import Segment
from winnow.survey.place import PartitionPlace
from winnow.verbs.doctor.waiting import (
    due_since,
    expired_since,
    uncommitted_in,
    uncommitted_since,
)

HOUR = 3_600_000


def written(base: int, hours: float, size: int = 100, **times: int) -> Segment:
    """A segment with a last write this long ago. Its records may be older (`last`)."""
    at = NOW - int(hours * HOUR)
    return segment(base, size, **({"last": at, "log_mtime_ms": at} | times))  # type: ignore[arg-type]


def test_due_when_enough_was_dirty_and_the_next_segment_was_written() -> None:
    """A segment is closed when the next one begins, which is not later than its last write."""
    logs = [written(0, 9), written(10, 8), written(20, 7), written(30, 0.1)]
    state = partition(logs, end=40, checkpoint=10)
    half = decide(state, config(min_cleanable_dirty_ratio=0.49), now=NOW)
    assert due_since(half) == NOW - 7 * HOUR
    more = decide(state, config(min_cleanable_dirty_ratio=0.6), now=NOW)
    assert due_since(more) == logs[3].log_mtime_ms, "the third segment was needed"


def test_due_not_before_min_compaction_lag_is_over() -> None:
    logs = [written(0, 9), written(10, 8), written(20, 0.1)]
    lag = config(min_compaction_lag_ms=3 * HOUR, min_cleanable_dirty_ratio=0.1)
    plan = decide(partition(logs, end=30), lag, now=NOW)
    assert due_since(plan) == NOW - 6 * HOUR
    future = config(min_compaction_lag_ms=30 * HOUR)
    assert due_since(decide(partition(logs, end=30), future, now=NOW)) is None


def test_due_by_max_compaction_lag_below_the_ratio() -> None:
    logs = [written(0, 99, 10_000), written(10, 9, first=NOW - 12 * HOUR), written(20, 2)]
    late = config(max_compaction_lag_ms=4 * HOUR, min_cleanable_dirty_ratio=0.9)
    plan = decide(partition(logs, end=30, checkpoint=10), late, now=NOW)
    assert due_since(plan) == NOW - 2 * HOUR


def test_timestamps_of_records_make_nothing_due_earlier() -> None:
    logs = [written(0, 0.2, last=1), written(10, 0.1, last=1), written(20, 0, last=1)]
    dirty = decide(partition(logs, end=30), config(), now=NOW)
    assert due_since(dirty) == NOW - HOUR // 10
    expired = decide(partition(logs, end=30), config("delete", retention_ms=HOUR), now=NOW)
    assert expired_since(expired, NOW) == NOW - HOUR // 10


def test_expired_by_age_or_size_whichever_was_first() -> None:
    logs = [written(0, 9), written(10, 8), written(20, 5), written(30, 0)]
    state = partition(logs, end=40)
    for settings, hours in (
        ({"retention_ms": 3 * HOUR}, 6),
        ({"retention_ms": -1, "retention_bytes": 200}, 5),
        ({"retention_ms": 3 * HOUR, "retention_bytes": 100}, 8),
        ({"retention_ms": 3 * HOUR, "retention_bytes": 200}, 6),
    ):
        plan = decide(state, config("delete", **settings), now=NOW)
        assert expired_since(plan, NOW) == NOW - hours * HOUR


def test_uncommitted_since_the_first_segment_above_the_high_watermark() -> None:
    logs = [written(0, 9), written(10, 8), written(20, 5), written(30, 0.1)]
    assert uncommitted_since(partition(logs, end=40, high_watermark=15)) == NOW - 5 * HOUR
    inside = partition(logs, end=40, high_watermark=35)
    assert uncommitted_since(inside) == logs[3].log_mtime_ms


def test_uncommitted_records_are_found_where_the_settings_are_unknown() -> None:
    logs = [written(0, 9), written(10, 8), written(20, 5)]
    state = partition(logs, end=30, high_watermark=15)
    place = PartitionPlace(state.log_dir, state.topic_partition)
    unknown = SkippedPartition(place, None, Reason("S9.2", "unknown"), state=state)
    (held,) = uncommitted_in([unknown], {state.log_dir: None}, now=NOW)
    assert (held.topic, held.since) == (state.topic_partition.topic, NOW - 5 * HOUR)
    assert [*uncommitted_in([unknown], {}, now=NOW)] == []
    assert [*uncommitted_in([replace(unknown, state=None)], {state.log_dir: None}, now=NOW)] == []
