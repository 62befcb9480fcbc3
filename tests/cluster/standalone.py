"""A standalone cluster of two hosts.

The hosts are two loopback addresses of this machine, because Spark does not run the second copy of
a task on the host of the first. A host has Spark, Java, and a Python without packages. It has
neither the environment variables nor the virtual environment of the tests.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from tests.kafka.judge.broker import free_ports
from tests.kill.kills import RUN_SECONDS
from tests.kill.processes import EXECUTOR, ROOT

SPARK_HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.2", "127.0.0.3")
_START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Cluster:
    master: str
    """Its URL."""
    hosts: tuple[subprocess.Popen[bytes], ...]
    """The process of each worker, in the order of HOSTS."""
    scratch: Path

    def executors(self, host: int) -> list[int]:
        """Process ids."""
        return [
            pid
            for pid in pids_below(work_dir(self.scratch, HOSTS[host]))
            if EXECUTOR in command_of(pid)
        ]

    def submit(self, *words: str | Path, exit_code: int = 0) -> str:
        """Run `./spark-submit.sh` on the cluster and return what it prints."""
        ended = subprocess.run(
            [ROOT / "spark-submit.sh", "--master", self.master, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_SECONDS,
        )
        assert ended.returncode == exit_code, ended.stderr[-4000:]
        return ended.stdout


@contextmanager
def two_hosts(scratch: Path) -> Iterator[Cluster]:
    """Each host has one core; what the processes say is in `scratch`."""
    port, web = free_ports(2)
    master = f"spark://127.0.0.1:{port}"
    manager = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    started: list[subprocess.Popen[bytes]] = []
    with (scratch / "cluster.log").open("ab") as output:
        try:
            started.append(
                _start([*manager, "--webui-port", str(web)], "127.0.0.1", scratch, output)
            )
            started.extend(
                _start(_worker(host, master, scratch), host, scratch, output) for host in HOSTS
            )
            _wait_for_workers(f"http://127.0.0.1:{web}/json/", scratch)
            yield Cluster(master, tuple(started[1:]), scratch)
        finally:
            for process in started:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def work_dir(scratch: Path, host: str) -> Path:
    return scratch / f"work-{host}"


def bare_python() -> Path:
    """That from which the virtual environment was made."""
    return (
        Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    )


def environment_of(host: str, scratch: Path) -> dict[str, str]:
    """`bin` has Python and nothing else; the rest is the system's."""
    home = scratch / f"home-{host}"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    python = home / "bin" / bare_python().name
    if not python.exists():
        python.symlink_to(bare_python())
    java = os.environ.get("JAVA_HOME")
    return {
        "HOME": str(home),
        "PATH": f"{home / 'bin'}:{_directory_of('java')}:/usr/bin:/bin",
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **({"JAVA_HOME": java} if java else {}),
    }


def pids_below(directory: Path) -> Iterator[int]:
    """Of the processes whose working directory is there."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.readlink(f"/proc/{name}/cwd").startswith(str(directory)):
                yield int(name)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _directory_of(command: str) -> Path:
    found = shutil.which(command)
    assert found is not None
    return Path(found).parent


def _worker(host: str, master: str, scratch: Path) -> list[str]:
    return [
        "org.apache.spark.deploy.worker.Worker",
        *("--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g"),
        *("--work-dir", str(work_dir(scratch, host)), master),
    ]


def _start(
    command: list[str], host: str, scratch: Path, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [SPARK_HOME / "bin" / "spark-class", *command],
        env=environment_of(host, scratch),
        cwd=scratch,
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
