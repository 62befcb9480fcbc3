"""With --json, every verb prints exactly one object to stdout, whatever fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.test_help import VERBS
from winnow.cli.main import run

WRONG = {verb: ["/no/such/place"] for verb in VERBS} | {
    "demo": ["--nonsense"],
    "explain": ["/no/such/place", "--partition", "t-0"],
    "history": ["--since", "yesterday"],
    "package": ["--output", "/no/such/place/winnow.tar.gz"],
    "set-up": ["--nonsense"],
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("words", [["--nonsense"], []])
def test_failure_with_json_is_one_object(
    verb: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, *WRONG[verb], *words, "--json"]) == 2
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["status"], bool(told["error"])) == ("failed", True)
    assert told["error"] in " ".join(err.split())


@pytest.mark.parametrize("verb", VERBS)
def test_failure_without_json_is_only_on_stderr(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.replace("/no/such/place", str(tmp_path / "gone")) for word in WRONG[verb]]
    assert run([verb, *words]) == 2
    out, err = capsys.readouterr()
    assert (out, "\x1b" in err) == ("", False)
    assert err
