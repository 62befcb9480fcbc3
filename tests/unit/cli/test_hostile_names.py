"""Names and values from files: a terminal obeys none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.cli.main import run
from winnow.cli.run import complain
from winnow.words import printable

OSC = "\x1b]0;title\x07"


def test_control_characters_and_what_is_no_character_are_shown_as_escapes() -> None:
    assert printable(f"a{OSC}\r\udcff\u202e\nb\u00e9") == "a\\x1b]0;title\\x07\\r\\udcff\\u202e\nb\u00e9"


def test_a_complaint(capsys: pytest.CaptureFixture[str]) -> None:
    complain(f"{OSC}-0 is left alone")
    assert capsys.readouterr().err == "winnow: \\x1b]0;title\\x07-0 is left alone\n"


def test_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id=c\nx=\\u001b]0;{OSC}\n")
    (tmp_path / "replication-offset-checkpoint").write_bytes(f"0\n1\n{OSC} 0 1\n".encode())
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {OSC}\n")
    (partition / f"{OSC}.log").write_bytes(b"")
    for path in (tmp_path, partition / "partition.metadata", tmp_path / "meta.properties"):
        run(["inspect", str(path)])
        out = capsys.readouterr().out
        assert "\\x1b" in out
        assert printable(out) == out
