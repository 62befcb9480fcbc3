"""The whole decision, with its reason."""

from __future__ import annotations

import pytest

from tests.unit.policy.states import NOW, config, partition, segment
from winnow.errors import UsageError
from winnow.policy.config import TopicConfig
from winnow.policy.decide import after_retention, decide
from winnow.policy.plan import PartitionPlan
from winnow.policy.producers import Transaction
from winnow.state import PartitionState

OLD = NOW - 10_000


def four(
    *, checkpoint: int | None = None, high_watermark: int | None = None, start: int = 0
) -> PartitionState:
    """Return three segments of ten offsets and 100 bytes, and the active one."""
    segments = [segment(base, last=OLD) for base in (0, 10, 20, 30)]
    return partition(
        segments, end=40, checkpoint=checkpoint, high_watermark=high_watermark, start=start
    )


def decided(
    state: PartitionState, settings: TopicConfig, **more: str | float | Transaction | None
) -> PartitionPlan:
    return decide(state, settings, now=NOW, **more)  # type: ignore[arg-type]


def test_dirty_partition_is_compacted_up_to_the_active_segment() -> None:
    plan = decided(four(checkpoint=10), config(segment_bytes=250))
    assert plan.compaction is not None
    assert (plan.first_dirty_offset, plan.compaction.end_offset) == (10, 30)
    assert [[s.base_offset for s in group] for group in plan.compaction.groups] == [[0, 10], [20]]
    assert plan.compaction.cleanable_bytes == 200
    assert plan.reason == (
        "dirty ratio 0.6667 is above min.cleanable.dirty.ratio 0.5 "
        "(200 B dirty, 100 B clean; the active segment starts at 30)"
    )


def test_case_62_ratio_equal_to_the_threshold_is_not_enough() -> None:
    segments = [segment(base) for base in range(6)]
    plan = decided(partition(segments, end=6, checkpoint=2, high_watermark=4), config())
    assert plan.compaction is None
    assert plan.dirty_ratio == 0.5
    assert plan.reason == "dirty ratio 0.5 is not above min.cleanable.dirty.ratio 0.5"


def test_ratio_just_above_the_threshold_is_shown_with_more_digits() -> None:
    segments = [segment(0, 499_999), segment(1, 500_001), segment(2)]
    plan = decided(partition(segments, end=3, checkpoint=1), config())
    assert "dirty ratio 0.500001 is above" in plan.reason


def test_clean_log_is_not_compacted_even_with_threshold_zero() -> None:
    plan = decided(four(checkpoint=30), config(min_cleanable_dirty_ratio=0.0))
    assert plan.compaction is None
    assert plan.reason == "3 segments before the active one, all clean up to 30"


def test_case_65_max_compaction_lag_overrides_the_ratio() -> None:
    segments = [segment(0, 900), segment(10, first=OLD), segment(20)]
    state = partition(segments, end=30, checkpoint=10)
    assert decided(state, config(max_compaction_lag_ms=20_000)).compaction is None
    plan = decided(state, config(max_compaction_lag_ms=5000))
    assert plan.compaction is not None
    assert plan.reason.startswith("max.compaction.lag.ms: a dirty record is older than 5 s")


def test_case_59_checkpoint_is_reset_even_without_a_compaction() -> None:
    plan = decided(
        partition([segment(0), segment(10)], end=20, checkpoint=200),
        config(min_cleanable_dirty_ratio=1.0),
    )
    assert plan.compaction is None
    assert plan.checkpoint_reset == 0
    assert (
        "the cleaner checkpoint 200 lies outside the log [0, 20] and is reset to 0" in plan.reason
    )


def test_case_67_stale_checkpoint_of_a_delete_topic_is_ignored() -> None:
    plan = decided(four(checkpoint=200), config("delete", retention_ms=-1))
    assert (plan.compaction, plan.checkpoint_reset, plan.first_dirty_offset, plan.dirty_ratio) == (
        None,
    ) * 4


@pytest.mark.parametrize(
    ("state", "settings", "rule", "reason"),
    [
        (partition([segment(0)], end=5), config(), "S3.2", ("the only segment is the active one, "
                                                           "which is never cleaned")),
        (four(high_watermark=0), config(), "S3.2", ("the high watermark is 0: no record is "
                                                   "known to be committed")),
        (four(high_watermark=5), config(), "S3.2", ("nothing to clean from offset 0 on: the high "
                                                   "watermark is 5")),
        (four(), config(min_compaction_lag_ms=172_800_000), "S3.2", ("segment 0 is younger than 2 "
                                                                    "d")),
        (four(checkpoint=20), config(), "S3.4", "dirty ratio 0.3333 is not above"),
        (four(), config(log_cleaner_enable=False), "S9.1", "log.cleaner.enable is false"),
        (four(), config(""), "S7.1", "cleanup.policy is empty"),
        (four(), config("delete", retention_ms=-1), "S7.3", "retention.ms is unlimited"),
        (four(), config("delete", retention_ms=5000), "S7.3", ("retention.ms: 4 segments older "
                                                               "than "
                                                              "5 s; an empty")),
        (four(high_watermark=0), config("delete", retention_ms=0), "S7.2", ("the high watermark is "
                                                                           "0")),
        (four(), config("delete", remote_storage_enable=True), "S7.5", "remote.storage.enable"),
    ],
)  # fmt: skip
def test_uncompacted_partition_has_a_rule_and_a_reason(
    state: PartitionState, settings: TopicConfig, rule: str, reason: str
) -> None:
    plan = decided(state, settings)
    assert plan.compaction is None
    assert plan.rule == rule
    assert reason in plan.reason


