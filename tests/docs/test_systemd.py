"""The units of examples/systemd, and `lib/commit-before-start.sh`, which a broker waits for.

The command lines of the units run as printed, with systemd's environment, on a real preparation.
"""

from __future__ import annotations

import configparser
import json
import os
import shlex
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.lock_holder import broker
from tests.pages import DOCS, LOG_DIR, ROOT, blocks
from tests.spark.preparing import staged
from tests.spark.runs import files_of

UNITS = ROOT / "examples" / "systemd"
SERVICE, TIMER = "winnow-prepare.service", "winnow-prepare.timer"
DROP_IN = "kafka.service.d/winnow.conf"
SCRIPT = "commit-before-start.sh"
HOME = "/opt/winnow"
PARTITION = "c-tomb-0"


def section(file: str, name: str) -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((UNITS / file).read_text(encoding="utf-8"))
    return unit[name]


def here(text: str, place: Path) -> str:
    """The same with paths of the test's own."""
    for path, own in {
        LOG_DIR: f"{place}/kafka",
        "/etc/kafka": str(place),
        "/etc/winnow.toml": f"{place}/winnow.toml",
        "/var/lib/winnow": str(place),
        HOME: str(ROOT),
    }.items():
        text = text.replace(path, own)
    return text


def java_home() -> str:
    """Java may lie elsewhere than where Debian has it."""
    java = shutil.which("java")
    assert java is not None
    return str(Path(java).resolve().parent.parent)


