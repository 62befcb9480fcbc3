"""A partition that needs too much memory does not keep other partitions from being cleaned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pages import ROOT
from tests.spark.bombs import bomb, log_dir_with_bomb
from tests.spark.runs import NOW, clean, files_of
from winnow.batch_memory import LEAST_BYTES
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB = 2**20
SOUND = 3
SETTINGS = Settings(topic_configs=parse_topic_configs("t cleanup.policy=compact\n"))


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from _children(child)


def _anonymous_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


@contextmanager
def short_of_memory(spark: SparkSession, limit: int) -> Iterator[list[int]]:
    """As the system does it when memory runs out: a Python worker that has more than `limit` bytes
    is killed.
    """
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    killed: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            with suppress(OSError):
                for pid in set(_children(jvm)) - set(killed):
                    if _anonymous_bytes(pid) > limit:
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield killed
    finally:
        over.set()
        watcher.join()


@pytest.mark.spark
def test_only_the_partition_that_kills_its_worker_fails(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir_with_bomb(tmp_path / "d", raw_bytes=LEAST_BYTES - MIB, sound=SOUND)
    before = files_of(tmp_path / "d" / "t-0")
    with short_of_memory(spark, 420 * MIB) as killed:
        result = clean(spark, [str(tmp_path / "d")], settings=SETTINGS, now=NOW)
    assert killed
    first, *others = result.partitions
    assert "this partition killed its worker" in str(first.error)
    assert [(p.error, p.actions, p.records_after) for p in others] == [
        (None, ("compacted",), 2)
    ] * SOUND
    assert {
        name: f for name, f in files_of(tmp_path / "d" / "t-0").items() if ".winnow-" not in name
    } == before
    assert not list((tmp_path / "d" / "t-0").glob(".winnow-*"))


_IN_LITTLE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
from pathlib import Path
from winnow.errors import BatchMemoryError
sys.path.append(sys.argv[2])
from tests.twins.walk import decode_batch
try:
    decode_batch(Path(sys.argv[1]).read_bytes(), 0)
except BatchMemoryError as error:
    print(error)
"""


def test_batch_too_large_for_memory_is_refused_before_decompressing(
    tmp_path: Path,
) -> None:
    """58 KB that expand to 1.9 GB, within Kafka's default limit, in a process limited to 3 GiB."""
    (tmp_path / "batch").write_bytes(data := bomb(0, 1900 * 10**6))
    assert len(data) < 70_000
    environment = {
        name: value for name, value in os.environ.items() if name != "WINNOW_MAX_BATCH_BYTES"
    }
    command = [sys.executable, "-c", _IN_LITTLE, str(tmp_path / "batch"), str(ROOT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "a batch needs too much memory: expected at most 805306368 bytes" in done.stdout, (
        done.stderr
    )
    assert "WINNOW_MAX_BATCH_BYTES" in done.stdout
