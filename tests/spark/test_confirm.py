"""Options that delete more than a topic's own settings: asked for on a terminal, --yes elsewhere
(decision 47). A pseudo-terminal is the terminal.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures.data import TOPIC_CONFIGS
from tests.spark.runs import add_partition, changes, files_of, new_log_dir

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
NOW = "1795300000000"
MORE = "d-size:retention.bytes=1000"
WAIT_S = 240


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = new_log_dir(tmp_path / "d")
    add_partition(path, "d-size-0", "d-size-0")
    return path


def command(log_dir: Path, verb: str = "clean", *more: str) -> list[str]:
    return [
        *(sys.executable, "jobs/winnow_job.py", verb, str(log_dir), "--now", NOW),
        *("--topic-configs", str(TOPIC_CONFIGS), "--topic-set", MORE),
        *more,
    ]


def on_a_terminal(words: list[str], answer: str, *, until: str = "go on:") -> tuple[int, str]:
    """Run on a terminal of its own and type `answer` when `until` is shown. Returns the exit code
    and all that was shown.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.execv(words[0], words)  # noqa: S606 - a shell would quote the words
    shown, answered, deadline = "", False, time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the terminal's last process has ended
                break
            shown += data.decode(errors="replace")
        if not answered and until in shown:
            os.write(terminal, answer.encode())
            answered = True
    else:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert answered, shown[-3000:]
    return os.waitstatus_to_exitcode(status), shown


def without_terminal(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False,
        start_new_session=True,
    )  # fmt: skip


def test_without_a_terminal_it_needs_yes(log_dir: Path) -> None:
    before = files_of(log_dir)
    ended = without_terminal(command(log_dir, "clean", "--no-ledger", "--report", "none"))
    assert ended.returncode == 2, ended.stderr[-2000:]
    assert "d-size: retention.bytes=1000 instead of 200000" in ended.stderr
    assert "--yes" in ended.stderr
    assert changes(before, files_of(log_dir)) == []
    planned = without_terminal(command(log_dir, "plan"))
    assert planned.returncode == 0, planned.stderr[-2000:]
    assert "Options delete more than the topics' own settings" in planned.stdout
    done = without_terminal(
        command(log_dir, "clean", "--no-ledger", "--report", "none", "--yes", "--json")
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (partition,) = json.loads(done.stdout)["partitions"]
    assert partition["deletes_more"] == ["retention.bytes=1000 instead of 200000"]
    assert partition["actions"] == ["retained"]


@pytest.mark.parametrize(
    ("answer", "code"), [("d-size\n", 0), ("yes\n", 2), ("\x03", 130), ("\x04", 2)]
)
def test_typed_name_of_the_topic_confirms(log_dir: Path, answer: str, code: int) -> None:
    before = files_of(log_dir)
    words = command(log_dir, "clean", "--no-ledger", "--report", "none")
    ended, shown = on_a_terminal(words, answer)
    assert ended == code, shown[-3000:]
    assert "retention.bytes=1000 instead of 200000" in shown
    assert bool(changes(before, files_of(log_dir))) == (code == 0)
