"""A retention stopped after it deleted segments. The next run brings the side files into line with
the log (S7.6).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.by_hand import NOW, make_log_dir, write_partition
from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import read_checkpoint, run_winnow, write_checkpoint
from tests.kafka.judge.judge import Kafka
from tests.spark.runs import changes, files_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EPOCHS = ((0, 0), (1, 2), (3, 6))
START, END = 5, 8
POLICIES = {"d": "delete", "c": "compact", "b": "compact,delete"}
LOG_START = "log-start-offset-checkpoint"


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """The segment below START was removed, and nothing else was updated."""
    log_dir = make_log_dir(tmp_path / "log-dir")
    for topic in POLICIES:
        segments = {START: [(5, "a"), (6, "b")], 7: [(7, "c")]}
        write_partition(log_dir / f"{topic}-0", segments, end=END, epochs=EPOCHS)
    names = [f"{topic}-0" for topic in POLICIES]
    write_checkpoint(log_dir / "replication-offset-checkpoint", dict.fromkeys(names, END))
    # Nothing is dirty any more.
    write_checkpoint(log_dir / "cleaner-offset-checkpoint", dict.fromkeys(names, 7))
    write_checkpoint(log_dir / LOG_START, {**dict.fromkeys(names, START), "other-3": 99})
    return log_dir


def _run(spark: SparkSession, log_dir: Path, **more: object) -> None:
    configs = "\n".join(
        f"{topic} cleanup.policy={p}\n{topic} retention.ms=-1" for topic, p in POLICIES.items()
    )
    results = run_winnow(spark, log_dir, now=NOW, topic_configs=configs, **more)  # type: ignore[arg-type]
    assert {
        (result.actions, result.error, result.log_start_offset_after) for result in results.values()
    } == {(("none",), None, START)}


def test_next_run_updates_leader_epochs_and_log_start(
    interrupted: Path, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    theirs = tmp_path / "kafka"
    copy_tree(interrupted, theirs)
    before = files_of(interrupted)
    _run(spark, interrupted)
    for topic in POLICIES:
        kafka.open(theirs / f"{topic}-0", now=NOW)
        epochs = [
            (root / f"{topic}-0" / "leader-epoch-checkpoint").read_text()
            for root in (interrupted, theirs)
        ]
        assert epochs[0] == epochs[1] == "0\n2\n1 5\n3 6\n"
    assert read_checkpoint(interrupted / LOG_START) == {"other-3": 99}
    done = files_of(interrupted)
    assert changes(before, done) == sorted(
        [LOG_START, *(f"{topic}-0/leader-epoch-checkpoint" for topic in POLICIES)]
    )
    _run(spark, interrupted)
    assert changes(done, files_of(interrupted)) == []


def test_compaction_only_run_does_not_catch_up(interrupted: Path, spark: SparkSession) -> None:
    before = files_of(interrupted)
    _run(spark, interrupted, only="compaction")
    assert changes(before, files_of(interrupted)) == []
