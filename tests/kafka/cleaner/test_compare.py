"""A replica cleaned by Kafka compares equal to one that was not cleaned. With one record less, it
does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir, partition_dirs
from tests.kafka.judge.judge import Kafka
from winnow.api import compare_replicas
from winnow.verbs.compare.values import DifferenceKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

A_DAY_LATER = 1_795_300_000_000
ONLY = (
    "c-none-0",
    "c-tomb-0",
    "c-nullkey*",
    "t-closed-0",
    "t-long-0",
    "b-txn-0",
    "cd-mixed-0",
    "d-time-0",
    "v*",
)
A_WEEK_LATER = A_DAY_LATER + 6 * 86_400_000


@pytest.mark.parametrize("name", ["clean", "legacy"])
def test_cleaning_by_kafka_is_no_difference(
    name: str, kafka: Kafka, spark: SparkSession, tmp_path: Path
) -> None:
    """Cleaned never, once, and again when the tombstones are due: all kinds of topics,
    transactions, no keys.
    """
    log_dirs = [
        copy_log_dir(name, tmp_path / which, only=ONLY) for which in ("never", "once", "twice")
    ]
    for log_dir in log_dirs[1:]:
        kafka.clean(
            partition_dirs(log_dir),
            now=A_DAY_LATER,
            topic_configs=TOPIC_CONFIGS,
            write_checkpoint=True,
        )
    kafka.clean(
        partition_dirs(log_dirs[2]),
        now=A_WEEK_LATER,
        topic_configs=TOPIC_CONFIGS,
        first_dirty=0,
        write_checkpoint=True,
    )
    result = compare_replicas(spark, list(map(str, log_dirs)))
    assert {
        f"{one.topic}-{one.partition}": one.first for one in result.comparisons if one.first
    } == {}
    assert sum(one.undecided for one in result.comparisons) == 0
    compared = [one for one in result.comparisons if one.end is not None]
    assert len(compared) > len(result.comparisons) / 2
    assert any((one.every_record_from or 0) > 0 for one in compared)


def test_lost_segment_is_a_difference(kafka: Kafka, spark: SparkSession, tmp_path: Path) -> None:
    """A loader finds nothing wrong with such a log."""
    whole, other = (
        copy_log_dir("clean", tmp_path / which, only=["c-none-0"]) for which in ("a", "b")
    )
    logs = sorted((other / "c-none-0").glob("*.log"))
    assert len(logs) > 2
    for file in (other / "c-none-0").glob(f"{logs[1].stem}.*"):
        file.unlink()
    assert kafka.load(other / "c-none-0", now=A_DAY_LATER).error is None
    (one,) = compare_replicas(spark, [str(whole), str(other)]).comparisons
    assert one.first is not None
    assert (one.first.kind, one.first.offset) == (DifferenceKind.MISSING, int(logs[1].stem))
    assert one.first.places[0].file == f"c-none-0/{logs[1].name}"
    assert one.differences == int(logs[2].stem) - int(logs[1].stem)
