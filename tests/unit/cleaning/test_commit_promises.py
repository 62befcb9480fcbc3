"""`commit` does not ask what a start of the broker would do: a broker waits for it. So no sentence
of it says anything about the start, however harmful that would be.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from tests.unit.start.test_broker import start_of
from winnow.cleaning import prepared
from winnow.cli import prepared as command
from winnow.cli.main import run
from winnow.cli.text.lessons import LESSONS
from winnow.logdir.names import LOG, segment_file

START = re.compile(r"\b(re)?start(s|ed|ing)?\b(?! offset)", re.IGNORECASE)
MODULES = [*Path(prepared.__path__[0]).glob("*.py"), Path(command.__file__)]


@pytest.fixture
def harmful(tmp_path: Path) -> Path:
    """A start would set all partitions aside."""
    copy_base("4.3.1", "alone", tmp_path / "r")
    root = tmp_path / "r" / "a"
    metadata = root / "__cluster_metadata-0"
    (metadata / segment_file(0, LOG)).write_bytes(b"")
    for snapshot in metadata.glob("*.checkpoint"):
        snapshot.unlink()
    assert start_of(root).is_harmful
    return root


def test_commit_says_nothing_about_the_start(
    harmful: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ([], ["--dry-run"], ["--summary"]):
        assert run(["commit", str(harmful), *options]) == 0
        said = "".join(capsys.readouterr())
        assert said
        assert not START.search(said), said
    assert run(["commit", str(harmful), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["starts"] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_no_text_of_its_modules_is_about_the_start(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    docs = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs
    ]
    assert [text for text in texts if " " in text and START.search(text)] == []


def test_exit_codes_of_commit_do_not_mention_the_start_of_the_broker() -> None:
    lesson = LESSONS["commit"]
    assert [words for words in lesson.codes.values() if START.search(words)] == []
