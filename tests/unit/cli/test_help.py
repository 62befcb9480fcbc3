"""The help shows for every verb what it changes, working examples and exit codes, in 80 columns."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
import typer.main

from winnow.cli.app import app
from winnow.cli.main import run
from winnow.cli.options import GROUPS
from winnow.cli.text.lessons import ALL, LESSONS

VERBS = tuple(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
SPARK_SUBMIT = (Path(__file__).resolve().parents[3] / "spark-submit.sh").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((80, 24)))


def test_every_verb_has_a_lesson_and_is_known_to_the_script() -> None:
    assert sorted(LESSONS) == sorted(VERBS)
    known = " ".join(re.findall(r"^    ([\w| -]+)\)", SPARK_SUBMIT, re.MULTILINE))
    unknown = set(VERBS) - set(known.replace("|", " ").split())
    assert not unknown, "name each verb in spark-submit.sh"


@pytest.mark.parametrize("verb", VERBS)
def test_verb_help_has_changes_examples_and_exit_codes(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, "--help"], program="./spark-submit.sh") == 0
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert "\x1b" not in told
    flat = " ".join(told.split())
    assert LESSONS[verb].changes in flat
    for example in LESSONS[verb].examples:
        assert f"    ./spark-submit.sh {example}\n" in told
    for code, words in LESSONS[verb].codes.items():
        assert f" {code} {words}" in flat


def test_general_help_lists_verbs_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"], program="./spark-submit.sh") == 0
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    for verb in VERBS:
        assert re.search(rf"^  {verb} +{re.escape(LESSONS[verb].short)}$", told, re.MULTILINE)
    assert all(f"    {code}  {words}\n" in told for code, words in ALL.codes.items())


@pytest.mark.parametrize(
    "example", [example for lesson in LESSONS.values() for example in lesson.examples]
)
def test_help_example_parses(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run each example up to where it needs Spark. Only its missing directories may fail."""
    verb, *words = shlex.split(example)
    if verb in {"demo", "history", "package", "set-up"}:  # these name no directory
        words.append("--help")
    (tmp_path / "FILE").write_text("node.id=1\nlog.retention.hours=168\n", encoding="utf-8")
    own = [
        str(tmp_path / word)
        if word == "FILE"
        else word.replace("/var/lib/kafka", f"{tmp_path}/gone")
        for word in words
    ]
    own = [word.replace("/disk", f"{tmp_path}/disk") for word in own]
    code = run([verb, *own])
    told = capsys.readouterr()
    assert (code, "Usage" in told.out) == ((0, True) if "--help" in own else (2, False))
    if "--help" not in own:
        assert re.search(r"no such (directory|file)|No such file", told.err), told.err


@pytest.mark.parametrize("verb", ["plan", "clean"])
def test_options_are_grouped_with_the_common_ones_first(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, "--help"]) == 0
    told = capsys.readouterr().out
    titles = re.findall(r"^([A-Z][a-z ]+):$", told, re.MULTILINE)
    assert titles[: len(GROUPS) + 1] == ["Arguments", *(one.title for one in GROUPS)]
    other = told[told.index("\nOther:\n") :].split("\n\n")[0]
    left = re.findall(r"^  (--[a-z-]+)", other, re.MULTILINE)
    assert left == ["--help"], "give each option a group"
