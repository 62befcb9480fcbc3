"""Options that delete more than a topic's own settings: asked for on a terminal, --yes elsewhere
(decision 47). A pseudo-terminal is the terminal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import TOPIC_CONFIGS
from tests.pages import run_here
from tests.spark.runs import add_partition, changes, files_of, new_log_dir
from tests.terminal import on_a_terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = "1795300000000"
MORE = "d-size:retention.bytes=1000"
NOTHING_ELSE = ("--no-ledger", "--report", "none")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = new_log_dir(tmp_path / "d")
    add_partition(path, "d-size-0", "d-size-0")
    return path


def command(log_dir: Path, verb: str = "clean", *more: str) -> list[str]:
    return [
        *(verb, str(log_dir), "--now", NOW),
        *("--topic-configs", str(TOPIC_CONFIGS), "--topic-set", MORE),
        *more,
    ]


def test_deleting_more_without_a_terminal_needs_yes(spark: SparkSession, log_dir: Path) -> None:
    before = files_of(log_dir)
    code, _, errors = run_here(spark, command(log_dir, "clean", *NOTHING_ELSE))
    assert code == 2, errors
    assert "d-size: retention.bytes=1000 instead of 200000" in errors
    assert "--yes" in errors
    assert changes(before, files_of(log_dir)) == []
    code, planned, errors = run_here(spark, command(log_dir, "plan"))
    assert code == 0, errors
    assert "Options delete more than the topics' own settings" in planned
    code, done, errors = run_here(
        spark, command(log_dir, "clean", *NOTHING_ELSE, "--yes", "--json")
    )
    assert code == 0, errors
    (partition,) = json.loads(done)["partitions"]
    assert partition["deletes_more"] == ["retention.bytes=1000 instead of 200000"]
    assert partition["actions"] == ["retained"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("d-size\n", 0),  # the name
        pytest.param("  d-size \n", 0, marks=pytest.mark.slow),
        pytest.param("d-size-0\n", 2, marks=pytest.mark.slow),  # a partition is no topic
        pytest.param("yes\n", 2, marks=pytest.mark.slow),
        pytest.param("\n", 2, marks=pytest.mark.slow),
        pytest.param(b"\xff\x00\xfe\n", 2, marks=pytest.mark.slow),
        ("\x03", 130),  # Ctrl-C
        pytest.param("\x04", 2, marks=pytest.mark.slow),  # Ctrl-D: the end of the input
        pytest.param("d-size\x04\x04", 0, marks=pytest.mark.slow),  # ends a line as well
    ],
)
def test_typed_name_of_the_topic_confirms(log_dir: Path, answer: str | bytes, code: int) -> None:
    before = files_of(log_dir)
    words = command(log_dir, "clean", *NOTHING_ELSE)
    seen = on_a_terminal([sys.executable, "jobs/winnow_job.py", *words], answer, until="go on:")
    assert seen.code == code, seen.text[-3000:]
    assert "  retention.bytes=1000 instead of 200000" in seen.lines
    question = "These options delete more than the own settings of topic d-size:"
    assert seen.lines.count(question) == 1  # no live line was painted over it
    assert bool(changes(before, files_of(log_dir))) == (code == 0)
    if code == 2:
        assert "deleting more than the topics' own settings was not confirmed" in seen.text
        assert "add --yes" in " ".join(seen.text.split())
