"""Executors on hosts where the path of the log directory is empty, or is another broker's."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import Cluster, two_hosts
from tests.kill import log
from tests.kill.kills import RUN_SECONDS, Field, fresh
from tests.kill.processes import ROOT
from tests.spark.runs import files_of
from tests.storage.s3 import BUCKET, environment, moto

pytestmark = pytest.mark.spark

APART = ("unshare", "--user", "--map-root-user", "--mount")
MOUNTED = 'mount --bind "$1" "$2"; shift 2; exec "$@"'
"""The mount is seen by what this starts, and not by the hosts of the cluster."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with two_hosts(tmp_path_factory.mktemp("hosts")) as running:
        yield running


@pytest.fixture
def mounted(field: Field, tmp_path: Path) -> tuple[Path, Path]:
    """A log directory, and where only the driver has it mounted."""
    if shutil.which("unshare") is None or (
        subprocess.run([*APART, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("this machine does not allow a mount namespace")
    elsewhere = tmp_path / "mnt"
    elsewhere.mkdir()
    return fresh(field), elsewhere


def submit(cluster: Cluster, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run with what the hosts have of this checkout: nothing has to be unpacked."""
    installed = {
        "spark.executorEnv.PYTHONPATH": ROOT / "lib",
        "spark.pyspark.python": ROOT / ".venv/bin/python",
    }
    options = [word for key, value in installed.items() for word in ("--conf", f"{key}={value}")]
    start = words[: len(words) - words[::-1].index(ROOT / "spark-submit.sh")]
    return subprocess.run(
        [*start, "--master", cluster.master, *options, *words[len(start) :]],
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )


def submit_mounted(
    cluster: Cluster, mounted: tuple[Path, Path], *words: str | Path
) -> subprocess.CompletedProcess[str]:
    in_namespace = (*APART, "sh", "-euc", MOUNTED, "sh", *mounted)
    return submit(cluster, *in_namespace, ROOT / "spark-submit.sh", *words)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["none", "another"])
def test_clean_and_verify_judge_nothing_by_another_directory(
    cluster: Cluster, mounted: tuple[Path, Path], what: str
) -> None:
    log_dir, elsewhere = mounted
    if what == "another":
        shutil.copytree(log_dir, elsewhere, dirs_exist_ok=True)
        properties = elsewhere / "meta.properties"
        properties.write_text(properties.read_text().replace("node.id=", "node.id=9"))
    before, others = files_of(log_dir), files_of(elsewhere)
    _, _, *options = log.arguments(log_dir)
    for verb in (("clean", elsewhere, *options, "--no-ledger"), ("verify", elsewhere)):
        ended = submit_mounted(cluster, mounted, *verb)
        assert ended.returncode == 1, ended.stderr[-3000:]
        (told,) = [line for line in ended.stderr.splitlines() if line.startswith("winnow: an ")]
        assert "an executor does not have the log directory of this run" in told
        assert f"found {what} on host" in told
        assert f"({elsewhere})" in told
        assert "Mount it under this path on all hosts" in told
        assert "unreadable" not in ended.stdout
    assert (files_of(log_dir), files_of(elsewhere)) == (before, others)


@pytest.mark.slow
def test_executors_that_cannot_reach_s3_make_no_partition_unreadable(
    cluster: Cluster, field: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = fresh(field)
    with moto(tmp_path) as server:
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        url = f"s3://{BUCKET}/log-dir"
        _, _, *options = log.arguments(log_dir)
        copied = subprocess.run(
            [ROOT / "spark-submit.sh", "clean", log_dir, "--output", url, *options, "--quiet"],
            check=False,
            capture_output=True,
            timeout=RUN_SECONDS,
        )
        assert copied.returncode == 0
        elsewhere = environment("http://127.0.0.1:1")
        given = [
            word
            for name, value in elsewhere.items()
            for word in ("--conf", f"spark.executorEnv.{name}={value}")
        ]
        ended = submit(cluster, ROOT / "spark-submit.sh", "verify", url, *given)
    assert ended.returncode == 1, ended.stderr[-3000:]
    assert "unreadable" not in ended.stdout
    (told,) = [line for line in ended.stderr.splitlines() if line.startswith("winnow: an ")]
    assert "an executor does not have the log directory of this run" in told
    assert "S3 answers Connection refused on host" in told
    assert "credentials of their own" in told
