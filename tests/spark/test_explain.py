"""`explain` predicts what `clean` then does to every record of the recorded directories."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir, partition_dirs
from tests.spark.explaining import (
    Judged,
    ask,
    assert_told_the_truth,
    explained_log_dir,
    foretell,
    judged,
)
from tests.spark.runs import NOW
from winnow.policy.fate import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HORIZON = NOW + 86_400_000
LATER = HORIZON + 1
SETS = (
    "c-*:min.cleanable.dirty.ratio=0",
    "b-*:min.cleanable.dirty.ratio=0",
    "t-*:min.cleanable.dirty.ratio=0",
    "cd-mixed:retention.ms=570000000",
    "c-4p:cleanup.policy=compact,delete",
    "c-4p:retention.bytes=30000",
    "c-4p:retention.ms=-1",
)


JUDGED = (
    "c-tomb-*",
    "c-nullkey-*",
    "c-lat-*",
    "c-minlag-*",
    "c-zstd-*",
    "c-4p-*",
    "cd-*",
    "d-*",
    "t-*",
    "b-*",
    "__[ct]*",
)
"""Something of everything, as little of it as the recording has."""


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return explained_log_dir(tmp_path_factory.mktemp("explain") / "log-dir")


@pytest.fixture(scope="module")
def passes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Judged, ...]:
    """Three passes over one directory: at once, as all is clean, and after every horizon, all dirty
    again.
    """
    log_dir = copy_log_dir("clean", tmp_path_factory.mktemp("passes") / "log-dir", only=JUDGED)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n2\nd-start 0 1234\nt-closed 0 460\n")
    first = judged(spark, log_dir, *SETS)
    again = judged(spark, log_dir, *SETS)
    (log_dir / "cleaner-offset-checkpoint").unlink()
    later = judged(spark, log_dir, *SETS, now=LATER)
    (log_dir / "cleaner-offset-checkpoint").unlink()
    return first, again, later, judged(spark, log_dir, *SETS, now=LATER + HORIZON)


@pytest.mark.parametrize("number", range(4))
def test_every_record_has_the_predicted_fate(passes: tuple[Judged, ...], number: int) -> None:
    assert_told_the_truth(passes[number])


def test_recording_covers_all_verdicts_and_reasons(passes: tuple[Judged, ...]) -> None:
    """Otherwise the comparison would prove little. It needs both verdicts, and each reason in the
    recording.
    """
    told = Counter(
        (f.verdict.value, f.rule)
        for p in passes
        for fates in p.fates.values()
        for f in fates.values()
    )
    expected = {
        ("goes", "S5.5"),
        ("stays", "S5.5"),
        ("stays", "S3.3"),
        ("stays", "S3.2"),
        ("goes", "S5.4"),
        ("goes", "S5.8"),
        ("stays", "S5.8"),
        ("goes", "S7.3"),
        ("stays", "S7.3"),
    }
    assert expected <= set(told)
    words = " ".join(f.words for p in passes for fates in p.fates.values() for f in fates.values())
    for reason in (
        *(
            "it has no key",
            "last record of its key in",
            "its key has no record in the dirty range",
            "gets its delete horizon",
        ),
        *(
            "horizon has not passed",
            "horizon has passed",
            "its batch keeps its header",
            "has a transaction open",
        ),
        *("retention.bytes", "retention.ms", "below the log start offset", "is younger than"),
    ):
        assert reason in words, reason


def test_second_pass_removes_no_further_records(passes: tuple[Judged, ...]) -> None:
    again = Counter(f.verdict for fates in passes[1].fates.values() for f in fates.values())
    assert again[Verdict.GOES] == 0


def test_records_of_v0_and_v1_have_the_predicted_fate(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("legacy", tmp_path / "log-dir")
    names = [directory.name.rpartition("-")[0] for directory in partition_dirs(log_dir)]
    sets = [f"{name}:cleanup.policy=compact" for name in names]
    found = judged(spark, log_dir, *sets)
    assert_told_the_truth(found)
    told = Counter(f.verdict for fates in found.fates.values() for f in fates.values())
    assert set(told) == {Verdict.GOES, Verdict.STAYS}


def test_single_record_query_gives_the_same_answer(spark: SparkSession, log_dir: Path) -> None:
    """For one record of each kind of fate, with the number of Spark jobs that the query takes."""
    sets = [one for one in SETS if not one.startswith("c-4p")]  # that topic is not here
    for name in ("t-closed-0", "cd-mixed-0", "d-start-0"):
        kinds = {
            (f.verdict, f.rule): f for f in foretell(spark, log_dir, *sets, now=NOW)[name].values()
        }
        assert len(kinds) > 1
        for fate in kinds.values():
            assert ask(spark, log_dir, name, *sets, offset=fate.offset).records == (fate,)
