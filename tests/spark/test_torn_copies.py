"""A copy that was made while the broker ran is not taken for a crash of the broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import winnow
from tests.fixtures.data import CLEAN_MARKER, TOPIC_CONFIGS, copy_log_dir
from tests.session import verbs_use
from winnow.cli.main import run
from winnow.logdir.names import HIGH_WATERMARK_CHECKPOINT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TORN = "is a copy that was made while its broker ran, or its machine lost power: c-none-0 ends"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """As a broker leaves it that was killed."""
    copy = copy_log_dir("clean", tmp_path / "log-dir", only=["c-none-0", "c-tomb-0"])
    (copy / CLEAN_MARKER).unlink()
    return copy


def make_torn(log_dir: Path) -> None:
    """The checkpoint is copied some seconds after the logs."""
    checkpoint = log_dir / HIGH_WATERMARK_CHECKPOINT
    lines = checkpoint.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("c-none 0 "))
    lines[at] = f"c-none 0 {int(lines[at].split()[2]) + 7}"
    checkpoint.write_text("\n".join(lines) + "\n")


def test_doctor_and_plan_tell_a_torn_copy_from_a_crash(
    spark: SparkSession,
    log_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verbs_use(spark, monkeypatch)

    def told(verb: str, *more: str) -> str:
        run([verb, str(log_dir), *more, "--topic-configs", str(TOPIC_CONFIGS), "--quiet"])
        return " ".join("".join(capsys.readouterr()).split())

    assert "the broker crashed, was killed, or dropped" in told("doctor", "--all")
    assert TORN not in told("plan")
    make_torn(log_dir)
    page = told("doctor", "--all")
    assert TORN in page
    assert "crashed, was killed" not in page
    assert "run this command on the original" in page
    assert TORN in told("plan")


def test_verify_says_that_findings_of_a_torn_copy_are_not_those_of_the_original(
    spark: SparkSession, log_dir: Path
) -> None:
    crashed = winnow.verify(spark, str(log_dir), topics="c-none")
    assert not any(TORN in note for note in crashed.notes)
    make_torn(log_dir)
    torn = winnow.verify(spark, str(log_dir), topics="c-none")
    assert torn.exit_code == 4
    assert any(TORN in note for note in torn.notes)
