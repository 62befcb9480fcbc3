"""The processes of a run as Linux lists them: the JVM, the driver, Spark's daemons and workers, and
executors.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
DAEMON = "winnow.worker.daemon"
STANDBY = "winnow.worker.standby"
"""Forks the workers of a run on this machine alone."""
JOB = "winnow_job.py"
EXECUTOR = "CoarseGrainedExecutorBackend"
GONE_SECONDS = 30
"""By then no process of a killed run may be alive."""


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    command: str


class Run:
    """`./spark-submit.sh clean` in a session of its own; none of its processes leaves that."""

    def __init__(self, arguments: list[str], *, output: IO[bytes]) -> None:
        self._process = subprocess.Popen(
            [ROOT / "spark-submit.sh", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.started = time.monotonic()

    @property
    def pid(self) -> int:
        """Of the JVM: the script and spark-submit become it."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self, *, timeout_seconds: float) -> int:
        return self._process.wait(timeout_seconds)

    def processes(self) -> list[Process]:
        """Those alive."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                status = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                command = (
                    Path(f"/proc/{name}/cmdline").read_text(errors="replace").replace("\0", " ")
                )
            except (OSError, IndexError):
                continue
            if int(status[3]) == self.pid and status[0] != "Z":
                found.append(Process(int(name), int(status[1]), command))
        return found

    def drivers(self) -> list[Process]:
        return [
            one
            for one in self.processes()
            if one.parent == self.pid
            and JOB in one.command
            and "java" not in one.command.split()[0]
        ]

    def executors(self) -> list[Process]:
        return [one for one in self.processes() if EXECUTOR in one.command]

    def workers(self) -> list[Process]:
        """Forked by a daemon, which is a child of a JVM or was on standby while it started."""
        python = {
            one.pid: one
            for one in self.processes()
            if (DAEMON in one.command or STANDBY in one.command) and JOB not in one.command
        }
        return [one for one in python.values() if one.parent in python]

    def kill_all(self) -> None:
        """As `kill -9 -PGID`: the JVM and the driver. Spark's daemon has made itself a group of its
        own.
        """
        os.killpg(self.pid, signal.SIGKILL)

    def wait_until_gone(self) -> float:
        """Seconds until the last process had ended."""
        began = time.monotonic()
        while left := self.processes():
            self._process.poll()
            if time.monotonic() - began > GONE_SECONDS:
                raise AssertionError(f"still alive {GONE_SECONDS} s after the kill: {left}")
            time.sleep(0.05)
        self._process.wait(5)
        return time.monotonic() - began
