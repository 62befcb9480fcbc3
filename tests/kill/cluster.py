"""A standalone cluster of two hosts, which are two loopback addresses of this machine: Spark runs no second copy of a
task on the host of the first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from tests.kafka.broker import free_ports

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HOSTS = ("127.0.0.2", "127.0.0.3")
_START_SECONDS = 60


@contextmanager
def two_hosts(scratch: Path) -> Iterator[str]:
    """The URL of its master. Each host has one core; what the processes say is in `scratch`."""
    port, web = free_ports(2)
    master = f"spark://127.0.0.1:{port}"
    commands = [
        ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)],
        *(
            [
                "org.apache.spark.deploy.worker.Worker",
                *("--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(scratch / f"work-{host}"), master),
            ]
            for host in HOSTS
        ),
    ]
    started: list[subprocess.Popen[bytes]] = []
    with (scratch / "cluster.log").open("ab") as output:
        try:
            for command, host in zip(commands, ("127.0.0.1", *HOSTS), strict=True):
                started.append(_start(command, {"SPARK_LOCAL_IP": host}, output))
            _wait_for_workers(f"http://127.0.0.1:{web}/json/", scratch)
            yield master
        finally:
            for process in started:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _start(command: list[str], environment: Mapping[str, str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [SPARK_CLASS, *command],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _wait_for_workers(url: str, scratch: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urlopen(url, timeout=5) as answer:  # noqa: S310 - our own
                if answer.read().count(b'"state" : "ALIVE"') >= len(HOSTS):
                    return
        except (URLError, OSError):
            pass
        time.sleep(0.2)
    raise AssertionError((scratch / "cluster.log").read_text(errors="replace")[-3000:])
