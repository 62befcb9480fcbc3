"""What the person on call does: `doctor`, then what it prints, word for word."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.disks import BALLAST
from tests.kafka.dead_broker.full_disk import Dead
from tests.kafka.judge.jars import PROJECT
from tests.session import verbs_use
from winnow.cli.main import run as run_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMAND = "./spark-submit.sh"
DONE = (0, 3)
"""Exit codes after which the page about full disks says: start the broker."""


@dataclass(frozen=True, slots=True)
class Answer:
    command: str
    code: int
    out: str

    def __str__(self) -> str:
        return f"$ {self.command}\n{self.out}\nexit code {self.code}\n"


Run = Callable[[str], Answer]


def by_script(state: Path) -> Run:
    """Run the real command. Its history is written to `state`."""

    def run(command: str) -> Answer:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=PROJECT,
            env=os.environ | {"XDG_STATE_HOME": str(state)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        return Answer(command, done.returncode, done.stdout)

    return run


def in_this_process(spark: SparkSession) -> Run:
    """Run the command's entry point, over a session that is there already."""

    def run(command: str) -> Answer:
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(io.StringIO()) as said,
            redirect_stderr(said),
        ):
            verbs_use(spark, patch)
            code = run_command(words(command), program=COMMAND)
        return Answer(command, code, said.getvalue())

    return run


def doctor(dead: Dead) -> str:
    """The first line of the page about full disks."""
    properties = dead.broker.home / "server.properties"
    directories = " ".join(map(str, dead.log_dirs))
    return f"{COMMAND} doctor {directories} --server-properties {properties} --all"


def printed_commands(page: str) -> list[str]:
    return [line.strip() for line in page.splitlines() if line.strip().startswith(COMMAND)]


def follow(dead: Dead, run: Run) -> Sequence[Answer]:
    """Run `doctor` and each command it prints, in that order."""
    page = run(doctor(dead))
    return [page, *(run(command) for command in printed_commands(page.out))]


def make_ready(dead: Dead, run: Run) -> Answer:
    """Return the page of `doctor`, after what it says is to be done without a command: a file that
    is no part of a log is moved, so that a lock can be made, and of two directories of a partition
    the one that the controller does not mean.
    """
    page = run(doctor(dead))
    said = " ".join(page.out.split())
    ballast, elsewhere = dead.log_dirs[-1].parent / BALLAST, dead.broker.home / "moved"
    if "make room for" in said:
        os.truncate(ballast, ballast.stat().st_size - 2**20)
    for meant in set(re.findall(r"The controller means (\S+): the metadata log", said)):
        for log_dir in dead.log_dirs:
            other = log_dir / Path(meant).name
            if other.exists() and str(other) != meant:
                elsewhere.mkdir(exist_ok=True)
                shutil.move(other, elsewhere / other.name)
    return page


def words(command: str) -> list[str]:
    """Of a printed command, without the script."""
    return shlex.split(command)[1:]
