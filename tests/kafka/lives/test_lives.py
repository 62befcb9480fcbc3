"""Random lives of logs through Kafka and Winnow, always the same ones. `python -m
tests.kafka.lives` runs more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kafka.judge.judge import Kafka
from tests.kafka.lives.lives import draw_lives
from tests.kafka.lives.machine import run

pytestmark = pytest.mark.spark

LIVES = 30
SEED = 20_261_121


def test_some_dozens_of_random_lives_equal_kafka(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    lives = {f"life-{number}": life for number, life in enumerate(draw_lives(LIVES, SEED))}
    outcome = run(spark, kafka, tmp_path / "lives", lives)
    assert outcome.differences == []
    assert outcome.lives == LIVES
    assert outcome.passes > 4 * LIVES, "most are lived to the end"
    assert outcome.compacted > LIVES, "and most passes of those that can be compacted compact"
    assert outcome.retained > LIVES // 2
    assert outcome.undone > LIVES // 2
    assert outcome.refused > LIVES // 2
