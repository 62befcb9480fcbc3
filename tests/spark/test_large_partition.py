"""Without room for all groups, a partition is rewritten a few groups at a time, with the same
result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.compare import assert_same_dump
from tests.fixtures.data import TOPIC_CONFIGS, copy_tree
from tests.kafka.judge.judge import Kafka
from tests.pages import run_here
from tests.spark.runs import (
    NOW,
    AtStage,
    Stages,
    add_partition,
    by_name,
    changes,
    checkpoint,
    clean,
    files_of,
    new_log_dir,
    plan,
    run,
    set_checkpoint,
    stray_files,
)
from winnow.errors import NoSpaceError
from winnow.logdir.names import CLEANER_CHECKPOINT, TXNINDEX
from winnow.runtime.stop import Stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Transactions, markers and aborted data, empty batches that are kept, tombstones, headers of a
# segment that was cleaned before; a policy that deletes as well.
NAMES = ("b-txn-0", "b-cleaned-0", "t-closed-0", "t-long-0", "c-tomb-0", "c-multi-0", "cd-mixed-0")
SETS = ("*:min.cleanable.dirty.ratio=0",)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log_dir = new_log_dir(tmp_path_factory.mktemp("batches") / "before")
    for name in NAMES:
        add_partition(log_dir, name, name)
    # Its first segments are clean already.
    bases = sorted(int(path.stem) for path in (log_dir / "c-tomb-0").glob("*.log"))
    set_checkpoint(log_dir / CLEANER_CHECKPOINT, "c-tomb-0", bases[3])
    return log_dir


@pytest.fixture(scope="module")
def at_once(before: Path, spark: SparkSession) -> Path:
    """What a run with all the room in the world leaves."""
    after = before.with_name("at-once")
    copy_tree(before, after)
    result = run(clean, spark, after, sets=SETS)
    assert all(p.error is None and "compacted" in p.actions for p in result.partitions), (
        result.partitions
    )
    assert result.peak_extra_bytes > 150_000
    return after


def test_several_batches_leave_same_bytes_as_one_job(
    before: Path, at_once: Path, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    ours, limit = tmp_path / "ours", 80_000
    copy_tree(before, ours)
    previewed = run(plan, spark, ours, sets=SETS, max_extra_space=limit)
    assert changes(files_of(before), files_of(ours)) == []
    stages = Stages()
    result = run(clean, spark, ours, sets=SETS, max_extra_space=limit, progress=stages)
    assert [p.error for p in result.partitions] == [None] * len(NAMES)
    jobs = [name for name in stages.names if name.startswith("compacting")]
    assert len(jobs) > len(NAMES) + 10
    assert 0 < result.peak_extra_bytes <= previewed.peak_extra_bytes <= limit
    assert _differing(at_once, ours) == []
    assert checkpoint(ours / CLEANER_CHECKPOINT) == checkpoint(at_once / CLEANER_CHECKPOINT)
    assert stray_files(ours) == []

    theirs = tmp_path / "theirs"
    copy_tree(before, theirs)
    for name in ("b-txn-0", "t-long-0", "c-tomb-0"):
        first_dirty = checkpoint(before / CLEANER_CHECKPOINT).get(name, 0)
        kafka.clean(theirs / name, now=NOW, topic_configs=TOPIC_CONFIGS, first_dirty=first_dirty)
        assert_same_dump(kafka.dump(ours / name), kafka.dump(theirs / name), name=name)


def _differing(one: Path, other: Path) -> list[str]:
    """Transaction indexes have the time of their making, as with Kafka (S5.9); so has the
    checkpoint, in any order.
    """
    names = [name for name in changes(files_of(one), files_of(other)) if name != CLEANER_CHECKPOINT]
    indexes = [name for name in names if name.endswith(TXNINDEX)]
    assert [(one / name).read_bytes() for name in indexes] == [
        (other / name).read_bytes() for name in indexes
    ]
    return [name for name in names if name not in indexes]


def test_partition_is_unchanged_if_not_even_one_group_fits(
    before: Path, spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = tmp_path / "d"
    copy_tree(before, log_dir)
    for verb in (plan, clean):
        result = run(verb, spark, log_dir, sets=SETS, max_extra_space=100)
        failed = [p for p in result.partitions if p.error is not None]
        assert {p.error_code for p in failed} == {NoSpaceError.exit_code}
        for p in failed:
            name = f"{p.topic}-{p.partition}"
            assert "--max-extra-space allows 100 B" in (p.error or "")
            assert changes(files_of(before / name), files_of(log_dir / name)) == []
        assert {"b-cleaned", "b-txn", "cd-mixed"} <= {p.topic for p in failed}


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Path]:
    log_dir = new_log_dir(tmp_path / "one")
    add_partition(log_dir, "b-txn-0", "b-txn-0")
    return log_dir


def test_stop_between_batches_leaves_the_rest_for_the_next_run(
    one: Path, at_once: Path, spark: SparkSession
) -> None:
    stop, jobs = Stop(), Stages()

    def at_the_third() -> None:
        jobs.stage("compacting")
        if len(jobs.names) == 3:
            stop.request("enough")

    told = run(
        clean,
        spark,
        one,
        sets=SETS,
        max_extra_space=30_000,
        stop=stop,
        progress=AtStage("compacting", at_the_third),
    )
    (p,) = told.partitions
    assert (p.actions, p.error, p.left_alone) == (("compacted",), None, True)
    assert re.match(
        "[1-7] of 8 groups of segments are cleaned, .* the run was stopped, enough", p.reason
    )
    assert p.bytes_after == sum(path.stat().st_size for path in (one / "b-txn-0").glob("*.log"))
    assert stray_files(one) == []
    assert "b-txn-0" not in checkpoint(one / CLEANER_CHECKPOINT)
    again = run(clean, spark, one, sets=SETS)
    assert by_name(again)["b-txn-0"].actions == ("compacted",)
    assert (
        checkpoint(one / CLEANER_CHECKPOINT)["b-txn-0"]
        == checkpoint(at_once / CLEANER_CHECKPOINT)["b-txn-0"]
    )


def test_kept_segments_free_no_space_for_a_second_batch(one: Path, spark: SparkSession) -> None:
    for verb in (plan, clean):
        result = run(verb, spark, one, sets=SETS, max_extra_space=5_000, keep_replaced=True)
        assert result.exit_code == NoSpaceError.exit_code
    assert stray_files(one) == []


def test_plan_counts_no_space_that_kept_segments_would_free(spark: SparkSession, one: Path) -> None:
    limits = ("--max-extra-space", "5000B", "--now", str(NOW), "--topic-set", SETS[0])
    limits += ("--topic-configs", str(TOPIC_CONFIGS))
    assert run_here(spark, ["plan", str(one), *limits])[0] == 0
    assert (
        run_here(spark, ["plan", str(one), *limits, "--keep-replaced"])[0] == NoSpaceError.exit_code
    )
