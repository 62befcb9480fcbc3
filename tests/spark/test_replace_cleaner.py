"""A broker whose cleaner is off: nobody cleans its compacted topics, unless Winnow does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import winnow
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.session import verbs_use
from tests.spark.runs import NOW, changes, files_of
from winnow.cli.main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COMPACTED = ("c-tomb-0", "c-none-0")
Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return copy_log_dir("clean", tmp_path / "d", only=(*COMPACTED, "d-size-0"))


@pytest.fixture
def off(tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\nlog.cleaner.enable=false\n")
    return file


@pytest.fixture
def verb(
    spark: SparkSession,
    log_dir: Path,
    off: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Verb:
    verbs_use(spark, monkeypatch)

    def call(name: str, *more: str, server: Path = off) -> tuple[int, str, str]:
        words = [name, str(log_dir), "--topic-configs", str(TOPIC_CONFIGS), "--now", str(NOW)]
        words += ["--server-properties", str(server), *more]
        if name == "clean":
            words += ["--no-ledger", "--report", "none"]
        capsys.readouterr()
        code = run(words)
        return (code, *capsys.readouterr())

    return call


def decisions(told: str) -> list[Any]:
    """Of each partition of a plan: what is done and why."""
    return [
        (one["topic"], one["actions"], one["rule"], one["reason"])
        for one in json.loads(told)["partitions"]
    ]


def test_run_without_the_option_counts_what_it_leaves(verb: Verb, log_dir: Path) -> None:
    code, line, errors = verb("plan", "--summary", "--detailed-exitcode")
    assert code == 11
    assert line.startswith("plan: 1 of 3 partitions, ")
    left = "2 not cleaned because log.cleaner.enable is false (see --replace-cleaner)"
    assert line.rstrip().endswith(f"; {left}")
    note = "note: 2 partitions of compacted topics are not cleaned"
    assert note in errors
    assert "--replace-cleaner" in errors.split(note)[1]
    _, page, _ = verb("plan")
    assert "--replace-cleaner" in page
    before = files_of(log_dir)
    code, told, errors = verb("clean", "--json")
    assert code == 0
    assert json.loads(told)["totals"]["cleaner_off"] == 2
    assert note in errors
    changed = {name.partition("/")[0] for name in changes(before, files_of(log_dir)) if "/" in name}
    assert changed == {"d-size-0"}


def test_option_decides_as_if_the_cleaner_were_on(verb: Verb, tmp_path: Path) -> None:
    on = tmp_path / "on.properties"
    on.write_text("node.id=1\nlog.cleaner.enable=true\n")
    code, told, errors = verb("plan", "--replace-cleaner", "--json", "--detailed-exitcode")
    assert code == 10
    assert decisions(told) == decisions(verb("plan", "--json", server=on)[1])
    assert decisions(told) == decisions(verb("plan", "--json", "--replace-cleaner", server=on)[1])
    sources = {
        one["source"]
        for group in json.loads(told)["settings"]
        for one in group["settings"]
        if one["key"] == "log.cleaner.enable"
    }
    assert sources == {"--replace-cleaner"}
    # It is said already that Winnow is the cleaner, so --yes is not needed.
    file = tmp_path / "winnow.toml"
    file.write_text("replace-cleaner = true\n")
    code, told, errors = verb("clean", "--summary", "--config", str(file))
    assert code == 0, errors
    assert told.startswith("clean: 3 of 3 partitions, ")
    assert "not cleaned" not in told + errors
    assert verb("plan", "--replace-cleaner", "--detailed-exitcode")[0] == 0


def test_saved_plan_remembers_the_option(verb: Verb, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    assert verb("plan", "--replace-cleaner", "--out", plan, "--summary")[0] == 0
    assert json.loads(Path(plan).read_text())["asked"]["replace_cleaner"] is True
    assert run(["apply", plan, "--no-ledger", "--report", "none", "--summary"]) == 0
    assert verb("plan", "--replace-cleaner", "--detailed-exitcode")[0] == 0


def test_explain_and_doctor_name_the_option(verb: Verb) -> None:
    question = ("--partition", "c-tomb-0")
    assert "without --replace-cleaner" in verb("explain", *question)[1]
    explained = verb("explain", *question, "--replace-cleaner")[1]
    assert "log.cleaner.enable=true  --replace-cleaner" in explained
    found = json.loads(verb("doctor", "--json")[1])
    [advice] = [one for one in found["advice"] if "--replace-cleaner" in one["command"]]
    assert advice["command"][1] == "plan"
    assert "2 partitions of compacted topics" in advice["why"]
    # With the option, the advice is to clean with it, and nobody asks whether the cleaner is dead.
    found = json.loads(verb("doctor", "--json", "--replace-cleaner")[1])
    assert found["dead_cleaner"] is None
    cleans = [one["command"] for one in found["advice"] if one["command"][1] == "clean"]
    assert cleans
    assert all("--replace-cleaner" in words for words in cleans)


def test_python_has_the_option_as_an_argument(
    spark: SparkSession, log_dir: Path, off: Path
) -> None:
    given: dict[str, Any] = {
        "server_properties": str(off),
        "topic_configs": str(TOPIC_CONFIGS),
        "now": NOW,
    }
    left = winnow.plan(spark, str(log_dir), **given)
    assert sum(p.rule == "S9.1" for p in left.partitions) == 2
    assert any("--replace-cleaner" in note for note in left.run.notes)
    acting = winnow.plan(spark, str(log_dir), replace_cleaner=True, **given)
    assert [p.acts for p in acting.partitions] == [True] * 3
    why = winnow.explain(spark, str(log_dir), "c-tomb-0", replace_cleaner=True, **given)
    assert why.actions == ("compacted",)
    done = winnow.clean(spark, str(log_dir), replace_cleaner=True, **given)
    assert [p.acts for p in done.partitions] == [True] * 3
