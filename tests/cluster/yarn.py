"""YARN on loopback: a real ResourceManager and a real NodeManager. The NodeManager is a host as in
`tests.cluster.standalone`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.cluster.standalone import SPARK_HOME, environment_of, pids_below
from tests.kafka.judge.broker import free_ports
from tests.kafka.judge.jars import java
from tests.storage.hdfs import JARS, fetched

HOST = "127.0.0.1"
_SERVER = "org.apache.hadoop.yarn.server"
_START_SECONDS = 120
_BOUNCY_CASTLE = {
    f"org/bouncycastle/{jar}-jdk18on/1.84/{jar}-jdk18on-1.84.jar": checksum
    for jar, checksum in (
        ("bcprov", "64d6c5a6121fcd927152dd182cbed39afe0fda641a970d9bcc0c9cb1858b2731"),
        ("bcpkix", "c87f16ed9e5ec61bc94151e9f3646ac44e50cd448121ce84367fa4b7ec7ec1bb"),
        ("bcutil", "b374e16963421fb9cfb01cc20d7ad8fd2f8b8188e3eef0ec0a8965e245f7619a"),
    )
}
"""Which the ResourceManager needs, and Hadoop's jar of everything lacks."""


@contextmanager
def yarn(home: Path) -> Iterator[Path]:
    """The directory with its configuration, for HADOOP_CONF_DIR. `home` takes all files and
    logs.
    """
    home.mkdir()
    scheduler, tracker, manager, admin, web = free_ports(5)
    _write_site(
        home / "core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(home / "tmp")}
    )
    _write_site(
        home / "yarn-site.xml",
        {
            "yarn.resourcemanager.scheduler.address": f"{HOST}:{scheduler}",
            "yarn.resourcemanager.resource-tracker.address": f"{HOST}:{tracker}",
            "yarn.resourcemanager.address": f"{HOST}:{manager}",
            "yarn.resourcemanager.admin.address": f"{HOST}:{admin}",
            "yarn.resourcemanager.webapp.address": f"{HOST}:{web}",
            "yarn.resourcemanager.scheduler.class": (
                f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler"
            ),
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.nodemanager.address": f"{HOST}:0",
            "yarn.nodemanager.localizer.address": f"{HOST}:0",
            "yarn.nodemanager.webapp.address": f"{HOST}:0",
            "yarn.nodemanager.collector-service.address": f"{HOST}:0",
            "yarn.nodemanager.resource.memory-mb": "6144",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.delete.debug-delay-sec": "600",
            "yarn.nodemanager.local-dirs": str(home / "local"),
            "yarn.nodemanager.log-dirs": str(home / "logs"),
        },
    )
    for application in ("cluster", "node"):
        (home / "webapps" / application).mkdir(parents=True)
    nodes = [
        _run(home, "resourcemanager", f"{_SERVER}.resourcemanager.ResourceManager"),
        _run(home, "nodemanager", f"{_SERVER}.nodemanager.NodeManager"),
    ]
    try:
        _wait_for(f"http://{HOST}:{web}/ws/v1/cluster/metrics", home, nodes)
        yield home
    finally:
        for process in reversed(nodes):
            process.kill()
            process.wait()
        for pid in pids_below(home):  # containers, which their NodeManager would have ended
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _run(home: Path, name: str, server: str) -> subprocess.Popen[bytes]:
    flags = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dhadoop.log.dir={home}"]
    opened = [
        f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.util")
    ]
    path = ":".join(map(str, (home, *fetched(JARS | _BOUNCY_CASTLE), f"{SPARK_HOME}/jars/*")))
    command = [java(), *flags, *opened, "-cp", path, server]
    with (home / f"{name}.log").open("wb") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=environment_of(HOST, home),
        )


def _write_site(file: Path, properties: dict[str, str]) -> None:
    rows = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in properties.items()
    )
    file.write_text(f"<configuration>{rows}</configuration>")


def _wait_for(url: str, home: Path, nodes: list[subprocess.Popen[bytes]]) -> None:
    """Until the node is there."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and all(process.poll() is None for process in nodes):
        try:
            with urlopen(url, timeout=5) as answer:  # noqa: S310 - our own
                if b'"activeNodes":1' in answer.read():
                    return
        except (URLError, OSError):
            pass
        time.sleep(0.5)
    logs = "\n".join(log.read_text(errors="replace")[-3000:] for log in sorted(home.glob("*.log")))
    raise AssertionError(f"YARN did not start\n{logs}")
