"""One whole run over the recorded log directory leaves what Kafka's own cleaner and retention
left.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import TOPIC_CONFIGS, expected, expected_checkpoint, partition_dirs
from tests.kafka.cleaner.runs import assert_as_kafka, read_checkpoint, run_winnow, write_checkpoint
from tests.kafka.judge.judge import Kafka
from winnow.cleaning.result import PartitionResult

pytestmark = pytest.mark.spark

A_DAY_LATER = 1_795_300_000_000
IN_BETWEEN = 1_790_867_600_000


@dataclass(frozen=True)
class Case:
    """Winnow's arguments for Kafka's (`cmd.txt` of the set)."""

    name: str
    now: int
    topic_sets: tuple[str, ...] = ()
    only: Literal["retention", "compaction"] | None = None
    topics: tuple[str, ...] = ()
    forget_checkpoint: bool = False
    """`--first-dirty 0`"""
    high_watermark: int | None = None
    log_start_offset: int | None = None


ALWAYS = "*:min.cleanable.dirty.ratio=0"
CASES = (
    Case("broker-default", A_DAY_LATER, (ALWAYS,)),
    Case("producers-alive", 1_790_520_000_000, (ALWAYS,), only="compaction"),
    Case(
        "merge",
        A_DAY_LATER,
        (ALWAYS, "*:internal.segment.bytes=1048576", "*:index.interval.bytes=4096"),
        forget_checkpoint=True,
    ),
    Case("retain-configs", IN_BETWEEN, only="retention"),
    Case("retain-all", 1_796_000_000_000, ("*:retention.ms=1000",), only="retention"),
    Case(
        "retain-bytes",
        IN_BETWEEN,
        ("*:retention.ms=-1", "*:retention.bytes=300000"),
        only="retention",
    ),
    Case("retain-hw", IN_BETWEEN, ("*:retention.ms=1000",), only="retention", high_watermark=2000),
    Case(
        "retain-start",
        IN_BETWEEN,
        ("*:cleanup.policy=compact",),
        only="retention",
        log_start_offset=1234,
    ),
    Case(
        "cd-both",
        IN_BETWEEN,
        (ALWAYS, "cd-mixed:retention.ms=432000000"),
        topics=("cd-mixed",),
        forget_checkpoint=True,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_run_leaves_the_files_that_kafka_left(
    case: Case, spark: SparkSession, kafka: Kafka, log_dir: Path
) -> None:
    names = [directory.name for directory in partition_dirs(log_dir)]
    if case.forget_checkpoint:
        (log_dir / "cleaner-offset-checkpoint").unlink()
    if case.high_watermark is not None:
        # At most where each log ends: another would be damage after a clean stop (S8.9), and Kafka
        # takes the end for it.
        ends = read_checkpoint(log_dir / "recovery-point-offset-checkpoint")
        lowered = {name: min(case.high_watermark, ends[name]) for name in names if name in ends}
        write_checkpoint(log_dir / "replication-offset-checkpoint", lowered)
    if case.log_start_offset is not None:
        write_checkpoint(
            log_dir / "log-start-offset-checkpoint", dict.fromkeys(names, case.log_start_offset)
        )
    results = run_winnow(
        spark,
        log_dir,
        now=case.now,
        topic_configs=TOPIC_CONFIGS.read_text(),
        topic_sets=case.topic_sets,
        topics=case.topics,
        only=case.only,
    )
    kafkas = {
        name: [json.loads(line) for line in lines] for name, lines in expected(case.name).items()
    }
    left_alone = {name for name, result in results.items() if result.left_alone}
    assert left_alone == _may_be_left_alone(case, results)
    assert_as_kafka(
        kafka, log_dir, {n: d for n, d in kafkas.items() if n not in left_alone}, results
    )


def _may_be_left_alone(case: Case, results: dict[str, PartitionResult]) -> set[str]:
    if case.log_start_offset is not None:
        # Kafka answers a log that ends before its log start offset by deleting it; Winnow refuses
        # (S6.3, case 93).
        return {
            name
            for name, result in results.items()
            if result.error and "ends before its log start" in result.error
        }
    return set()


def test_cleaner_checkpoint_equals_kafkas(spark: SparkSession, log_dir: Path) -> None:
    run_winnow(
        spark,
        log_dir,
        now=A_DAY_LATER,
        topic_configs=TOPIC_CONFIGS.read_text(),
        topic_sets=[ALWAYS],
        only="compaction",
    )
    lines = (line.rsplit(" ", 2) for line in expected_checkpoint("broker-default").splitlines()[2:])
    kafkas = {f"{topic}-{partition}": int(offset) for topic, partition, offset in lines}
    assert read_checkpoint(log_dir / "cleaner-offset-checkpoint") == kafkas
