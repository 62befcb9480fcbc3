"""After a crash at any instant, a run at the same clock ends with the bytes that the first run
would have left.

Every state that a crash can leave becomes a partition of one log directory, so that one run handles
them all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.compare import assert_same_dump
from tests.crash.runs import CrashRun, checkpoint_entry, content_of, gather, must_hold, run_winnow
from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import as_loaded, write_checkpoint
from tests.kafka.judge.judge import Kafka
from winnow.logdir.names import CLEANER_CHECKPOINT

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("name", "out_of_order"),
    [
        ("compact", False),
        ("compact", True),
        ("compact,delete", False),
        ("delete", False),
        ("recorded", False),
        ("transactions", False),
        ("unchanged", False),
    ],
)
def test_next_run_ends_where_the_crashed_run_would_have(
    name: str,
    *,
    out_of_order: bool,
    crash_run: Callable[[str], CrashRun],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    run = crash_run(name)
    crashed = tmp_path / "crashed"
    labels = _gather(
        run, crashed, tmp_path / "points", out_of_order=out_of_order, every=1 + 3 * out_of_order
    )
    assert len(labels) > 70

    results = {f"{r.topic}-{r.partition}": r for r in run_winnow(spark, crashed, run.case)}
    assert results.keys() == labels.keys()
    # Without order a file system may lose an index that a loader would miss: such a partition is
    # left alone.
    left = {n: r.error or r.reason for n, r in results.items() if r.error or r.left_alone}
    assert out_of_order or left == {}
    assert len(left) < len(labels) / 10, left

    wanted = content_of(run.after / run.case.partition, snapshots=not out_of_order)
    checkpoint = checkpoint_entry(run.after, CLEANER_CHECKPOINT, run.case.partition)
    for partition, label in labels.items():
        if partition not in left:
            assert content_of(crashed / partition, snapshots=not out_of_order) == wanted, label
            assert checkpoint_entry(crashed, CLEANER_CHECKPOINT, partition) == checkpoint, label


@pytest.mark.parametrize(
    "name", ["compact", "compact,delete", "delete", "recorded", "transactions", "unchanged"]
)
def test_undisturbed_run_ends_where_kafka_does(
    name: str, crash_run: Callable[[str], CrashRun], kafka: Kafka, tmp_path: Path
) -> None:
    run = crash_run(name)
    theirs = tmp_path / "kafka"
    copy_tree(run.before, theirs)
    if run.case.compacts:
        kafka.clean([theirs / run.case.partition], now=run.case.now, config=run.case.config)
    if run.case.deletes:
        kafka.retain([theirs / run.case.partition], now=run.case.now, config=run.case.config)
    ours = kafka.dump(run.after / run.case.partition)
    start = run.result.log_start_offset_after or 0
    assert_same_dump(
        as_loaded(ours, start), as_loaded(kafka.dump(theirs / run.case.partition), start), name=name
    )


def test_broker_started_between_crash_and_next_run_loses_nothing(
    crash_run: Callable[[str], CrashRun], spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    run = crash_run("compact")
    crashed = tmp_path / "crashed"
    labels = _gather(run, crashed, tmp_path / "points", every=4)
    for partition in labels:
        assert (
            kafka.load(crashed / partition, now=run.case.now, config=run.case.config).error is None
        )
    results = run_winnow(spark, crashed, run.case)
    assert {
        f"{r.topic}-{r.partition}": r.error or r.reason for r in results if r.error or r.left_alone
    } == {}
    finished = [r for r in results if "finished the cleaning" in r.reason]
    assert len(finished) > len(results) / 4, (
        "what the loader did not change is finished all the same"
    )

    holds = must_hold(run, tmp_path)
    for partition, label in labels.items():
        alone = tmp_path / f"alone-{partition}"
        alone.mkdir()
        copy_tree(crashed / partition, alone / run.case.partition)
        entry = checkpoint_entry(crashed, CLEANER_CHECKPOINT, partition)
        write_checkpoint(
            alone / CLEANER_CHECKPOINT, {} if entry is None else {run.case.partition: entry}
        )
        holds.check(alone, label)
        assert entry == checkpoint_entry(run.after, CLEANER_CHECKPOINT, run.case.partition), label


def _gather(
    run: CrashRun, log_dir: Path, scratch: Path, *, out_of_order: bool = False, every: int = 1
) -> dict[str, str]:
    points = run.crashes(scratch, out_of_order=out_of_order, every=every)
    return gather(
        run.case, run.before, (p for p in points if p.in_order is not out_of_order), log_dir
    )
