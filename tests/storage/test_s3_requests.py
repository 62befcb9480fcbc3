"""How many requests a cleaning in S3 makes, counted in front of the server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.storage.conftest import connected
from tests.storage.proxy import proxy
from tests.storage.request_counts import counted_run
from tests.storage.test_output import upload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOME = ("c-tomb-0", "cd-mixed-0", "d-size-0", "t-closed-0", "c-lat-0", "c-minlag-0", "d-disorder-0")
PER_CHANGED_OBJECT = 6
PER_UNCHANGED_PARTITION = 45
PER_RUN = 45


def test_requests_follow_changed_objects(
    s3: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{s3}/{tmp_path.name}"
    upload(copy_log_dir("clean", tmp_path / "source", only=SOME), url)
    with proxy(os.environ["AWS_ENDPOINT_URL"], tmp_path) as counting:
        connected(counting.url, monkeypatch)
        first = counted_run(spark, url, counting)
        second = counted_run(spark, url, counting)
    assert first.errors == second.errors == ()
    assert first.changed
    assert first.per_changed_object <= PER_CHANGED_OBJECT, f"{first}"
    assert first.most_per_unchanged_partition <= PER_UNCHANGED_PARTITION, f"{first}"
    assert not second.changed
    assert second.most_per_unchanged_partition <= PER_UNCHANGED_PARTITION, f"{second}"
    assert max(first.per_run, second.per_run) <= PER_RUN, f"{first}\n{second}"
