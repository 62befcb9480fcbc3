"""Runs that leave known segments unread are killed, also while they write what they know.
`python -m tests.kill.nights` kills many (docs/proofs/kill.md).
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kill.nights import Kill, Nights, choose

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def nights(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    nights = Nights(spark, tmp_path)
    nights.begin()
    return nights


@pytest.mark.slow
def test_killed_runs_over_known_segments_end_as_if_everything_were_read(nights: Nights) -> None:
    assert nights.undisturbed() == 6
    rng = random.Random(26)
    kills = [Kill("group", "keys", 0.0), Kill("driver", "list", 0.0), Kill("worker", "keys", 0.0)]
    assert [nights.night(kill, rng).killed for kill in kills] == [True] * len(kills)


@pytest.mark.slow
def test_many_killed_runs_over_known_segments(nights: Nights) -> None:
    rng = random.Random()
    assert sum(nights.night(choose(rng), rng).killed for _ in range(20)) > 10
