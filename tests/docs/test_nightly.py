"""The nightly script and the systemd units of docs/how-to/schedule.md.

`systemctl` is a script that records its arguments, because there is no systemd where tests run.
Everything else is real.
"""

from __future__ import annotations

import configparser
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir
from tests.pages import DOCS, LOG_DIR, ROOT, blocks, checkout

PAGE = DOCS / "how-to" / "schedule.md"
TIMER, SERVICE = "winnow-nightly.timer", "winnow-nightly.service"


@dataclass(frozen=True)
class Night:
    place: Path
    script: Path
    environment: dict[str, str]

    def run(self) -> int:
        done = subprocess.run(
            ["bash", self.script], check=False, env=self.environment, capture_output=True, text=True
        )
        return done.returncode

    @property
    def asked(self) -> list[str]:
        """The arguments of each call of systemctl."""
        notes = self.place / "asked"
        return notes.read_text().splitlines() if notes.exists() else []


@pytest.fixture
def night(tmp_path: Path) -> Night:
    [block] = blocks(PAGE, "bash")
    log_dir = copy_log_dir("clean", tmp_path / "kafka", only=["c-tomb-0", "__cluster_metadata-0"])
    (tmp_path / "server.properties").write_text("log.retention.hours=168\n")
    script = tmp_path / "winnow-nightly.sh"
    script.write_text(
        block.text.replace(LOG_DIR, str(log_dir))
        .replace("/etc/kafka", str(tmp_path))
        .replace("local[4]", "local[2]")
    )
    (tmp_path / "bin").mkdir()
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n')
    systemctl.chmod(0o755)
    own = {
        "WINNOW_HOME": str(checkout(tmp_path)),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
    }
    path = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"
    return Night(tmp_path, script, os.environ | own | {"PATH": path})


def test_script_cleans_and_restarts_the_broker(night: Night) -> None:
    assert night.run() == 0
    told = json.loads((night.place / "winnow-nightly.json").read_text())
    assert told["status"] == "done"
    assert told["partitions"][0]["actions"] == ["compacted"]
    assert night.asked == ["stop kafka", "start kafka"]


def test_broker_starts_again_after_a_failed_cleaning(night: Night) -> None:
    (night.place / "server.properties").unlink()
    assert night.run() == 2
    assert night.asked == ["stop kafka", "start kafka"]
    assert json.loads((night.place / "winnow-nightly.json").read_text())["status"] == "failed"


def test_second_script_at_the_same_time_exits_with_5(night: Night) -> None:
    with (night.place / "winnow-nightly.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert night.run() == 5
    assert night.asked == []


def test_broker_starts_only_after_a_stopped_cleaning_has_ended(night: Night) -> None:
    cleaning = night.place / "spark-submit.sh"
    cleaning.unlink()
    cleaning.write_text(
        f"#!/bin/sh\ntrap 'sleep 0.3; echo cleaned >>{night.place}/asked; exit 3' TERM\n"
        f"echo cleaning >>{night.place}/asked\nwhile :; do sleep 0.05; done\n"
    )
    cleaning.chmod(0o755)
    with subprocess.Popen(
        ["bash", night.script], env=night.environment, start_new_session=True
    ) as running:
        while "cleaning" not in night.asked:
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGTERM)  # as systemd does it
        assert running.wait(timeout=30) == 3
    assert night.asked == ["stop kafka", "cleaning", "cleaned", "start kafka"]


def test_systemd_units_are_valid(tmp_path: Path) -> None:
    units = {}
    for block in blocks(PAGE, "ini"):
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read_string(block.text)
        units[TIMER if "Timer" in unit else SERVICE] = (unit, block.text)
    assert set(units) == {TIMER, SERVICE}
    script = units[SERVICE][0]["Service"]["ExecStart"]
    assert units[SERVICE][0]["Service"]["SuccessExitStatus"] == "3"
    assert all(f"/etc/systemd/system/{name}" in PAGE.read_text(encoding="utf-8") for name in units)
    if shutil.which("systemd-analyze") is None:
        return
    for name, (_, text) in units.items():
        own = text.replace(script, str(ROOT / "spark-submit.sh")).replace("User=kafka", "User=root")
        (tmp_path / name).write_text(own.replace("After=kafka.service\n", ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.glob("winnow-*"))],
        check=False,
        capture_output=True,
        text=True,
    )
    assert [line for line in done.stderr.splitlines() if "winnow-nightly" in line] == []
