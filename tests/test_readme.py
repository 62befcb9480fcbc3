"""The README is true: its commands run, and its demo's output is what the demo prints."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pages import LOG_DIR, PROGRAM, ROOT, blocks, commands, run_here
from winnow.cli.text.lessons import LESSONS

PAGE = ROOT / "README.md"
README = PAGE.read_text(encoding="utf-8")
SCRATCH = re.compile(r"\S*/winnow-demo-\w+")
CHANGING = ("plan", "clean")
READING = ("doctor", "doctor --deep", "explain", "inspect", "plan --estimate", "verify")
OTHERS = {f"{PROGRAM} demo", f"{PROGRAM} history", "./run-tests.sh"}
"""The last one runs this test."""


def test_demo_prints_the_output_in_the_readme() -> None:
    [shown] = [block.text for block in blocks(PAGE, "text")]
    piped = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    printed = subprocess.run(
        [ROOT / "spark-submit.sh", "demo"], check=True, capture_output=True, text=True, env=piped
    ).stdout
    place = SCRATCH.search(printed)
    assert place is not None
    shutil.rmtree(place[0])
    assert SCRATCH.sub("DIR", shown) in SCRATCH.sub("DIR", printed)


@pytest.mark.parametrize("verb", CHANGING)
def test_commands_of_the_first_screen_run(verb: str, log_dir: Path, tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    words = [*words_of(verb, log_dir), "--json", "--profile"]
    run = typed(*words, **state)
    told = json.loads(run.stdout)
    assert told["status"] == "done"
    phases = {phase["name"]: phase for phase in told["profile"]["phases"]}
    assert sum(phase["seconds"] for phase in phases.values()) == pytest.approx(
        told["profile"]["seconds"]
    )
    assert {"starting the process", "starting Spark", "deciding"} <= phases.keys()
    assert {"writing the ledger", "writing the report"} <= phases.keys() or verb == "plan"
    assert sum(phase["tasks"] for phase in phases.values()) > 0
    assert "\nstarting Spark " in run.stderr
    assert any(partition["actions"] == ["compacted"] for partition in told["partitions"])
    assert len(list((tmp_path / "state").rglob("*.html"))) == (verb == "clean")
    if verb == "clean":
        assert re.search(r"^\$ \./spark-submit\.sh history$", README, re.MULTILINE)
        assert len(json.loads(typed("history", "--json", **state).stdout)["runs"]) == 1


def typed(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [PROGRAM, *words],
        cwd=ROOT,
        env=os.environ | environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return ended


@pytest.mark.spark
@pytest.mark.parametrize("verb", READING)
def test_reading_commands_run(verb: str, spark: SparkSession, log_dir: Path) -> None:
    code, out, err = run_here(spark, [*words_of(verb, log_dir), "--json"])
    assert code == 0, err
    assert json.loads(out)


def test_every_command_is_run_by_a_test() -> None:
    lines = {
        command.line.strip() for block in blocks(PAGE, "console") for command in commands(block)
    }
    run = {
        line
        for line in lines
        for verb in (*CHANGING, *READING)
        if re.match(rf"{re.escape(PROGRAM)} +{verb} +{LOG_DIR}", line)
    }
    assert lines - run == OTHERS


def words_of(verb: str, log_dir: Path) -> list[str]:
    """The one command of the README with this verb, without the program."""
    lines = [command.line for block in blocks(PAGE, "console") for command in commands(block)]
    [line] = [line for line in lines if re.match(rf"{re.escape(PROGRAM)} +{verb} +{LOG_DIR}", line)]
    return shlex.split(line.replace(LOG_DIR, str(log_dir)), comments=True)[1:]


@pytest.mark.spark
def test_python_example_runs(
    spark: SparkSession, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [example] = [block.text for block in blocks(PAGE, "python") if "winnow.plan" in block.text]
    (tmp_path / "server.properties").write_text("node.id=1\nlog.retention.hours=168\n")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"spark": spark}
    exec(example.replace("/var/lib/kafka", str(log_dir)), names)  # noqa: S102 - that is the point
    assert names["result"].freed_bytes == names["plan"].freed_bytes > 0


@pytest.mark.spark
def test_kafka_log_example_shows_counts(
    spark: SparkSession, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [example] = [block.text for block in blocks(PAGE, "python") if "kafka-log" in block.text]
    exec(example.replace("/var/lib/kafka", str(log_dir)), {"spark": spark})  # noqa: S102 - that is the point
    assert re.search(r"^\|\s*c-tomb\|\s*[0-9]+\|", capsys.readouterr().out, re.MULTILINE)


def test_it_is_short() -> None:
    assert len(README.splitlines()) < 150


def test_every_named_file_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    files = re.findall(r"`((?:tests|docs|benchmarks|conf)/[\w./-]+)`", README)
    missing = [
        name
        for name in [*links, *files]
        if not name.startswith("http") and not (ROOT / name).exists()
    ]
    assert not missing


def test_table_lists_every_verb() -> None:
    named = set(re.findall(r"^\| `([a-z-]+)[ `]", README, re.MULTILINE))
    assert named == LESSONS.keys() - {"demo", "package"}, "README's table must name each verb"
