"""Runs on a cluster whose hosts have nothing of Winnow installed. The result has the same bytes as
a local run, whatever process dies.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.standalone import (
    HOSTS,
    Cluster,
    bare_python,
    environment_of,
    pids_below,
    two_hosts,
    work_dir,
)
from tests.kill import log
from tests.kill.kills import RUN_SECONDS, Field, fresh, told, wait_for
from tests.kill.processes import ROOT, Run

pytestmark = pytest.mark.spark

SCRIPT = """
import sys
import winnow
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
winnow.register(spark)
for path in sys.argv[1:]:
    print("records:", spark.read.format("kafka-log").load(path).count())
"""


def test_hosts_have_a_python_without_packages(tmp_path: Path) -> None:
    for name in ("winnow", "numba", "numpy", "pyspark"):
        ended = subprocess.run(
            [bare_python().name, "-c", f"import {name}"],
            env=environment_of(HOSTS[0], tmp_path),
            cwd=tmp_path,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert ended.returncode != 0, f"this machine's own Python has {name}"


@pytest.mark.slow
def test_killed_host_and_executor_leave_bytes_of_local_run(field: Field, tmp_path: Path) -> None:
    log_dir = fresh(field)
    with two_hosts(tmp_path) as cluster, (field.scratch / "output").open("wb") as output:
        run = Run([*log.arguments(log_dir), "--master", cluster.master], output=output)
        try:
            wait_for(run, log_dir, "staging")
            (executor,) = cluster.executors(0)
            kill_host(cluster, 1)
            os.kill(executor, signal.SIGKILL)
            code = run.wait(timeout_seconds=RUN_SECONDS)
        finally:
            if run.processes():
                run.kill_all()
        assert code == 0, told(field)
    log.assert_same(log_dir, field.undisturbed)
    # Of the executor that took the place of the first one.
    *_, site = sorted(
        work_dir(tmp_path, HOSTS[0]).glob("app-*/*/winnow/site"),
        key=lambda site: int(site.parts[-3]),
    )
    assert int(site.parts[-3]) > 1
    sent = kernels_of_the_package()
    assert len(sent) > 40
    found = {
        str(path.relative_to(site.parent)): digest(path.read_bytes())
        for path in site.parent.rglob("*.nb?")
    }
    assert found == sent, "an executor has compiled kernels that came with it"
    assert not (tmp_path / f"home-{HOSTS[0]}" / ".cache").exists()


@pytest.mark.slow
def test_verify_erase_and_a_script_run_on_the_cluster(field: Field, tmp_path: Path) -> None:
    log_dir = fresh(field)
    script = tmp_path / "count.py"
    script.write_text(SCRIPT, encoding="utf-8")
    keys = tmp_path / "keys"
    keys.write_text("nobody\n", encoding="utf-8")
    with two_hosts(tmp_path) as cluster:
        assert (
            json.loads(cluster.submit("verify", log_dir, "--json"))["checked"]["partitions"]
            == len(log.PARTITIONS) + 1
        )
        erased = json.loads(
            cluster.submit(
                *("erase", log_dir, "--keys", keys, *log.settings()),
                *("--dry-run", "--no-ledger", "--json"),
                exit_code=2,  # no record has the key
            )
        )
        assert (erased["status"], erased["keys_found"]) == ("done", 0)
        records = cluster.submit(script, log_dir / "c-tomb-0", log_dir / log.LEGACY).split()
    assert records == ["records:", "1000", "records:", str(log.LEGACY_END_OFFSET)]


def kill_host(cluster: Cluster, number: int) -> None:
    os.killpg(cluster.hosts[number].pid, signal.SIGKILL)
    for process in pids_below(work_dir(cluster.scratch, HOSTS[number])):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def kernels_of_the_package() -> dict[str, str]:
    """Return the digest of each compiled kernel in the package, by path."""
    found = {}
    with tarfile.open(ROOT / ".cache" / "numba" / "winnow.tar.gz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".nbc") else None
            if file is not None:
                found[member.name] = digest(file.read())
    return found


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
