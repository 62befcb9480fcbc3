"""HDFS on loopback: a real name node and two real data nodes in one Java process.

Hadoop's own MiniDFSCluster starts them. One jar from Maven Central contains it; pyspark brings the
rest of Hadoop's clients. There are two data nodes because the second one of a pipeline has usually
reported its replica when a file is closed. With only one, the client waits half a second for that
report.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.kafka.judge.jars import CACHE, java
from winnow.ledger import fetch_jars

VERSION = "3.5.0"
_CLIENT = "hadoop-client-minicluster"
JARS = {
    f"org/apache/hadoop/{_CLIENT}/{VERSION}/{_CLIENT}-{VERSION}.jar": (
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c"
    ),
    # MiniDFSCluster asks it for the directory of a test.
    "org/junit/jupiter/junit-jupiter-api/5.13.4/junit-jupiter-api-5.13.4.jar": (
        "d1bb81abfd9e03418306b4e6a3390c8db52c58372e749c2980ac29f0c08278f1"
    ),
}
"""Path in a Maven repository -> SHA-256."""
MAIN = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
PROPERTIES = {
    "dfs.replication": "2",
    "dfs.permissions.enabled": "false",
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.fs-limits.min-block-size": "1048576",
}
START_SECONDS = 90


@contextmanager
def hdfs(home: Path) -> Iterator[str]:
    """Its URL. `home` takes its files and logs."""
    home.mkdir(parents=True)
    details = home / "details.json"
    properties = [word for key, value in PROPERTIES.items() for word in ("-D", f"{key}={value}")]
    options = ["-nomr", "-format", "-nnport", "0", "-nnhttpport", "0", "-datanodes", "2"]
    cluster = _run(home, [MAIN, *options, "-writeDetails", str(details), *properties])
    try:
        yield f"hdfs://127.0.0.1:{_port(details, home, cluster)}"
    finally:
        cluster.kill()
        cluster.wait()


def _port(details: Path, home: Path, cluster: subprocess.Popen[bytes]) -> int:
    """Of the name node, once the data nodes are there, too."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and cluster.poll() is None:
        with suppress(FileNotFoundError, ValueError):  # not there yet, or not all of it
            return int(json.loads(details.read_text())["namenode_port"])
        time.sleep(0.1)
    raise AssertionError(
        f"HDFS did not start: {(home / 'log').read_text(errors='replace')[-4000:]}"
    )


def _run(home: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.submodule_search_locations
    jars = [*map(str, fetched(JARS)), f"{pyspark.submodule_search_locations[0]}/jars/*"]
    directories = [f"-Dtest.build.data={home / 'data'}", f"-Dhadoop.log.dir={home}"]
    flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    with (home / "log").open("wb") as output:
        command = [java(), *flags, *directories, "-cp", os.pathsep.join(jars), *arguments]
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=home)


def fetched(jars: Mapping[str, str]) -> list[Path]:
    """Of Maven Central: path and SHA-256 of each."""
    (CACHE / "hadoop").mkdir(parents=True, exist_ok=True)
    with (CACHE / "hadoop.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fetch_jars.fetch(jars, CACHE / "hadoop")
    return [CACHE / "hadoop" / path.rpartition("/")[2] for path in jars]
