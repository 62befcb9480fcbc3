"""What ends a run of examples/rolling, and what it leaves. A real cluster is cleaned by
`tests/kafka/live/test_rolling.py`; here the functions that ask the cluster are replaced, as a user
may replace them, and the commands note that they ran.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.pages import ROOT

pytest.importorskip("confluent_kafka", reason="examples/rolling/requirements.txt")

EXAMPLE = ROOT / "examples" / "rolling"
PROGRAM = """
import pathlib, sys
sys.path.insert(0, {example!r})
import rolling
place = pathlib.Path({place!r})
rolling.LOOKS = 1
rolling.connect = lambda plan: None
rolling.not_in_sync = lambda admin, plan, stopping=None: (
    ["c-0 is under-replicated"] if (place / f"not-{{stopping}}").exists() else []
)
sys.exit(rolling.main())
"""
ALL = ["prepare 1", "prepare 2", *(f"{s} {b}" for b in (1, 2) for s in ("stop", "commit", "start"))]


@dataclass(frozen=True)
class Cluster:
    place: Path

    def write(self, limit: float = 60, **commands: str) -> None:
        lines = "".join(
            f"{step} = {json.dumps(f'echo {step} {{id}} >>{self.place}/ran; ' + more)}\n"
            for step in ("prepare", "stop", "commit", "start")
            for more in [commands.get(step, "true")]
        )
        (self.place / "rolling.toml").write_text(
            'bootstrap = "b"\nbrokers = [{ id = 1, name = "one" }, { id = 2, name = "two" }]\n'
            f'state = "{self.place}/state.json"\nlimit = {limit}\n'
            f"prepare_limit = 60\nprepare_at_once = 1\n[commands]\n{lines}"
        )

    def begin(self, *options: str) -> subprocess.Popen[str]:
        program = PROGRAM.format(example=str(EXAMPLE), place=str(self.place))
        return subprocess.Popen(
            [sys.executable, "-c", program, str(self.place / "rolling.toml"), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *options: str) -> tuple[int, str]:
        with self.begin(*options) as process:
            said = process.communicate(timeout=60)[0]
        return process.returncode, said

    @property
    def ran(self) -> list[str]:
        file = self.place / "ran"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def state(self) -> dict[str, str] | None:
        file = self.place / "state.json"
        return json.loads(file.read_text()) if file.exists() else None

    def wait_for(self, line: str) -> None:
        while line not in self.ran:
            time.sleep(0.02)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_all_brokers_are_cleaned_one_after_the_other(cluster: Cluster) -> None:
    cluster.write(prepare="exit 3", commit="exit 3")
    code, said = cluster.run("--dry-run")
    assert (code, cluster.ran) == (0, []), said
    assert [said.count(f"echo {step} ") for step in ("prepare", "stop", "start")] == [2, 2, 2]
    code, said = cluster.run()
    assert code == 0, said
    assert cluster.ran == ALL
    assert cluster.state is None


@pytest.mark.parametrize(
    ("commands", "ran", "words", "state"),
    [
        ({"prepare": "exit 1"}, ALL[:1], "one: prepare ended with exit code 1", None),
        (
            {"stop": "exit 1"},
            [*ALL[:3], "start 1"],
            "one: stop ended with exit code 1",
            {"1": "started"},
        ),
        ({"commit": "exit 5"}, ALL[:5], "one: commit ended with exit code 5", {"1": "started"}),
        ({"commit": "sleep 50"}, ALL[:5], "one: commit did not end within", {"1": "started"}),
        ({"start": "exit 1"}, ALL[:5], "one MAY BE STOPPED: start it", {"1": "stopped"}),
    ],
)
def test_first_step_that_fails_ends_the_run_and_the_next_run_goes_on(
    commands: dict[str, str],
    ran: list[str],
    words: str,
    state: dict[str, str] | None,
    cluster: Cluster,
) -> None:
    cluster.write(limit=1.5, **commands)
    code, said = cluster.run()
    assert code == 1
    assert words in said
    assert cluster.ran == ran
    assert cluster.state == state
    cluster.write()
    (cluster.place / "ran").unlink()
    code, said = cluster.run()
    assert code == 0, said
    first = ["start 1"] if state == {"1": "stopped"} else []
    assert cluster.ran == [*first, *ALL]


def test_no_broker_is_stopped_while_partitions_are_not_in_sync(cluster: Cluster) -> None:
    cluster.write()
    (cluster.place / "not-2").touch()
    code, said = cluster.run()
    assert code == 1
    assert "two is not stopped: c-0 is under-replicated" in said
    assert cluster.ran == ALL[:5]
    assert cluster.state == {"1": "done"}
    code, said = cluster.run("--allow-unavailable")
    assert code == 0, said
    assert cluster.ran[5:] == ["prepare 2", "stop 2", "commit 2", "start 2"]
    (cluster.place / "not-None").touch()
    code, said = cluster.run()
    assert code == 1
    assert "nothing was begun: c-0 is under-replicated" in said


@pytest.mark.parametrize(
    ("end", "state", "after"),
    [
        (subprocess.Popen.terminate, {"1": "started"}, ["start 1"]),
        (lambda process: process.send_signal(signal.SIGINT), {"1": "started"}, ["start 1"]),
        (subprocess.Popen.kill, {"1": "stopped"}, []),
    ],
)
def test_broker_that_was_stopped_is_started_after_a_signal_or_by_the_next_run(
    end: Callable[[subprocess.Popen[str]], None],
    state: dict[str, str],
    after: list[str],
    cluster: Cluster,
) -> None:
    cluster.write(commit="exec sleep 4")
    with cluster.begin() as process:
        cluster.wait_for("commit 1")
        busy = cluster.run()
        assert (busy[0], "another run uses" in busy[1]) == (1, True)
        end(process)
        process.communicate(timeout=30)
    assert process.returncode != 0
    assert cluster.ran == [*ALL[:4], *after]
    assert cluster.state == state
    cluster.write()
    (cluster.place / "ran").unlink()
    code, said = cluster.run()
    assert code == 0, said
    assert cluster.ran == [*([] if after else ["start 1"]), *ALL]


def test_file_that_is_no_plan_is_refused(cluster: Cluster) -> None:
    cluster.write()
    file = cluster.place / "rolling.toml"
    file.write_text(file.read_text().replace("stop = ", "halt = "))
    code, said = cluster.run()
    assert code == 2
    assert "[commands] lacks stop" in said
