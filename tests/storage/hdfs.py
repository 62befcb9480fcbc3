"""HDFS on loopback: a real NameNode and a real DataNode, each a Java process.

One jar from Maven Central has both; the rest of Hadoop's clients comes with pyspark.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from hdfs_native import Client

from tests.kafka.jars import CACHE, java
from tests.storage.s3 import free_port

VERSION = "3.5.0"
SHA256 = "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c"
NAME = f"hadoop-client-minicluster-{VERSION}.jar"
URL = f"org/apache/hadoop/hadoop-client-minicluster/{VERSION}/{NAME}"
START_SECONDS = 90


@contextmanager
def hdfs(home: Path) -> Iterator[str]:
    """Its URL. `home` takes its files and logs."""
    home.mkdir(parents=True)
    port = free_port()
    url = f"hdfs://127.0.0.1:{port}"
    _write(home / "core-site.xml", {"fs.defaultFS": url, "hadoop.tmp.dir": str(home / "tmp")})
    _write(
        home / "hdfs-site.xml",
        {
            "dfs.replication": "1",
            "dfs.namenode.http-address": "127.0.0.1:0",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.fs-limits.min-block-size": "1048576",
        },
    )
    node = "org.apache.hadoop.hdfs.server.namenode.NameNode"
    _run(home, "format", [node, "-format", "-force"]).wait(START_SECONDS)
    nodes = [_run(home, "namenode", [node])]
    try:
        nodes.append(_run(home, "datanode", ["org.apache.hadoop.hdfs.server.datanode.DataNode"]))
        _wait_for(url, home, nodes)
        yield url
    finally:
        for process in nodes:
            process.kill()
            process.wait()


def _wait_for(url: str, home: Path, nodes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Until a file can be written."""
    deadline = time.monotonic() + START_SECONDS
    why = ""
    while time.monotonic() < deadline and all(process.poll() is None for process in nodes):
        try:
            with Client(url).create(f"/ready-{time.monotonic_ns()}") as file:
                file.write(b"x")
        except (OSError, RuntimeError) as error:
            why = str(error)
            time.sleep(0.5)
        else:
            return
    logs = "\n".join(log.read_text(errors="replace")[-2000:] for log in sorted(home.glob("*.log")))
    raise AssertionError(f"HDFS did not start: {why}\n{logs}")


def _run(home: Path, name: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.submodule_search_locations
    jars = Path(pyspark.submodule_search_locations[0], "jars")
    flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dhadoop.log.dir={home}"]
    command = [java(), *flags, "-cp", os.pathsep.join((str(home), str(_jar()), f"{jars}/*")), *arguments]
    with (home / f"{name}.log").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=home)


def _write(file: Path, properties: dict[str, str]) -> None:
    rows = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>" for key, value in properties.items()
    )
    file.write_text(f"<configuration>{rows}</configuration>")


@cache
def _jar() -> Path:
    target = CACHE / "hadoop" / NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    with (CACHE / "hadoop.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            mirror = os.environ.get("WINNOW_MAVEN", "https://repo1.maven.org/maven2").rstrip("/")
            with urllib.request.urlopen(f"{mirror}/{URL}", timeout=300) as answer:  # noqa: S310 - its checksum is known
                content = answer.read()
            assert hashlib.sha256(content).hexdigest() == SHA256
            new = target.with_suffix(".new")
            new.write_bytes(content)
            new.rename(target)
    return target
