"""S7.1-S7.3: which whole segments are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.unit.policy.states import NOW, config, partition, segment
from winnow.policy.config import TopicConfig
from winnow.policy.plan import Reason
from winnow.policy.retention import checkpoint_entries, retention_plan, why_kept
from winnow.state import Entries, PartitionState

OLD = NOW - 10_000


def deleted(state: PartitionState, settings: TopicConfig) -> list[int]:
    plan = retention_plan(state, settings, NOW)
    return [] if plan is None else [s.base_offset for s in plan.deleted]


def three(
    sizes: Sequence[int] = (100, 100, 100), last: Sequence[int] = (OLD, OLD, OLD)
) -> PartitionState:
    return partition([segment(5 * n, sizes[n], last=last[n]) for n in range(3)], end=15)


def delete(**values: object) -> TopicConfig:
    return config("delete", **{"retention_ms": -1, **values})


@pytest.mark.parametrize(
    ("limit", "gone"),
    [(-1, []), (301, []), (300, []), (201, []), (200, [0]), (101, [0]), (100, [0, 5])],
)
def test_case_84_size_never_falls_below_the_limit(limit: int, gone: list[int]) -> None:
    assert deleted(three(), delete(retention_bytes=limit)) == gone


def test_case_84_size_includes_the_active_segment_and_may_delete_it() -> None:
    plan = retention_plan(three(), delete(retention_bytes=0), NOW)
    assert plan is not None
    assert (len(plan.deleted), plan.roll, plan.log_start_offset) == (3, True, 15)


def test_bytes_that_a_broker_will_truncate_do_not_count() -> None:
    """Ten segments of 10 KB and an active one of 5 KB in a file of 100 KB: 105 KB, of which 45 KB
    may be deleted.
    """
    segments = [*(segment(base, 10_000) for base in range(10)), segment(10, 100_000)]
    state = replace(partition(segments, end=11, high_watermark=10), lost_bytes=95_000)
    plan = retention_plan(state, config("delete", retention_bytes=60_000, retention_ms=-1), NOW)
    assert plan is not None
    assert [s.base_offset for s in plan.deleted] == [0, 1, 2, 3]
    kept = why_kept(state, config("delete", retention_bytes=110_000, retention_ms=-1), NOW)
    assert "the log has only 102.5 KiB" in kept.words


def test_case_85_all_expired_rolls_an_empty_segment_at_the_end() -> None:
    plan = retention_plan(three(), delete(retention_ms=9_999), NOW)
    assert plan is not None
    assert (len(plan.deleted), plan.roll, plan.log_start_offset) == (3, True, 15)
    assert plan.words == "retention.ms: 3 segments older than 10 s"


def test_case_86_segment_exactly_as_old_as_allowed_is_kept() -> None:
    assert deleted(three(), delete(retention_ms=10_000)) == []


def test_case_86_future_timestamp_blocks_all_after_it() -> None:
    state = three(last=(NOW + 1, OLD, OLD))
    assert deleted(state, delete(retention_ms=0)) == []
    [words] = [why_kept(state, delete(retention_ms=0), NOW).words]
    assert "segment 0 has a timestamp in the future (2001-09-09T01:46:40.001Z)" in words
    assert "it keeps 2 newer segments as well, 300 B in all" in words


@pytest.mark.parametrize(
    ("policy", "gone"), [("compact", []), ("compact,delete", [0, 5, 10]), ("", [])]
)
def test_case_87_only_a_policy_with_delete_deletes(policy: str, gone: list[int]) -> None:
    assert deleted(three(), config(policy, retention_ms=0, retention_bytes=0)) == gone


@pytest.mark.parametrize("policy", ["compact", "", "delete"])
def test_case_88_log_start_offset_applies_to_every_policy(policy: str) -> None:
    state = partition([segment(0), segment(5), segment(10)], start=7, end=12)
    plan = retention_plan(state, config(policy, retention_ms=-1), NOW)
    assert plan is not None
    assert [s.base_offset for s in plan.deleted] == [0]
    assert (plan.log_start_offset, plan.roll) == (7, False)


def test_log_start_offset_never_deletes_the_active_segment() -> None:
    state = partition([segment(0), segment(5)], start=9, end=9)
    assert deleted(state, delete()) == [0]


@pytest.mark.parametrize(
    ("high_watermark", "gone"),
    [(0, []), (4, []), (5, [0]), (9, [0]), (10, [0, 5]), (14, [0, 5]), (15, [0, 5, 10])],
)
def test_case_89_nothing_above_the_high_watermark_is_deleted(
    high_watermark: int, gone: list[int]
) -> None:
    segments = [segment(n, last=OLD) for n in (0, 5, 10)]
    state = partition(segments, end=15, high_watermark=high_watermark)
    assert deleted(state, delete(retention_ms=0)) == gone
    assert deleted(state, delete(retention_bytes=0)) == gone


def test_case_90_kept_segment_keeps_those_after_it() -> None:
    assert deleted(three(last=(OLD, NOW, OLD)), delete(retention_ms=5000)) == [0]
    assert deleted(three(sizes=(100, 500, 1)), delete(retention_bytes=300)) == [0]


@pytest.mark.parametrize(("mtime", "gone"), [(OLD, [0]), (NOW, [])])
def test_case_94_without_timestamps_the_file_time_counts(mtime: int, gone: list[int]) -> None:
    state = partition([segment(0, last=-1, log_mtime_ms=mtime), segment(5)], end=10)
    assert deleted(state, delete(retention_ms=5000)) == gone


def test_case_95_empty_active_segment_is_never_deleted() -> None:
    state = partition([segment(0, last=0), segment(5, 0, last=-1, log_mtime_ms=0)], end=5)
    plan = retention_plan(state, delete(retention_ms=0, retention_bytes=0), NOW)
    assert plan is not None
    assert ([s.base_offset for s in plan.deleted], plan.roll, plan.log_start_offset) == (
        [0],
        False,
        5,
    )
    alone = partition([segment(5, 0, last=0)], start=5, end=5)
    assert retention_plan(alone, delete(retention_ms=0, retention_bytes=0), NOW) is None
    assert why_kept(alone, delete(retention_ms=0), NOW) == Reason("S7.2", "the log is empty")


def test_case_96_tiered_topic_is_skipped() -> None:
    settings = delete(retention_ms=0, remote_storage_enable=True)
    assert retention_plan(three(), settings, NOW) is None
    kept = why_kept(three(), settings, NOW)
    assert kept.rule == "S7.5"
    assert "remote.storage.enable" in kept.words


@pytest.mark.parametrize(
    "more",
    [
        {"remote_log_copy_disable": True},
        {"remote_log_storage_system_enable": False},
        {"cleanup_policy": "compact,delete"},
    ],
)
def test_case_96_topic_not_effectively_tiered_follows_retention(more: dict[str, object]) -> None:
    settings = delete(retention_ms=0, remote_storage_enable=True)
    assert deleted(three(), replace(settings, **more)) == [0, 5, 10]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "remote"),
    [
        ({}, True),
        ({"remote_log_copy_disable": True}, True),
        ({"remote_log_storage_system_enable": False}, False),
        ({"cleanup_policy": "compact,delete"}, False),
        ({"remote_storage_enable": False}, False),
    ],
)
def test_checkpoint_entries_depend_on_remote_storage(
    more: dict[str, object], *, remote: bool
) -> None:
    settings = replace(delete(remote_storage_enable=True), **more)  # type: ignore[arg-type]
    assert checkpoint_entries("t", settings) == Entries(
        compacted="cleanup_policy" in more, remote=remote
    )


def test_internal_topic_is_never_tiered() -> None:
    state = partition([segment(0, last=OLD)], end=5, topic="__consumer_offsets")
    assert deleted(state, delete(retention_ms=0, remote_storage_enable=True)) == [0]


def test_each_rule_applies_to_what_the_previous_one_kept() -> None:
    state = partition(
        [segment(n, last=OLD if n < 15 else NOW) for n in (0, 5, 10, 15)], start=5, end=20
    )
    plan = retention_plan(state, delete(retention_bytes=200, retention_ms=5000), NOW)
    assert plan is not None
    assert [s.base_offset for s in plan.deleted] == [0, 5, 10]
    assert plan.log_start_offset == 15
    assert plan.words == (
        "log start offset 5: 1 segment; retention.bytes 200 B: 1 segment; retention.ms: 1 segment "
        "older than 5 s"
    )


def test_case_92_second_run_deletes_nothing() -> None:
    settings = delete(retention_ms=5000)
    state = three(last=(OLD, NOW, NOW))
    plan = retention_plan(state, settings, NOW)
    assert plan is not None
    left = partition(state.segments[len(plan.deleted) :], start=plan.log_start_offset, end=15)
    assert retention_plan(left, settings, NOW) is None


@pytest.mark.parametrize(
    ("state", "settings", "rule", "words"),
    [
        (three(), delete(), "S7.3", "retention.bytes is unlimited; retention.ms is unlimited"),
        (three(), delete(retention_ms=20_000), "S7.3", "retention.ms 20 s: segment 0 is 10 s old"),
        (
            three(),
            delete(retention_bytes=500),
            "S7.3",
            "retention.bytes 500 B: the log has only 300 B",
        ),
        (
            three(),
            delete(retention_bytes=250),
            "S7.3",
            "the log has 300 B and would fall below it without segment 0",
        ),
        (
            three(),
            config(),
            "S7.1",
            "cleanup.policy is compact, and no segment lies below the log start offset 0",
        ),
        (
            partition([segment(0), segment(5)], end=9, high_watermark=2),
            delete(retention_ms=0),
            "S7.2",
            "high watermark is 2",
        ),
    ],
)
def test_kept_log_has_a_rule_and_a_reason(
    state: PartitionState, settings: TopicConfig, rule: str, words: str
) -> None:
    assert retention_plan(state, settings, NOW) is None
    kept = why_kept(state, settings, NOW)
    assert kept.rule == rule
    assert words in kept.words