def test_rule_is_that_of_the_action_taken() -> None:
    """The rule of the compaction if there is one, and of retention if only that deletes
    something.
    """
    both = config("compact,delete", retention_ms=5000)
    assert decided(four(), both).rule == "S3.4"
    clean = decided(four(checkpoint=30), both)
    assert (clean.compaction, clean.rule) == (None, "S7.3")
    assert decided(four(), both, only="retention").rule == "S7.3"
    assert decided(four(), config("delete"), only="compaction").rule == "S3.1"


def test_reason_covers_compaction_and_retention() -> None:
    plan = decided(four(), config("compact,delete", retention_ms=5000))
    assert plan.compaction is not None
    assert plan.retention is not None
    assert plan.retention.roll
    assert plan.reason.startswith("dirty ratio 1 is above")
    assert plan.reason.endswith(
        "retention.ms: 4 segments older than 5 s; an empty segment follows at 40"
    )
    assert (
        "retention is decided after the compaction, on its result. For the log as it is now:"
        in plan.reason
    )
    assert plan.reason_after("nothing").startswith("dirty ratio 1 is above")
    assert plan.reason_after("nothing").endswith("; nothing")


def test_retention_that_raises_the_dirty_ratio_allows_a_compaction() -> None:
    """A third is dirty. Without the two oldest segments all of it is."""
    both = config("compact,delete", retention_bytes=200, min_cleanable_dirty_ratio=0.5)
    plan = decided(four(checkpoint=20), both)
    assert plan.compaction is None
    assert plan.retention is not None
    following = after_retention(plan, now=NOW)
    assert following is not None
    assert following.compaction is not None
    assert following.state.segments == plan.state.segments[len(plan.retention.deleted) :]
    assert after_retention(plan, now=NOW, only="retention") is None
    assert (
        after_retention(
            decided(four(checkpoint=20), config("delete", retention_bytes=200)), now=NOW
        )
        is None
    )


def test_compact_policy_still_deletes_below_the_log_start_offset() -> None:
    plan = decided(four(start=25), config())
    assert plan.retention is not None
    assert [s.base_offset for s in plan.retention.deleted] == [0, 10]
    assert "log start offset 25: 2 segments" in plan.reason


def test_only_restricts_the_plan_to_one_action() -> None:
    both = config("compact,delete", retention_ms=5000)
    retention = decided(four(checkpoint=200), both, only="retention")
    assert retention.compaction is None
    assert retention.retention is not None
    assert retention.checkpoint_reset is None
    compaction = decided(four(), both, only="compaction")
    assert compaction.compaction is not None
    assert compaction.retention is None
    neither = decided(four(), config("delete", retention_ms=0), only="compaction")
    assert (neither.compaction, neither.retention) == (None, None)
    assert neither.reason == "cleanup.policy is delete: nothing to compact"
    with pytest.raises(UsageError, match="retention or compaction"):
        decided(four(), both, only="both")


def test_disabled_cleaner_leaves_compacted_topics_untouched() -> None:
    plan = decided(
        four(start=25), config("compact,delete", log_cleaner_enable=False, retention_ms=0)
    )
    assert (plan.compaction, plan.retention) == (None, None)
    assert (
        decided(four(), config("delete", log_cleaner_enable=False, retention_ms=0)).retention
        is not None
    )


def test_open_transaction_ends_the_compaction() -> None:
    undecided = Transaction(first_offset=25, producer_id=7, marker_offset=None)
    plan = decided(four(), config(), last_stable_offset=25, undecided=undecided)
    assert plan.compaction is not None
    assert plan.compaction.end_offset == 20
    assert "producer 7 has a transaction open since offset 25" in plan.reason


@pytest.mark.parametrize("policy", ["compact,delete", "delete"])
@pytest.mark.parametrize("compacts_less", [False, True])
def test_size_limit_waits_if_a_broker_compacts_more(policy: str, *, compacts_less: bool) -> None:
    settings = config(policy, retention_bytes=150, retention_ms=-1)
    plan = decided(four(), settings, last_stable_offset=0, compacts_less=compacts_less)
    waits = compacts_less and policy != "delete"
    assert (plan.retention is None) == waits
    assert ("retention.bytes 150 B is not applied" in plan.reason) == waits


def test_age_still_applies_if_a_broker_compacts_more() -> None:
    settings = config("compact,delete", retention_bytes=150, retention_ms=1)
    plan = decided(four(), settings, last_stable_offset=0, compacts_less=True)
    assert plan.retention is not None
    assert plan.retention.words.startswith("retention.ms")


def test_case_21_second_round_has_nothing_to_do() -> None:
    plan = decided(four(), config())
    assert plan.compaction is not None
    again = decided(four(checkpoint=plan.compaction.end_offset), config())
    assert (again.compaction, again.retention, again.checkpoint_reset) == (None, None, None)
