"""S5.2: which adjacent segments become one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.policy.states import config, segment
from winnow.policy.grouping import group_segments
from winnow.policy.versions import asked_version
from winnow.state import Segment

SPAN = 2**31 - 1
HUGE = 2**40


def bases(groups: tuple[tuple[Segment, ...], ...]) -> list[list[int]]:
    return [[s.base_offset for s in group] for group in groups]


def grouped(
    segments: list[Segment], *, log: int = HUGE, index: int = HUGE, end: int
) -> list[list[int]]:
    limits = config(segment_bytes=log, segment_index_bytes=index)
    return bases(group_segments(segments, limits, end_offset=end))


TEN = [segment(base) for base in range(10)]


def test_case_68_huge_limits_make_one_group() -> None:
    assert grouped(TEN, end=10) == [list(range(10))]


@pytest.mark.parametrize("limits", [{"log": 1}, {"index": 1}])
def test_case_68_tiny_limits_make_singletons(limits: dict[str, int]) -> None:
    assert grouped(TEN, end=10, **limits) == [[base] for base in range(10)]


@pytest.mark.parametrize(
    "limits", [{"log": 301}, {"index": 3 * 12 + 1}, {"log": 300}, {"index": 36}]
)
def test_case_68_limits_for_three_make_groups_of_three(limits: dict[str, int]) -> None:
    assert grouped(TEN, end=10, **limits) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_offset_index_size_limits_a_group() -> None:
    large = [
        segment(0, index_bytes=40, timeindex_bytes=0),
        segment(1, index_bytes=40, timeindex_bytes=0),
    ]
    assert grouped(large, index=79, end=2) == [[0], [1]]
    assert grouped(large, index=80, end=2) == [[0, 1]]


def test_case_69_wide_segments_stay_separate_until_empty() -> None:
    wide = [segment(0), segment(SPAN + 1), segment(2 * (SPAN + 1))]
    end = 3 * (SPAN + 1)
    assert grouped(wide, end=end) == [[s.base_offset] for s in wide]
    emptied = [wide[0], segment(SPAN + 1, 0), segment(2 * (SPAN + 1), 0)]
    assert len(grouped(emptied, end=end)) == 1


def test_empty_segments_out_of_reach_stay_separate_in_kafka_2_8() -> None:
    emptied = [segment(0), segment(SPAN + 1, 0), segment(2 * (SPAN + 1), 0)]
    for version, groups in (("2.8", 3), ("3.0", 1)):
        limits = config(segment_bytes=HUGE, rules=asked_version(version).rules)
        assert len(group_segments(emptied, limits, end_offset=3 * (SPAN + 1))) == groups


@pytest.mark.parametrize("missing", [8, 0, None])
def test_case_70_span_of_exactly_the_limit_is_one_group(missing: int | None) -> None:
    two = [segment(0, index_bytes=missing), segment(1000, index_bytes=missing)]
    assert grouped(two, end=SPAN + 1) == [[0, 1000]]
    assert grouped(two, end=SPAN + 2) == [[0], [1000]]


def test_case_70_last_offset_comes_from_the_following_segment() -> None:
    three = [segment(0), segment(10), segment(SPAN + 1)]
    assert grouped(three, end=SPAN + 5) == [[0, 10], [SPAN + 1]]


def test_no_segments_make_no_group() -> None:
    assert grouped([], end=0) == []


@given(
    sizes=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 30), st.integers(0, 30)), max_size=30
    ),
    log=st.integers(1, 120),
    index=st.integers(1, 80),
)
def test_groups_are_ordered_within_limits_and_as_large_as_possible(
    sizes: list[tuple[int, int, int]], log: int, index: int
) -> None:
    segments = [
        segment(n, a, index_bytes=b, timeindex_bytes=c) for n, (a, b, c) in enumerate(sizes)
    ]
    limits = config(segment_bytes=log, segment_index_bytes=index)
    groups = group_segments(segments, limits, end_offset=len(segments))
    assert [s for group in groups for s in group] == segments

    def fits(group: tuple[Segment, ...]) -> bool:
        return (
            sum(s.log_bytes for s in group) <= log
            and sum(s.index_bytes or 0 for s in group) <= index
            and sum(s.timeindex_bytes or 0 for s in group) <= index
        )

    assert all(len(group) == 1 or fits(group) for group in groups)
    assert not any(fits((*groups[n], groups[n + 1][0])) for n in range(len(groups) - 1))
