"""Which retention rule deletes which segment, and when that depends on a compaction."""

from __future__ import annotations

import pytest

from tests.unit.policy.states import NOW, config, partition, segment
from winnow.policy.plan import CompactionPlan, after_round
from winnow.verbs.explain.retained import deleted_segments, may_depend_on_sizes

FOUR = (
    segment(0, 100, last=NOW - 10_000),
    segment(10, 100, last=NOW - 9_000),
    segment(20, 100, last=NOW - 8_000),
    segment(30, 100, last=NOW - 1_000),
)
STATE = partition(FOUR, end=40, start=12)


def rules(**values: object) -> dict[int, str]:
    deleted = deleted_segments(STATE, config("delete", **{"retention_ms": -1, **values}), NOW)
    assert {fate.rule for fate in deleted.values()} <= {"S7.3"}
    return {base: fate.facts[0].name for base, fate in deleted.items()}


def test_segment_is_deleted_by_the_first_matching_rule() -> None:
    assert rules() == {0: "log_start_offset"}
    assert rules(retention_bytes=200) == {0: "log_start_offset", 10: "retention_bytes"}
    assert rules(retention_bytes=200, retention_ms=5_000) == {
        0: "log_start_offset",
        10: "retention_bytes",
        20: "newest_record",
    }
    assert len(rules(retention_ms=500)) == 4


def test_compacted_log_loses_only_segments_below_the_log_start() -> None:
    deleted = deleted_segments(STATE, config("compact", retention_ms=1, retention_bytes=1), NOW)
    assert list(deleted) == [0]
    assert "below the log start offset 12" in deleted[0].words


def test_retention_applies_to_segments_after_compaction() -> None:
    """Segments 0 and 10 become one that extends beyond the log start offset."""
    plan = CompactionPlan(0, 30, 300, (FOUR[:2], FOUR[2:3]))
    after = after_round(STATE, [(group, group[0]) for group in plan.groups], plan.end_offset)
    assert [s.base_offset for s in after.segments] == [0, 20, 30]
    assert deleted_segments(after, config("compact"), NOW) == {}


@pytest.mark.parametrize(
    ("policy", "values", "depends"),
    [
        ("compact", {"retention_ms": 1, "retention_bytes": 1}, False),
        ("compact,delete", {"retention_ms": -1, "retention_bytes": -1}, False),
        ("compact,delete", {"retention_ms": -1, "retention_bytes": 401}, False),
        ("compact,delete", {"retention_ms": -1, "retention_bytes": 400}, True),
        ("compact,delete", {"retention_ms": 1, "retention_bytes": -1}, True),
    ],
)
def test_sizes_after_compaction_matter_only_for_some_settings(
    policy: str,
    values: dict[str, int],
    depends: bool,  # noqa: FBT001
) -> None:
    assert may_depend_on_sizes(STATE, config(policy, **values), may_grow=False) is depends


def test_log_that_may_grow_may_reach_the_size_limit() -> None:
    limits = config("compact,delete", retention_ms=-1, retention_bytes=401)
    assert may_depend_on_sizes(STATE, limits, may_grow=True)
