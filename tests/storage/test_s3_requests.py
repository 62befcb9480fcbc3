"""How many requests a cleaning in S3 makes, counted in front of the server."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.storage.conftest import connected
from tests.storage.proxy import proxy
from tests.storage.request_counts import counted_run, shapes
from tests.storage.test_output import upload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOME = ("c-tomb-0", "cd-mixed-0", "d-size-0", "t-closed-0", "c-lat-0", "c-minlag-0", "d-disorder-0")
PER_CHANGED_OBJECT = 6
PER_PARTITION, PER_SEGMENT = 4, 3
"""Two listings, by driver and task; topic id, leader epochs. Log, index and time index."""
PER_RUN = 45


def test_requests_follow_changed_objects(
    s3: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run changes objects. The second one has new workers, which know of none."""
    url = f"{s3}/{tmp_path.name}"
    upload(copy_log_dir("clean", tmp_path / "source", only=SOME), url)
    with proxy(os.environ["AWS_ENDPOINT_URL"], tmp_path) as counting:
        connected(counting.url, monkeypatch)
        summaries = tmp_path / "ledger" / "key-summaries"
        first = counted_run(spark, url, counting, summaries=summaries)
        end_workers(spark)
        second = counted_run(spark, url, counting, summaries=summaries)
    runs = first, second
    assert all(run.errors == () for run in runs)
    assert first.changed
    assert first.per_changed_object <= PER_CHANGED_OBJECT, f"{first}"
    assert not second.changed
    assert len(second.unchanged) == len(SOME)
    for name, segments in second.unchanged.items():
        found = shapes(second.of(name))
        assert 0 < found.total() <= PER_PARTITION + PER_SEGMENT * segments, f"{name}: {found}"
    assert max(run.per_run for run in runs) <= PER_RUN, "\n".join(map(str, runs))
    assert not [*summaries.rglob("segments.json")], "tags are no proof of known keys"


def end_workers(spark: SparkSession) -> None:
    """End Spark's workers, which remember what they have read. Spark starts new ones."""

    def pid(_: int) -> int:
        time.sleep(0.2)  # so that every worker gets one
        return os.getpid()

    for worker in {*spark.sparkContext.parallelize(range(4), 4).map(pid).collect()}:
        os.kill(worker, signal.SIGKILL)
