"""Random lives of logs through Kafka and Winnow, always the same ones. `python -m
tests.kafka.lives` runs more.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.kafka.judge.judge import Kafka
from tests.kafka.lives.lives import draw_lives
from tests.kafka.lives.machine import run
from winnow.cleaning.rewrite import compaction
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.compaction import Outcome

pytestmark = pytest.mark.spark

LIVES = 30
SEED = 20_261_121


def test_some_dozens_of_random_lives_equal_kafka(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    lives = {f"life-{number}": life for number, life in enumerate(draw_lives(LIVES, SEED))}
    half = dict(list(lives.items())[: LIVES // 2])
    outcome = run(spark, kafka, tmp_path / "lives", half, known=True)
    rest = {name: life for name, life in lives.items() if name not in half}
    outcome.add(run(spark, kafka, tmp_path / "lives", rest, known=False))
    assert outcome.differences == []
    assert outcome.lives == LIVES
    assert outcome.passes > 4 * LIVES, "most are lived to the end"
    assert outcome.compacted > LIVES, "and most passes of those that can be compacted compact"
    assert outcome.unchanged > LIVES // 3, "and often a segment loses nothing"
    assert outcome.retained > LIVES // 2
    assert outcome.undone > LIVES // 2
    assert outcome.refused > LIVES // 2


def test_lives_notice_a_changed_segment_that_stays(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are not enough: a batch that keeps all of them may get a delete horizon or other
    bytes, and a segment other indexes.
    """

    def generous(outcome: Outcome) -> Outcome:
        alone = isinstance(outcome, CleanedGroup) and len(outcome.sources) == 1
        if alone and outcome.records_after == outcome.records_before:
            return replace(outcome, unchanged=True, staged=None)
        return outcome

    original = compaction.run_compaction

    def run_compaction(*args: Any, **named: Any) -> list[list[Outcome]]:
        return [[generous(one) for one in of] for of in original(*args, **named)]

    monkeypatch.setattr(compaction, "run_compaction", run_compaction)
    drawn = [*draw_lives(14, SEED)][8:]
    lives = {f"life-{number}": life for number, life in enumerate(drawn)}
    outcome = run(spark, kafka, tmp_path / "lives", lives)
    assert len(outcome.differences) > 2, "segments stayed that should have changed"
