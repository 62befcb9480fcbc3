"""A file of `--config` that somebody else wrote costs a sentence, little time and little memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from winnow.cli.line.config import MOST_BYTES, MOST_DOTS
from winnow.cli.main import run

SECONDS = 20
"""Of this process, far more than each takes."""
MIB = 1 << 20
HOSTILE = {
    "a text without an end": "a = " + "." * 17 + '\\"' * 500_000,
    "a key with many dots": "a." * 500_000 + "b = 1",
    "a table with many dots": "[" + "a." * 500_000 + "b]",
    "many keys with dots": "\n".join("a." * 500 + f"b{n} = 1" for n in range(1000)),
    "dots after a text with a quote": '"\\"".' + "a." * 500_000 + '"\\"" = 1',
    "dots after a literal text": "'\"'." + "a." * 500_000 + "'\"' = 1",
    "dots in a table inside": "x = {" + "a." * 500_000 + "b = 1}",
    "lists in each other": "x = " + "[" * 500_000 + "]" * 500_000,
    "tables in each other": "x = " + "{a = " * 100_000 + "1" + "}" * 100_000,
    "a long key": "k" * 1_000_000 + " = 1",
    "a long option": '"' + "throttle" * 125_000 + '" = 1',
    "many keys": "\n".join(f"k{n} = 1" for n in range(80_000)),
    "many environments": "\n".join(f"[environment.e{n}]\nquiet = 7" for n in range(30_000)),
    "a long integer": "throttle = " + "9" * 1_000_000,
    "a long hexadecimal integer": "throttle = 0x" + "f" * 1_000_000,
    "such an integer for a switch": "quiet = 0x" + "f" * 1_000_000,
    "a fraction without end": "throttle = 1e400",
    "not a number": "throttle = nan",
    "a long value": 'throttle = "' + "1" * 1_000_000 + '"',
    "a long time": '[clean]\ntimeout = "' + "1" * 1_000_000 + '"',
    "a value that controls a terminal": 'throttle = "\\u001b[2J"',
    "half a character": 'throttle = "\\ud800"',
    "a text without end": 'throttle = """' + "\n" * 1_000_000,
    "a key twice": "throttle = '1MiB'\nthrottle = '1MiB'",
    "too large": "#" * (MOST_BYTES + 1),
    "other bytes": "\udcff\udcfe",
}


def refused(capsys: pytest.CaptureFixture[str], file: Path | str) -> str:
    began = time.process_time()
    assert run(["plan", "/nowhere", "--config", str(file)]) == 2
    assert time.process_time() - began < SECONDS
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert "unexpected" not in error
    assert "\x1b" not in error
    assert len(error) < 12_000
    return error


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_file_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "winnow.toml"
    file.write_bytes(HOSTILE[name].encode(errors="surrogateescape"))
    assert "no such directory" not in refused(capsys, file)


def test_what_is_no_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe, large, loop = tmp_path / "pipe", tmp_path / "large", tmp_path / "loop"
    os.mkfifo(pipe)
    large.touch()
    os.truncate(large, 60 << 30)
    loop.symlink_to(loop)
    for file in (pipe, large, loop, tmp_path, tmp_path / "gone", "/dev/zero", "/proc/self/mem"):
        assert "the configuration can't be read" in refused(capsys, file)


def test_dots_in_texts_are_no_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "winnow.toml"
    file.write_text(f"topics = ['{'a.' * MOST_DOTS}', \"{'b.' * MOST_DOTS}\"]\n")
    assert run(["plan", "/nowhere", "--config", str(file)]) == 2
    assert "no such directory" in capsys.readouterr().err