@dataclass(frozen=True)
class Machine:
    """A broker's machine: its log directory and its file of options."""

    place: Path

    @property
    def log_dir(self) -> Path:
        return self.place / "kafka"

    def run(
        self, line: str, *, home: Path = ROOT, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        words = shlex.split(here(line.replace(HOME, str(home)), self.place))
        return subprocess.run(
            words,
            env={"PATH": f"{java_home()}/bin:/usr/bin:/bin", "LANG": "C.UTF-8"} | environment,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def start(self, *, home: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run what the drop-in runs before the broker."""
        line = section(DROP_IN, "Service")["ExecStartPre"]
        assert line.startswith("-/"), "systemd must ignore that the script is missing"
        return self.run(line[1:], home=home, **environment)

    def result(self, name: str) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.place / name).read_text(encoding="utf-8"))
        return found


@pytest.fixture(scope="module")
def prepared_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """What the service of the timer leaves, as printed, with the environment of systemd."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    copy_log_dir("clean", machine.log_dir, only=[PARTITION, "__cluster_metadata-0"])
    (machine.place / "server.properties").write_text("node.id=1\nlog.retention.hours=168\n")
    options = here((UNITS / "winnow.toml").read_text(encoding="utf-8"), machine.place)
    small_disk = options.replace("[prepare]\n", '[prepare]\nkeep-free = "0"\n')
    (machine.place / "winnow.toml").write_text(small_disk)
    service = section(SERVICE, "Service")
    environment = dict(
        pair.split("=") for pair in here(service["Environment"], machine.place).split()
    )
    assert environment["WINNOW_SET_UP"] == "no"
    set_up = machine.run(service["ExecStartPre"].removeprefix("+"))
    assert set_up.returncode == 0, set_up.stderr
    done = machine.run(service["ExecStart"], **environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("prepare: 1 of 1 partition, ")
    assert machine.result("prepared.json")["status"] == "done"
    assert [*staged(machine.log_dir)] == [PARTITION]
    yield machine
    shutil.rmtree(machine.place)


@pytest.fixture
def machine(prepared_machine: Machine, tmp_path: Path) -> Machine:
    """A machine of its own, with the same preparation."""
    own = Machine(tmp_path)
    copy_tree(prepared_machine.log_dir, own.log_dir)
    options = (prepared_machine.place / "winnow.toml").read_text(encoding="utf-8")
    (tmp_path / "winnow.toml").write_text(
        options.replace(str(prepared_machine.place), str(tmp_path))
    )
    shutil.copy(prepared_machine.place / "server.properties", tmp_path)
    return own


def log_of(machine: Machine) -> dict[str, object]:
    """The files of the log, without preparations."""
    return {
        name: file for name, file in files_of(machine.log_dir).items() if ".winnow-" not in name
    }


def forget_settings(machine: Machine) -> None:
    """The preparation names its file of settings, which is in another place here."""
    for staging in staged(machine.log_dir)[PARTITION]:
        file = staging / "prepared.json"
        value = json.loads(file.read_text(encoding="utf-8"))
        value["asked"]["server_properties"] = [str(machine.place / "server.properties")]
        file.write_text(json.dumps(value), encoding="utf-8")


def test_start_of_the_broker_commits_what_is_prepared(machine: Machine) -> None:
    before = log_of(machine)
    forget_settings(machine)
    done = machine.start()
    assert (done.returncode, "the commit" in done.stderr) == (0, False), done.stderr
    assert done.stdout.startswith("commit: 1 of 1 partition, ")
    assert machine.result("committed.json")["exit_code"] == 0
    assert log_of(machine) != before
    assert not staged(machine.log_dir)
    after = log_of(machine)
    again = machine.start()  # without a preparation
    assert (again.returncode, "the commit" in again.stderr) == (0, False)
    assert log_of(machine) == after


def cut(machine: Machine) -> None:
    [staging] = staged(machine.log_dir)[PARTITION]
    file = staging / "prepared.json"
    file.write_bytes(file.read_bytes()[:100])


def flip(machine: Machine) -> None:
    forget_settings(machine)
    [staging] = staged(machine.log_dir)[PARTITION]
    file = max(staging.iterdir(), key=lambda one: (one.name != "prepared.json", one.stat().st_size))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    file.write_bytes(data)


def other_options(machine: Machine) -> None:
    (machine.place / "winnow.toml").write_text("[commit]\nnonsense = 1\n")


def no_options(machine: Machine) -> None:
    (machine.place / "winnow.toml").unlink()


def no_log_dir(machine: Machine) -> None:
    machine.log_dir.rename(machine.place / "moved")
    machine.log_dir.mkdir()


@pytest.mark.parametrize(
    ("change", "code", "line"),
    [
        (cut, 3, "the commit left preparations out"),
        (flip, 3, "the commit left preparations out"),
        (other_options, 2, "the commit failed with exit code 2"),
        (no_options, 2, "the commit failed with exit code 2"),
        (no_log_dir, 2, "the commit failed with exit code 2"),
    ],
)
def test_broker_starts_on_its_log_if_nothing_can_be_committed(
    change: Callable[[Machine], None], code: int, line: str, machine: Machine
) -> None:
    change(machine)
    before = log_of(machine)
    done = machine.start()
    assert done.returncode == 0
    assert f"winnow: {line}" in done.stderr
    assert log_of(machine) == before
    if change in {cut, no_options}:
        strict = machine.start(WINNOW_START_STRICT="yes")
        assert strict.returncode == (code if code != 3 else 0)


def test_unit_does_not_touch_a_running_broker(machine: Machine) -> None:
    forget_settings(machine)
    before = log_of(machine)
    with broker(machine.log_dir):
        done = machine.start()
    assert done.returncode == 0
    assert "is in use" in done.stderr
    assert "winnow: the commit failed with exit code 5" in done.stderr
    assert log_of(machine) == before
    assert staged(machine.log_dir)


@pytest.mark.parametrize(
    ("program", "seconds", "line"),
    [
        ("trap '' TERM; while :; do sleep 0.1; done", 2, "did not end within 1 s"),
        ("exec sleep 60", 1, "did not end within 1 s"),
        ("kill -SEGV $$", 0, "failed with exit code 139"),
        (None, 0, "failed with exit code 127"),
    ],
)
def test_broker_starts_if_winnow_hangs_or_is_missing(
    program: str | None, seconds: int, line: str, machine: Machine, tmp_path: Path
) -> None:
    """Winnow is a program that hangs as asked; the script and `timeout` are real."""
    home = tmp_path / "winnow"
    (home / "lib").mkdir(parents=True)
    shutil.copy(ROOT / "lib" / SCRIPT, home / "lib")
    if program is not None:
        (home / "spark-submit.sh").write_text(f"#!/bin/bash\n{program}\n")
        (home / "spark-submit.sh").chmod(0o755)
    before = log_of(machine)
    began = time.monotonic()
    done = machine.start(home=home, WINNOW_START_LIMIT="1")
    assert seconds <= time.monotonic() - began < seconds + 5
    assert done.returncode == 0, done.stderr
    assert f"winnow: the commit {line}" in done.stderr
    assert log_of(machine) == before
    if program is None:
        assert machine.start(home=home, WINNOW_START_STRICT="yes").returncode == 127
        wrong = machine.start(home=home, WINNOW_START_LIMIT="1m")
        assert "WINNOW_START_LIMIT must be a number of seconds, not 1m" in wrong.stderr
        assert wrong.returncode == 0


def test_line_of_cron_prepares_as_the_service_does() -> None:
    [block] = blocks(DOCS / "how-to" / "schedule.md", "cron")
    *when, user, command = block.text.split(maxsplit=6)
    assert (when, user) == (["0", "1", "*", "*", "*"], section(SERVICE, "Service")["User"])
    assert shlex.split(command) == shlex.split(section(SERVICE, "Service")["ExecStart"])
    assert "%" not in command  # cron takes it for the end of the line


def test_prepared_segments_live_until_the_next_run_of_the_timer_has_ended() -> None:
    options = tomllib.loads((UNITS / "winnow.toml").read_text(encoding="utf-8"))["prepare"]
    hours = {name: int(options[name].removesuffix("h")) for name in ("max-age", "timeout")}
    delay = int(section(TIMER, "Timer")["RandomizedDelaySec"].removesuffix("h"))
    assert section(TIMER, "Timer")["OnCalendar"].startswith("*-*-* ")
    assert hours["max-age"] >= 24 + delay + hours["timeout"]
    assert hours["max-age"] / 2 <= 24 - delay, "the next run replaces all of it"
    limit = int(section(SERVICE, "Service")["TimeoutStartSec"].removesuffix("h"))
    assert limit > hours["timeout"]


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is in the Debian package systemd")
    copy_tree(UNITS, tmp_path / "units")
    units = tmp_path / "units"
    (units / "kafka.service").write_text("[Service]\nExecStart=/bin/true\n")
    for file in (units / SERVICE, units / DROP_IN):
        text = file.read_text(encoding="utf-8").replace(HOME, str(ROOT))
        file.write_text(text.replace("User=kafka", "User=root"))
    told = verify(units)
    assert "winnow" not in told, told
    for file in (units / SERVICE, units / DROP_IN):
        file.write_text(file.read_text(encoding="utf-8") + "Nonsense=1\n")
    told = verify(units)
    assert told.count("Nonsense") == 2, told


def verify(units: Path) -> str:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no"]
        + [str(units / name) for name in ("kafka.service", SERVICE, TIMER)],
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:"},
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stderr
