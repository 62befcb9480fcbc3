"""Random lives, and those of `regressions`, by the rules of other versions. Their classes judge:
the oldest, the newest, and the last one with ZooKeeper. `python -m tests.kafka.lives
--kafka-version all` runs all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kafka.judge.judge import Kafka
from tests.kafka.lives.lives import draw_lives
from tests.kafka.lives.machine import run
from tests.kafka.lives.regressions import REGRESSIONS

pytestmark = pytest.mark.spark

LIVES = 24
SEED = 20_261_124


@pytest.mark.parametrize(
    "version",
    ["2.8", *(pytest.param(version, marks=pytest.mark.slow) for version in ("3.9", "4.4"))],
)
def test_random_lives_equal_kafka_of_that_version(
    version: str, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    drawn = {f"life-{number}": life for number, life in enumerate(draw_lives(LIVES, SEED))}
    lives = {**drawn, **REGRESSIONS}
    with Kafka(version=version) as judge:
        outcome = run(spark, judge, tmp_path / "lives", lives, reader=kafka)
    assert outcome.differences == []
    assert outcome.passes > 4 * len(lives), "most are lived to the end"
    assert outcome.compacted > len(lives), "and most passes of those that can be compacted compact"
