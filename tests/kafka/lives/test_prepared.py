"""Random lives whose passes are prepared, written to, and committed. `python -m tests.kafka.lives
--prepared` runs more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kafka.judge.judge import Kafka
from tests.kafka.lives.both import Both
from tests.kafka.lives.life import Append, Life, Rec, Roll, Span
from tests.kafka.lives.lives import draw_lives
from tests.kafka.lives.prepared import run

pytestmark = pytest.mark.spark

LIVES = 12
SEED = 20_261_128


def test_prepared_and_committed_lives_equal_kafka(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    lives = {f"life-{number}": life for number, life in enumerate(draw_lives(LIVES, SEED))}
    outcome = run(spark, kafka, tmp_path / "lives", lives)
    assert outcome.differences == []
    assert outcome.passes > 3 * LIVES, "most are lived to the end"
    assert outcome.committed > LIVES
    assert sum(outcome.dropped.values()) < outcome.committed, "most preparations hold"


def test_comparison_fails_if_kafka_keeps_tombstones_for_a_shorter_time(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life((Span((Append((Rec(0), Rec(1), Rec(0, size=None))), Roll(), Append())),))
    assert run(spark, kafka, tmp_path / "lives", {"life": life}).differences == []
    original = Both.configs
    monkeypatch.setattr(Both, "configs", lambda self, number, **_: original(self, number))
    outcome = run(spark, kafka, tmp_path / "lives", {"life": life})
    assert outcome.differences, "delete horizons without the age of the preparation went unnoticed"
