"""Every life of `regressions` and `extremes` ends like Kafka's. All run at once, and each is a
test.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kafka.judge.judge import Kafka
from tests.kafka.lives.extremes import EXTREMES
from tests.kafka.lives.machine import run
from tests.kafka.lives.outcome import Outcome
from tests.kafka.lives.regressions import REGRESSIONS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def outcome(spark: SparkSession, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run(
        spark,
        kafka,
        Path(tmp_path_factory.mktemp("regressions")) / "lives",
        {**REGRESSIONS, **EXTREMES},
    )


@pytest.mark.parametrize("name", [*REGRESSIONS, *EXTREMES])
def test_life_equals_kafka(name: str, outcome: Outcome) -> None:
    assert [d for d in outcome.differences if d.name == name] == []


def test_all_lives_run_to_the_end(outcome: Outcome) -> None:
    """Except those in which Kafka's cleaner gives up."""
    assert outcome.ended == {"a full index": 3, "no empty batch of v0 or v1": 2}
    assert outcome.compacted >= len(REGRESSIONS) - 5
