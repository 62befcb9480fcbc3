from dataclasses import fields

from tests.unit.cli.results import NOW, idle, left_alone, partition, run_of
from winnow.cleaning.result import RETAINED, RecordsRemoved, SegmentFate
from winnow.report.facts import (
    MOST_BLOCKS,
    MOST_DETAILS,
    MOST_NAMES,
    MOST_REASONS,
    MOST_TOPICS,
    REASONS,
    STEPS,
    blocks_of,
    facts_of,
    timeline_of,
)

MIB = 1 << 20
DAY = 86_400_000


def test_sums_add_up_all_partitions() -> None:
    facts = facts_of(
        run_of(
            partition("a", records_before=10, records_after=4),
            partition(
                "b", actions=(RETAINED,), bytes_before=5 * MIB, bytes_after=0, dirty_ratio=None
            ),
            idle("c"),
            left_alone("d"),
        )
    )
    assert (facts.acting, facts.idle, facts.troubled) == (2, 1, 1)
    assert (facts.bytes_before, facts.freed) == (11 * MIB, 6 * MIB)
    assert facts.records == (10, 4)
    assert [row.name for row in facts.topics] == ["b", "a", "c", "d"]


def test_unknown_sizes_of_a_plan_are_not_counted_as_freed() -> None:
    facts = facts_of(
        run_of(partition("a", bytes_after=None, dirty_ratio=0.5), partition("b"), verb="plan")
    )
    assert (facts.planned, facts.unknown, facts.freed, facts.dirty_bytes) == (True, 1, MIB, MIB)
    assert [row.after for row in facts.topics] == [None, MIB]


def test_surplus_topics_share_a_row_with_all_their_bytes() -> None:
    facts = facts_of(run_of(*(partition(f"t{number:03}", number % 3) for number in range(100))))
    assert len(facts.topics) == MOST_TOPICS + 1
    assert facts.topics[-1].others == 100 - MOST_TOPICS
    assert sum(row.before for row in facts.topics) == facts.bytes_before
    assert len(facts.details) == MOST_DETAILS < facts.acting


def test_each_cause_is_listed_once() -> None:
    same = [left_alone("orders", number) for number in range(40)]
    facts = facts_of(run_of(*same, left_alone("other", error="CRC is wrong")))
    assert [(count, len(names)) for _, names, count in facts.causes] == [(40, MOST_NAMES), (1, 1)]
    assert facts.causes[1][0] == "holds transactional batches: CRC is wrong"


def test_surplus_causes_are_counted() -> None:
    facts = facts_of(
        run_of(*(left_alone("t", number, error=f"at byte {number}") for number in range(50)))
    )
    assert (len(facts.causes), facts.causes_left_out) == (MOST_REASONS, 50 - MOST_REASONS)


def test_dirty_ratios_are_counted_by_tenths() -> None:
    ratios = [0.0, 0.05, 0.1, 0.95, 1.0]
    facts = facts_of(
        run_of(*(partition("t", at, dirty_ratio=ratio) for at, ratio in enumerate(ratios)))
    )
    assert facts.ratios_before is not None
    assert facts.ratios_before.counts == (2, 1, 0, 0, 0, 0, 0, 0, 0, 2)
    assert facts.ratios_before.mean == sum(ratios) / 5
    assert facts.ratios_after is None


def test_slowest_partitions_are_listed_first_without_idle_ones() -> None:
    facts = facts_of(
        run_of(partition("a", duration_ms=5), partition("b", duration_ms=900), idle("c"))
    )
    assert [p.topic for p in facts.slowest] == ["b", "a"]


def test_timeline_holds_every_byte_for_any_timestamps() -> None:
    times = [-1, 0, NOW - 30 * DAY, NOW, NOW + 1, 2**63 - 1]
    segments = tuple(SegmentFate(at, 100, time, "compacted") for at, time in enumerate(times))
    timeline = timeline_of([partition("a", segments=segments)], NOW)
    assert timeline is not None
    assert sum(step["compacted"] for step in timeline.steps) == 600
    assert (len(timeline.steps), timeline.start, timeline.end, timeline.late) == (STEPS, 0, NOW, 2)


def test_timeline_places_segments_at_their_time() -> None:
    segments = (SegmentFate(0, 7, NOW - 36 * DAY, "deleted"), SegmentFate(9, 5, NOW, "kept"))
    timeline = timeline_of([partition("a", segments=segments)], NOW)
    assert timeline is not None
    assert [at for at, step in enumerate(timeline.steps) if sum(step.values())] == [0, STEPS - 1]
    assert timeline_of([partition("a")], NOW) is None


def test_strip_of_many_segments_is_short_but_complete() -> None:
    fates = ["deleted"] * 1000 + ["compacted"] * 4000 + ["kept"] * 3
    segments = tuple(SegmentFate(at, 10, at, fate) for at, fate in enumerate(fates))  # type: ignore[arg-type]
    blocks = blocks_of(partition("a", segments=segments))
    assert len(blocks) <= MOST_BLOCKS + 2
    assert sum(block.bytes for block in blocks) == 50_030
    assert {block.fate for block in blocks} == {"deleted", "compacted", "kept"}
    assert [block.base_offset for block in blocks] == sorted(block.base_offset for block in blocks)


def test_tombstones_are_summed_by_age() -> None:
    ages = [(1, 0, 0, 0, 0, 7), (), (2, 1, 0, 0, 0, 0)]
    facts = facts_of(run_of(*(partition("t", at, tombstones=of) for at, of in enumerate(ages))))
    assert [count for _, count in facts.tombstones] == [3, 1, 0, 0, 0, 7]
    assert facts.tombstones[-1][0] == "365 days and more"
    assert (
        facts_of(run_of(partition("t", tombstones=(0, 0, 0, 0, 0, 0)), idle("u"))).tombstones == ()
    )


def test_removed_records_are_summed_by_reason() -> None:
    gone = [
        RecordsRemoved(superseded=3, aborted=1),
        None,
        RecordsRemoved(superseded=4, retention=9),
    ]
    facts = facts_of(
        run_of(*(partition("t", at, records_removed=of) for at, of in enumerate(gone)))
    )
    assert [count for _, count in facts.removed] == [7, 0, 1, 0, 9]
    assert set(REASONS) == {one.name for one in fields(RecordsRemoved)}
    assert facts_of(run_of(partition("t", records_removed=RecordsRemoved()))).removed == ()


def test_quarantined_bytes_are_not_counted_as_freed() -> None:
    facts = facts_of(run_of(partition("a", quarantined_bytes=4096)))
    assert (facts.freed, facts.quarantined_bytes) == (MIB - 4096, 4096)
