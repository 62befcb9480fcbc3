"""A worker daemon on standby, with the real processes: the one that has loaded everything, the one
that Spark starts, and a worker that is forked.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from winnow.worker import standby

SECONDS = 60
OF_SPARK = {
    "PYTHON_UNIX_DOMAIN_ENABLED": "true",
    "SPARK_REUSE_WORKER": "1",
    "PYTHONUNBUFFERED": "YES",
    "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
}
"""Variables that Spark sets for its daemon."""


class Spark:
    """Starts both processes as Spark and spark-submit.sh do, and asks the daemon for a worker."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory, self.stack = directory, stack
        self.socket = directory / "standby"
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": ":".join(sys.path),
            standby.VARIABLE: str(self.socket),
            **standby.AS_SPARK_SETS,
        }

    def start(self, *command: str, **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=self.environment | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.stack.callback(end, process)
        return process

    def standby(self, **variables: str) -> subprocess.Popen[bytes]:
        process = self.start("winnow.worker.standby", **variables)
        until(self.socket.exists)
        return process

    def daemon(self, **variables: str) -> subprocess.Popen[bytes]:
        return self.start(
            "winnow.worker.daemon",
            "pyspark.worker",
            PYTHON_WORKER_FACTORY_SOCK_DIR=str(self.directory),
            **OF_SPARK,
            **variables,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        stream.close()


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {true}"
        time.sleep(0.01)


def forked_by(daemon: subprocess.Popen[bytes]) -> int:
    """Return the process that forks a worker when the daemon is asked for one."""
    assert daemon.stdout is not None
    (size,) = struct.unpack("!i", daemon.stdout.read(4))
    with socket.socket(socket.AF_UNIX) as to_worker:
        to_worker.connect(daemon.stdout.read(size))
        (worker,) = struct.unpack("!i", to_worker.recv(4, socket.MSG_WAITALL))
        return parent_of(worker)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    with ExitStack() as stack:
        directory = tmp_path_factory.mktemp("s")
        yield Spark(directory, stack)


def test_it_forks_the_workers_of_the_daemon_that_spark_starts(spark: Spark) -> None:
    waiting = spark.standby()
    daemon = spark.daemon()
    assert forked_by(daemon) == waiting.pid
    assert not spark.socket.exists()  # a second daemon serves itself


def test_both_end_when_spark_closes_the_daemons_input(spark: Spark) -> None:
    waiting = spark.standby()
    daemon = spark.daemon()
    forked_by(daemon)
    daemon.stdin.close()
    assert daemon.wait(SECONDS) == 0
    waiting.wait(SECONDS)


def test_both_end_when_java_destroys_the_daemon(spark: Spark) -> None:
    waiting = spark.standby()
    daemon = spark.daemon()
    forked_by(daemon)
    daemon.terminate()
    daemon.stdin.close()
    assert daemon.wait(SECONDS) == -signal.SIGTERM
    waiting.wait(SECONDS)


def test_the_daemon_ends_when_its_stand_in_is_killed(spark: Spark) -> None:
    """So that Spark starts another one."""
    waiting = spark.standby()
    daemon = spark.daemon()
    forked_by(daemon)
    waiting.kill()
    assert daemon.wait(SECONDS) == 0


def test_it_ends_with_spark_if_no_daemon_asked(spark: Spark) -> None:
    waiting = spark.standby()
    waiting.stdin.close()
    assert waiting.wait(SECONDS) == 0


@pytest.mark.parametrize("variable", ["OMP_NUM_THREADS", "PYTHONHASHSEED", "TZ"])
def test_a_daemon_with_another_environment_forks_its_own_workers(
    spark: Spark, variable: str
) -> None:
    waiting = spark.standby()
    daemon = spark.daemon(**{variable: "7"})
    assert forked_by(daemon) == daemon.pid
    assert waiting.wait(SECONDS) == 0


def test_a_daemon_with_another_module_path_forks_its_own_workers(
    spark: Spark, tmp_path: Path
) -> None:
    waiting = spark.standby()
    daemon = spark.daemon(PYTHONPATH=f"{':'.join(sys.path)}:{tmp_path}")
    assert forked_by(daemon) == daemon.pid
    assert waiting.wait(SECONDS) == 0


def test_a_daemon_forks_its_own_workers_if_the_one_on_standby_was_killed(spark: Spark) -> None:
    end(spark.standby())
    daemon = spark.daemon()
    assert forked_by(daemon) == daemon.pid


def test_it_leaves_compiling_to_others(spark: Spark) -> None:
    waiting = spark.standby(NUMBA_CPU_FEATURES="+none-that-kernels-are-kept-for")
    assert waiting.wait(SECONDS) == 0


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("gone")])
def test_what_is_no_socket_is_not_asked(spark: Spark, make: Callable[[Path], object]) -> None:
    make(spark.socket)
    daemon = spark.daemon()
    assert forked_by(daemon) == daemon.pid
