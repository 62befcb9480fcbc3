"""Every verb, to a pipe, to a terminal and as JSON: one object, and no colour where none is
wanted.
"""

from __future__ import annotations

import json
import os
import pty
import re
import threading
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.pages import run_here, run_over
from tests.spark.runs import NOW
from tests.unit.cli.test_help import VERBS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
TOPICS = ["--topic-configs", str(TOPIC_CONFIGS), "--now", str(NOW)]


@pytest.fixture(scope="module")
def commands(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """By verb, one that ends well: over the smallest log directory that each has something to say
    of.
    """
    place = tmp_path_factory.mktemp("every-verb")
    log_dir = str(copy_log_dir("clean", place / "kafka", only=["c-tomb-0"]))
    ledger = ["--ledger", str(place / "ledger")]
    (place / "keys").write_text("k40\n", encoding="utf-8")
    assert run_here(spark, ["clean", log_dir, *TOPICS, *ledger, "--report", "none"])[0] == 0
    idle = [str(copy_log_dir("clean", place / "idle", only=["c-tomb-0"])), "--only", "retention"]
    out = ["--out", str(place / "plan.json")]
    assert run_here(spark, ["plan", *idle, *TOPICS, "--no-ledger", *out])[0] == 0
    commands = {
        "apply": ["apply", str(place / "plan.json"), "--no-ledger", "--report", "none"],
        "clean": ["clean", log_dir, *TOPICS, "--no-ledger", "--report", "none"],
        "commit": ["commit", log_dir],
        "demo": ["demo"],
        "doctor": ["doctor", log_dir, *TOPICS],
        "erase": ["erase", log_dir, "--keys", str(place / "keys"), "--dry-run"],
        "explain": ["explain", log_dir, "--partition", "c-tomb-0", *TOPICS],
        "history": ["history", *ledger],
        "inspect": ["inspect", log_dir],
        "package": ["package", "--output", str(place / "winnow.tar.gz")],
        "plan": ["plan", log_dir, *TOPICS],
        "prepare": ["prepare", log_dir, *TOPICS, "--keep-free", "0"],
        "recover": ["recover", log_dir],
        "set-up": ["set-up"],
        "verify": ["verify", log_dir],
    }
    assert sorted(commands) == sorted(VERBS), "each verb needs a command here"
    return commands


@pytest.mark.parametrize("verb", VERBS)
def test_json_output_is_one_object(
    verb: str, spark: SparkSession, commands: dict[str, list[str]]
) -> None:
    code, out, err = run_here(spark, [*commands[verb], "--json"])
    assert (code, type(json.loads(out))) == (0, dict)
    assert "\x1b" not in out + err


@pytest.mark.parametrize("verb", sorted({*VERBS} - {"demo", "package", "set-up"}))
def test_no_color_variable_disables_colour(
    verb: str, spark: SparkSession, commands: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    code, shown = on_a_terminal(spark, commands[verb])
    assert (code, bool(shown)) == (0, True)
    assert COLOUR.findall(shown) == []


@pytest.mark.parametrize("verb", ["doctor", "plan", "verify"])
def test_dumb_terminal_gets_no_control_codes(
    verb: str, spark: SparkSession, commands: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    code, shown = on_a_terminal(spark, commands[verb])
    assert (code, "\x1b" in shown) == (0, False)


def on_a_terminal(spark: SparkSession, words: list[str]) -> tuple[int, str]:
    """Exit code, and all that a terminal gets."""
    ours, theirs = pty.openpty()
    pieces: list[bytes] = []

    def read() -> None:
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                return
            if not piece:
                return
            pieces.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(theirs, "w") as terminal, redirect_stdout(terminal), redirect_stderr(terminal):
        code = run_over(spark, words)
    reader.join()
    os.close(ours)
    return code, b"".join(pieces).decode()
