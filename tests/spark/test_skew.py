"""No task has more than twice the work of the others of its stage, however unevenly records are
spread. Work is counted, not timed.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.data import NOW
from tests.spark.runs import clean, plan
from tests.spark.skewed import RECORD_BYTES, make
from tests.spark.tasks import StageWork, skew, work_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STAGES = ("list", "walk", "scan", "resolve", "rewrite")
LARGE = ("scan", "rewrite")
"""Those that have several tasks for each core here: so few keys are compared by one, and so few
headers are walked by one for each core.
"""
MOST = 2.0
KEY_BYTES = 20
"""Of a key in the shuffle."""


@pytest.fixture(autouse=True)
def _keys_are_shuffled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster: here only their places would be, and Spark would have nothing to count. The
    driver would list a few partitions, too.
    """
    monkeypatch.setattr("winnow.survey.survey._list_here", lambda _: None)
    for module in ("winnow.cleaning.rewrite.compaction", "winnow.cleaning.run"):
        monkeypatch.setattr(f"{module}.spooling", lambda _: nullcontext())


def told(stages: list[StageWork]) -> dict[str, float]:
    """By stage of a compaction, the most that a task has to do over the median of all its tasks."""
    assert len(stages) == len(STAGES)
    # Where no file is looked into, work is what goes through the shuffle.
    work = {
        name: stage.shuffled if name == "resolve" else stage.work
        for name, stage in zip(STAGES, stages, strict=True)
    }
    return {name: skew(amounts) for name, amounts in work.items()}


def test_key_of_nine_in_ten_records_does_not_overload_a_task(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = make(tmp_path / "log-dir", big_mib=48, segment_mib=12, tiny=0, hot=True)
    stages = work_of(
        spark, lambda: clean(spark, [str(tmp_path / "log-dir")], settings=settings, now=NOW)
    )
    assert {name: over for name, over in told(stages).items() if over > MOST} == {}
    assert min(len(stages[STAGES.index(name)].work) for name in LARGE) > 4
    # Of each split, one record of the key is in the shuffle: all that is in there is the tenth with
    # other keys.
    assert sum(stages[2].shuffled) < 0.12 * KEY_BYTES * 48 * 2**20 / RECORD_BYTES


@pytest.mark.slow
def test_large_partition_among_many_small_ones_is_spread(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = make(tmp_path / "log-dir", big_mib=64, segment_mib=64, tiny=300, hot=False)
    stages = work_of(
        spark,
        lambda: plan(spark, [str(tmp_path / "log-dir")], settings=settings, now=NOW, estimate=True),
    )
    assert {name: over for name, over in told(stages).items() if over > MOST} == {}
    assert {len(stages[STAGES.index(name)].work) for name in LARGE} == {6}


@pytest.mark.slow
def test_large_partition_among_a_thousand_small_ones_is_cleaned(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = make(tmp_path / "log-dir", big_mib=64, segment_mib=64, tiny=1000, hot=False)
    stages = work_of(
        spark, lambda: clean(spark, [str(tmp_path / "log-dir")], settings=settings, now=NOW)
    )
    assert {name: over for name, over in told(stages).items() if over > MOST} == {}
