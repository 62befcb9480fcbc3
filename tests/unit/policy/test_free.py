from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from winnow.policy.free import file_bytes, linked_note, oldest_first
from winnow.policy.plan import RetentionPlan
from winnow.state import PartitionState, Segment, TopicPartition

Plan = tuple[PartitionState, RetentionPlan | None]


def segment(base: int, *, timestamp: int = 0, log_bytes: int = 100) -> Segment:
    return Segment(base, log_bytes, 5, 8, 12, None, timestamp, -1)


def partition(*timestamps: int, taken: int, start: int = 0, log_bytes: int = 100) -> Plan:
    """Return a log of these segments, ten offsets each, of which retention deletes the first
    `taken`.
    """
    segments = tuple(
        segment(10 * number, timestamp=timestamp, log_bytes=log_bytes)
        for number, timestamp in enumerate(timestamps)
    )
    end = 10 * len(segments)
    state = PartitionState(
        "/d", TopicPartition("t", 0), segments, start, end, end, None, None, (), ()
    )
    if not taken:
        return state, None
    return state, RetentionPlan(
        segments[:taken], taken == len(segments), max(start, 10 * taken), "retention.ms"
    )


def bases(plans: list[RetentionPlan | None]) -> list[list[int]]:
    return [[s.base_offset for s in plan.deleted] if plan else [] for plan in plans]


def test_oldest_segments_of_all_partitions_are_deleted_until_enough() -> None:
    plans = [
        partition(10, 40, 60, 99, taken=3),
        partition(20, 30, 50, 99, taken=3),
        partition(1, taken=0),
    ]
    assert bases(oldest_first(plans, wanted=0)) == [[], [], []]
    assert bases(oldest_first(plans, wanted=1)) == [[0], [], []]
    assert bases(oldest_first(plans, wanted=120)) == [[0], [], []], "index files count"
    assert bases(oldest_first(plans, wanted=121)) == [[0], [0], []]
    assert bases(oldest_first(plans, wanted=400)) == [[0, 10], [0, 10], []]
    assert bases(oldest_first(plans, wanted=10**9)) == [[0, 10, 20], [0, 10, 20], []]


def test_segments_of_a_partition_are_deleted_in_log_order() -> None:
    """An old segment after a younger one is deleted only after that one."""
    plans = [partition(50, 1, 99, taken=2), partition(20, 99, taken=1)]
    assert bases(oldest_first(plans, wanted=1)) == [[], [0]]
    assert bases(oldest_first(plans, wanted=200)) == [[0], [0]]
    assert bases(oldest_first(plans, wanted=300)) == [[0, 10], [0]]


def test_active_segment_is_never_deleted() -> None:
    (plan,) = oldest_first([partition(1, 2, taken=2)], wanted=10**9)
    assert plan is not None
    assert (bases([plan]), plan.roll, plan.log_start_offset) == ([[0]], False, 10)
    assert oldest_first([partition(1, taken=1)], wanted=10**9) == [None]


def test_log_start_offset_follows_the_deletions_and_never_falls() -> None:
    (plan,) = oldest_first([partition(1, 2, 3, taken=2, start=15)], wanted=1)
    assert plan is not None
    assert plan.log_start_offset == 15
    whole = partition(1, 2, 3, taken=2, start=15)
    assert oldest_first([whole], wanted=10**9) == [whole[1]]


@given(
    st.lists(
        st.lists(st.integers(0, 50), min_size=1, max_size=6).flatmap(
            lambda times: st.integers(0, len(times)).map(
                lambda taken: partition(*times, taken=taken)
            )
        ),
        max_size=5,
    ),
    st.integers(0, 3000),
)
def test_no_more_is_deleted_than_allowed_and_needed(plans: list[Plan], wanted: int) -> None:
    chosen = oldest_first(plans, wanted=wanted)
    freed = 0
    for (state, plan), one in zip(plans, chosen, strict=True):
        if one is None:
            continue
        assert plan is not None
        assert one.deleted == plan.deleted[: len(one.deleted)] != ()
        assert state.active not in one.deleted
        assert not one.roll
        assert one.log_start_offset == state.segments[len(one.deleted)].base_offset
        freed += sum(map(file_bytes, one.deleted))
    may = sum(
        file_bytes(s) for state, plan in plans if plan for s in plan.deleted if s != state.active
    )
    assert freed <= may
    assert freed >= min(wanted, may)
    assert freed == 0 or freed - 120 < wanted


def test_segment_size_includes_its_index_files() -> None:
    assert file_bytes(replace(segment(0), txnindex_bytes=34)) == 100 + 8 + 12 + 34
    assert file_bytes(replace(segment(0), index_bytes=None, timeindex_bytes=None)) == 100


def test_log_with_another_name_frees_nothing() -> None:
    state, plan = partition(1, 2, 3, 4, taken=3)
    linked = (replace(state.segments[0], log_links=2), *state.segments[1:])
    assert plan is not None
    state, plan = replace(state, segments=linked), replace(plan, deleted=linked[:3])
    one = file_bytes(linked[1])
    assert bases(oldest_first([(state, plan)], wanted=one)) == [[0, 10]]
    [note] = linked_note([state])
    assert note.startswith(
        "logs of t-0 have other names (hard links), as after `cp -l`: 100 B stay"
    )
    assert not [*linked_note([partition(1, 2, taken=1)[0]])]
