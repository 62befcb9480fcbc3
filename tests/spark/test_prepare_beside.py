"""Other runs of Winnow beside a preparation that is being made (S8.12)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import winnow
from tests.fixtures.data import TOPIC_CONFIGS
from tests.spark.preparing import (
    CHANGED,
    OTHER,
    committed,
    prepared,
    results,
    staged,
    two_partitions,
)
from winnow import api
from winnow.errors import LogDirInUseError
from winnow.logdir.live.alone import alone_on

pytestmark = pytest.mark.spark


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return two_partitions(tmp_path / "log-dir")


def test_runs_that_change_the_logs_wait_for_a_preparation(
    spark: SparkSession, log_dir: Path
) -> None:
    """A preparation would keep what an erasure erases."""
    path = str(log_dir)
    prepared(spark, log_dir)
    before = staged(log_dir)
    with alone_on(path, needed=True):
        for run in (
            lambda: winnow.clean(spark, path, topic_configs=str(TOPIC_CONFIGS)),
            lambda: api.erase(spark, path, keys=[b"k"], topics=["c-tomb"]),
            lambda: api.recover(path),
            lambda: prepared(spark, log_dir),
        ):
            with pytest.raises(LogDirInUseError, match="prepares or changes"):
                run()
        assert winnow.verify(spark, path).status == "sound"
        assert api.recover(path, dry_run=True)
    assert staged(log_dir) == before


def test_commit_beside_a_preparation_installs_what_is_finished(
    spark: SparkSession, log_dir: Path
) -> None:
    prepared(spark, log_dir)
    (unfinished,) = staged(log_dir)[CHANGED]
    (unfinished / "prepared.json").unlink()
    with alone_on(str(log_dir), needed=True):
        done = committed(log_dir)
    assert results(done).keys() == {OTHER}
    assert results(done)[OTHER].actions == ("compacted",)
    assert [note for note in done.notes if "another run of Winnow prepares" in note]
    assert unfinished.is_dir()
    committed(log_dir)
    assert not unfinished.exists()
