"""Timestamps that nobody expects, in reasons: the record, the date, and how much it decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.policy.states import config, partition, segment
from winnow.policy.cleanable import cleanable_range
from winnow.policy.decide import decide
from winnow.policy.retention import blocked_at, retention_plan, why_kept
from winnow.state import PartitionState
from winnow.words import dated

NOW = 1_795_000_000_000
DAY = 86_400_000
OLD = NOW - 30 * DAY
JAVAS_LAST = 2**63 - 1


def log(*newest: int, written: int = NOW) -> PartitionState:
    segments = [segment(10 * n, last=last, log_mtime_ms=written) for n, last in enumerate(newest)]
    return partition([*segments, segment(10 * len(newest), last=NOW)], end=10 * len(newest) + 5)


@pytest.mark.parametrize(
    ("ms", "date"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
        (JAVAS_LAST, "+292278994-08-17T07:12:55.807Z"),
    ],
)
def test_dates_beyond_the_calendar_are_those_of_java(ms: int, date: str) -> None:
    """Java's `Instant.ofEpochMilli(Long.MAX_VALUE)` prints the last one."""
    assert dated(ms) == date


def test_timestamp_in_the_future_names_what_it_keeps() -> None:
    state = replace(log(OLD, JAVAS_LAST, OLD, OLD), future=((10, 17),))
    plan = retention_plan(state, config("delete", retention_ms=DAY), NOW)
    assert plan is not None
    assert [one.base_offset for one in plan.deleted] == [0]
    assert plan.words == (
        "retention.ms: 1 segment older than 1 d; retention.ms: segment 10 has a timestamp in the "
        "future (offset 17, +292278994-08-17T07:12:55.807Z); it keeps 2 newer segments as well, "
        "300 B in all"
    )


def test_timestamp_in_the_future_ends_a_compaction() -> None:
    state = replace(log(OLD, NOW * 1000, OLD, NOW - 1), future=((10, 17),))
    lag = config(min_compaction_lag_ms=DAY)
    found = cleanable_range(state, lag, NOW, last_stable_offset=state.log_end_offset)
    assert found.blocking is not None
    assert found.first_uncleanable_offset == 10
    # The last one is too young itself.
    assert [one.base_offset for one in found.blocking.kept] == [20]
    assert "microseconds instead of ms?" in found.why
    assert "in the future" in decide(state, lag, now=NOW).reason


def test_young_segment_is_not_of_the_future() -> None:
    state = log(NOW - 1, OLD)
    lag = config(min_compaction_lag_ms=DAY)
    found = cleanable_range(state, lag, NOW, last_stable_offset=state.log_end_offset)
    assert (found.blocking, found.why) == (
        None,
        "min.compaction.lag.ms: segment 0 is younger than 1 d",
    )
    assert blocked_at(state, config("delete", retention_ms=DAY), NOW) is None


def test_time_of_a_file_in_the_future_is_told_as_such() -> None:
    state = log(-1, OLD, written=NOW + DAY)
    words = why_kept(state, config("delete", retention_ms=DAY), NOW).words
    assert "segment 0 has a timestamp in the future (the time of its file, " in words


@pytest.mark.parametrize("timestamp", [0, NOW // 1000, 1_600_000_000])
def test_timestamps_from_before_kafka_are_dated(timestamp: int) -> None:
    plan = retention_plan(log(timestamp, timestamp), config("delete", retention_ms=7 * DAY), NOW)
    assert plan is not None
    assert plan.dates.startswith(f"the newest record is of {dated(timestamp)}")
    assert plan.dates.endswith(f"but the files were written until {dated(NOW)}")
    assert plan.dates in plan.words
    assert ("seconds instead of ms?" in plan.dates) == (timestamp > 0)


def test_log_that_is_emptied_although_it_is_new_is_dated() -> None:
    """As one that was mirrored with the timestamps of its source."""
    state = log(OLD, OLD)
    state = replace(state, segments=tuple(replace(s, last_timeindex_timestamp=OLD) for s in
                                          state.segments))  # fmt: skip
    plan = retention_plan(state, config("delete", retention_ms=DAY), NOW)
    assert plan is not None
    assert plan.roll
    assert plan.dates
    longer = retention_plan(
        replace(state, segments=tuple(replace(s, log_mtime_ms=OLD) for s in state.segments)),
        config("delete", retention_ms=DAY),
        NOW,
    )
    assert longer is not None
    assert longer.dates == ""


@pytest.mark.parametrize("retention", [{"retention_ms": DAY}, {"retention_bytes": 100}])
def test_lost_high_watermark_is_the_reason_only_if_it_decides(retention: dict[str, int]) -> None:
    lost = "replication-offset-checkpoint is missing"
    state = replace(log(OLD, OLD), high_watermark=0, lost_high_watermark=lost)
    settings = config("delete", **({"retention_ms": -1} | retention))
    found = why_kept(state, settings, NOW)
    assert found.rule == "S7.2"
    assert found.words == (
        f"{lost}, so no record counts as committed: that alone keeps 2 segments, 200 B"
    )
    kept = why_kept(state, config("delete", retention_ms=365 * DAY), NOW)
    assert kept.rule == "S7.3"
    assert lost not in kept.words
    assert lost in decide(state, config(), now=NOW).reason
    clean = replace(state, cleaner_checkpoint=20)
    assert "all clean up to 20" in decide(clean, config(), now=NOW).reason
