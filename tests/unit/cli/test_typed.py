"""Arguments that Java has changed are those that were typed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from winnow.cli.main import typed_arguments

TYPED = ["plan", os.fsdecode(b"/k\xff"), "--now", "1"]
THROUGH_JAVA = ["plan", "/k\ufffd", "--now", "1"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINNOW_RUN_DIR", str(tmp_path))
    keep(tmp_path, TYPED)
    return tmp_path


def keep(place: Path, words: list[str]) -> None:
    (place / "arguments").write_bytes(b"".join(os.fsencode(one) + b"\0" for one in words))


def test_bytes_that_are_not_utf8_are_kept(place: Path) -> None:
    assert typed_arguments(THROUGH_JAVA) == TYPED
    (place / "arguments").unlink()
    assert typed_arguments(THROUGH_JAVA) == THROUGH_JAVA


@pytest.mark.parametrize(
    "other", [["plan", *TYPED[2:]], ["clean", *TYPED[1:]], [], ["plan", "/k", "--now", "2"]]
)
def test_arguments_of_another_run_are_not_used(place: Path, other: list[str]) -> None:
    keep(place, other)
    assert typed_arguments(THROUGH_JAVA) == THROUGH_JAVA


def test_arguments_that_java_kept_are_not_looked_up(place: Path) -> None:
    keep(place, ["plan", "/x", "--now", "1"])
    assert typed_arguments(["plan", "/k", "--now", "1"]) == ["plan", "/k", "--now", "1"]
