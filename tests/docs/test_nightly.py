"""The nightly script, the line of cron and the systemd units of docs/how-to/schedule.md.

`systemctl` is a script that records its arguments, because there is no systemd where tests run.
Everything else is real.
"""

from __future__ import annotations

import configparser
import fcntl
import json
import os
import shlex
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


def here(text: str, place: Path) -> str:
    """The same with paths of the test's own."""
    for path, own in {
        LOG_DIR: f"{place}/kafka",
        "/etc/kafka": str(place),
        "/etc/winnow.toml": f"{place}/winnow.toml",
        "/var/lib/winnow": str(place),
        "local[4]": "local[2]",
    }.items():
        text = text.replace(path, own)
    return text


@pytest.fixture
def night(tmp_path: Path) -> Night:
    [block] = blocks(PAGE, "bash")
    [options] = blocks(PAGE, "toml")
    copy_log_dir("clean", tmp_path / "kafka", only=["c-tomb-0", "__cluster_metadata-0"])
    (tmp_path / "server.properties").write_text("node.id=1\nlog.retention.hours=168\n")
    (tmp_path / "winnow.toml").write_text(here(options.text, tmp_path))
    script = tmp_path / "winnow-nightly.sh"
    script.write_text(here(block.text, tmp_path))
    script.chmod(0o755)
    (tmp_path / "bin").mkdir()
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n')
    systemctl.chmod(0o755)
    own = {
        "WINNOW_HOME": str(checkout(tmp_path)),
        "WINNOW_LOCK_DIR": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
    }
    path = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"
    return Night(tmp_path, script, os.environ | own | {"PATH": path})


def test_script_cleans_and_restarts_the_broker(night: Night) -> None:
    assert night.run() == 0
    told = json.loads((night.place / "last.json").read_text())
    assert told["status"] == "done"
    assert told["partitions"][0]["actions"] == ["compacted"]
    assert night.asked == ["stop kafka.service", "start kafka.service"]


def test_broker_starts_again_after_a_failed_cleaning(night: Night) -> None:
    (night.place / "server.properties").unlink()
    assert night.run() == 2
    assert night.asked == ["stop kafka.service", "start kafka.service"]
    told = json.loads((night.place / "last.json").read_text())
    assert (told["status"], told["exit_code"]) == ("failed", 2)


def test_broker_is_not_stopped_if_set_up_fails(night: Night) -> None:
    (night.place / "spark-submit.sh").unlink()
    (night.place / "spark-submit.sh").symlink_to("/bin/false")
    assert night.run() == 1
    assert night.asked == []


def test_second_script_at_the_same_time_exits_with_5(night: Night) -> None:
    with (night.place / "winnow-nightly.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert night.run() == 5
    assert night.asked == []


def test_broker_starts_only_after_a_stopped_cleaning_has_ended(night: Night) -> None:
    cleaning = night.place / "spark-submit.sh"
    cleaning.unlink()
    cleaning.write_text(
        "#!/bin/sh\n[ $1 = set-up ] && exit\n"
        f"trap 'sleep 0.3; echo cleaned >>{night.place}/asked; exit 3' TERM\n"
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
    assert night.asked == ["stop kafka.service", "cleaning", "cleaned", "start kafka.service"]


def test_line_of_cron_runs_with_the_environment_of_cron(night: Night) -> None:
    """By /bin/sh, with what cron sets and what the file sets, and nothing else."""
    [block] = blocks(PAGE, "cron")
    lines = here(block.text, night.place).replace("/opt/winnow/", f"{night.place}/").splitlines()
    own = dict(line.split("=", 1) for line in lines[:-1])
    minute, hour, day, month, weekday, user, command = lines[-1].split(maxsplit=6)
    assert (minute, hour, day, month, weekday, user) == ("30", "2", "*", "*", "*", "root")
    assert "%" not in command  # cron takes it for the end of the line
    own["PATH"] = f"{night.place}/bin:{java_home()}/bin:{own['PATH']}"
    own |= {name: night.environment[name] for name in ("WINNOW_HOME", "WINNOW_LOCK_DIR")}
    done = subprocess.run(
        [own["SHELL"], "-c", command],
        env={"HOME": "/root", "LOGNAME": "root"} | own,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("clean: 1 of 1 partition, ")
    assert night.asked == ["stop kafka.service", "start kafka.service"]


def java_home() -> str:
    """Java may lie elsewhere than where Debian has it."""
    java = shutil.which("java")
    assert java is not None
    return str(Path(java).resolve().parent.parent)


def units() -> dict[str, tuple[configparser.ConfigParser, str]]:
    found = {}
    for block in blocks(PAGE, "ini"):
        unit = configparser.ConfigParser(interpolation=None, strict=False)
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read_string(block.text)
        found[TIMER if "Timer" in unit else SERVICE] = (unit, block.text)
    assert set(found) == {TIMER, SERVICE}
    return found


def test_command_of_the_service_cleans_with_the_environment_of_systemd(night: Night) -> None:
    service = units()[SERVICE][0]["Service"]
    words = shlex.split(here(service["ExecStart"], night.place))
    assert words[0] == "/opt/winnow/spark-submit.sh"
    own = dict(one.split("=") for one in here(service["Environment"], night.place).split())
    assert own["WINNOW_SET_UP"] == "no"
    done = subprocess.run(
        [f"{night.environment['WINNOW_HOME']}/spark-submit.sh", *words[1:]],
        env={"PATH": f"{java_home()}/bin:/usr/bin:/bin", "LANG": "C.UTF-8"} | own,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((night.place / "last.json").read_text())["status"] == "done"


def test_script_and_service_run_the_same_command() -> None:
    [script] = blocks(PAGE, "bash")
    last = shlex.split(script.text.splitlines()[-1])
    assert last[1:] == shlex.split(units()[SERVICE][0]["Service"]["ExecStart"])[1:]


def test_systemd_units_are_valid(tmp_path: Path) -> None:
    service = units()[SERVICE][0]["Service"]
    assert service["SuccessExitStatus"] == "3"
    lines = units()[SERVICE][1].splitlines()
    set_up, stop = (line for line in lines if line.startswith("ExecStartPre="))
    assert (set_up.split()[-1], stop.split()[-2:]) == ("set-up", ["stop", "kafka.service"])
    told = PAGE.read_text(encoding="utf-8")
    assert all(f"/etc/systemd/system/{name}" in told for name in units())
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is in the Debian package systemd")
    for name, (_, text) in units().items():
        own = text.replace("/opt/winnow/spark-submit.sh", str(ROOT / "spark-submit.sh"))
        (tmp_path / name).write_text(own.replace("User=kafka", "User=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.glob("winnow-*"))],
        check=False,
        capture_output=True,
        text=True,
    )
    assert [line for line in done.stderr.splitlines() if "winnow-nightly" in line] == []
    assert done.returncode == 0, done.stderr
    (tmp_path / SERVICE).write_text((tmp_path / SERVICE).read_text() + "Nonsense=1\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / SERVICE],
        check=False,
        capture_output=True,
        text=True,
    )
    assert "Nonsense" in done.stderr
