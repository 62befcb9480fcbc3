"""The order in which partitions are cleaned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.replay import RecordingStorage
from tests.spark.runs import NOW, add_partition, new_log_dir, set_checkpoint, settings
from winnow.cleaning.clean import clean as clean_partitions
from winnow.cleaning.plan.planning import plan_partitions
from winnow.cleaning.request import Request
from winnow.logdir.survey import survey_log_dirs
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_retention_comes_first_then_the_dirtiest_log(spark: SparkSession, tmp_path: Path) -> None:
    """S3.4. The partitions have another order in the directory."""
    log_dir = new_log_dir(tmp_path / "log-dir")
    for name in ("a-0", "b-0", "c-0"):
        bases = sorted(
            int(path.stem) for path in add_partition(log_dir, name, "c-tomb-0").glob("*.log")
        )
        # Of nine segments so many are clean already.
        clean = {"a-0": 6, "b-0": 3, "c-0": 0}[name]
        set_checkpoint(log_dir / "cleaner-offset-checkpoint", name, bases[clean])
    add_partition(log_dir, "d-0", "d-time-0")
    storage = RecordingStorage(log_dir)
    sets = [
        "?:cleanup.policy=compact",
        "?:min.cleanable.dirty.ratio=0",
        "d:cleanup.policy=delete",
        "d:retention.ms=0",
    ]
    request = Request(
        run_id="run",
        settings=settings(*sets),
        topics=(),
        now=NOW,
        only=None,
        touch=True,
        storage=storage,
    )
    prepared = plan_partitions(
        spark.sparkContext, survey_log_dirs(LocalStorage(), [str(log_dir)]), request
    )
    results = clean_partitions(spark.sparkContext, prepared, request).partitions
    assert [result.actions for result in results] == [*[("compacted",)] * 3, ("retained",)]
    touched = [
        path.split("/")[0]
        for effect in storage.effects
        for path in effect.paths
        if path[1:3] == "-0"
    ]
    assert list(dict.fromkeys(touched)) == ["d-0", "c-0", "b-0", "a-0"]
