"""A few kills at fixed moments. `python -m tests.kill.run` does hundreds at random moments
(docs/proofs/kill.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka.judge.judge import Kafka
from tests.kill.fields import make_field
from tests.kill.kills import Field, Kill, carry_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "kill",
    [
        Kill("group", "commit", 0.0),
        Kill("driver", "staging", 0.0),
        Kill("worker", "staging", 0.0),
        # See tests/cluster, too.
        pytest.param(Kill("executor", "staging", 0.0), marks=pytest.mark.slow),
        Kill("jvm", "start", 2.0),
    ],
    ids=lambda kill: f"{kill.victim}-{kill.stage}",
)
def test_run_after_a_kill_ends_like_an_undisturbed_run(
    field: Field, kafka: Kafka, kill: Kill
) -> None:
    outcome = carry_out(kill, field, kafka=kafka if kill.stage == "commit" else None)
    assert outcome.killed
    assert outcome.alive_s < 10


def test_next_erasure_after_a_kill_ends_like_an_undisturbed_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A kill may come just after a commit. One of a few comes inside."""
    states = []
    while len(states) < 5 and "inside a commit" not in states:
        place = tmp_path / str(len(states))
        place.mkdir()
        outcome = carry_out(Kill("driver", "commit", 0.0), make_field(spark, place, "erase"))
        assert outcome.killed
        states.append(outcome.state)
    assert states[-1] == "inside a commit"
