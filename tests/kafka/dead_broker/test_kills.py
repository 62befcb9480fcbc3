"""A few brokers killed under load. `python -m tests.kafka.dead_broker.kills` kills many
(docs/proofs/killed-brokers.md).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka.dead_broker.kills import Kill, Lives, choose
from tests.kafka.dead_broker.load import Load
from tests.kafka.judge.judge import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lives(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> Iterator[Lives]:
    with Load() as load:
        yield Lives(spark, kafka, load, tmp_path)


def _kill(lives: Lives, kills: list[Kill], rng: random.Random) -> None:
    for kill in kills:
        outcome = lives.kill(kill, rng)
        for what, found in outcome.compared.items():
            assert found.differences == [], [str(kill), what, *outcome.lost]


def test_killed_brokers_log_is_cleaned_and_recovered_as_by_kafka(lives: Lives) -> None:
    _kill(lives, [Kill(1.5, synced=False), Kill(0.7, synced=True)], random.Random(2))


@pytest.mark.slow
def test_many_killed_brokers_logs_are_cleaned_and_recovered_as_by_kafka(lives: Lives) -> None:
    rng = random.Random()
    _kill(lives, [choose(rng) for _ in range(25)], rng)
