"""A plan with an estimate predicts what cleaning then does, to the byte."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_tree, unpacked
from tests.spark.runs import (
    add_partition,
    by_name,
    changes,
    clean,
    files_of,
    new_log_dir,
    plan,
    run,
)
from winnow.cleaning.result import PartitionResult
from winnow.logdir.names import LOG, segment_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Compaction and then retention: by size, which looks at what compaction has left, and of all that
# there is.
DELETES = ("size-0", "all-0")
SETS = (
    "*:min.cleanable.dirty.ratio=0",
    "size:retention.bytes=60000",
    "size:retention.ms=-1",
    "all:retention.ms=1",
    *(f"{name[:-2]}:cleanup.policy=compact,delete" for name in DELETES),
)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("estimate") / "d"
    copy_tree(unpacked("before-clean") / "clean", path)
    for name in DELETES:
        add_partition(path, name, "cd-mixed-0")
    return path


def told(partition: PartitionResult) -> PartitionResult:
    """Without the settings, which only a plan lists."""
    return replace(partition, settings=())


def test_estimate_equals_the_cleaning(log_dir: Path, spark: SparkSession) -> None:
    before = files_of(log_dir)
    previewed = run(plan, spark, log_dir, sets=SETS, estimate=True)
    assert changes(before, files_of(log_dir)) == []
    done = run(clean, spark, log_dir, sets=SETS)
    assert [told(p) for p in previewed.partitions] == list(done.partitions)
    named = by_name(previewed)
    assert all(
        p.bytes_after is not None and p.settings for p in named.values() if p.actions != ("none",)
    )
    assert [named[name].actions for name in DELETES] == [("compacted", "retained")] * 2
    assert (named["all-0"].bytes_after, named["all-0"].segments_after) == (0, 1)
    assert 0 < named["size-0"].bytes_after < named["cd-mixed-0"].bytes_after
    assert named["__consumer_offsets-0"].holders[0].bytes_after is not None


ONE = ("*:min.cleanable.dirty.ratio=0",)


def test_plan_without_estimate_omits_size_after_compaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = new_log_dir(tmp_path / "d")
    add_partition(path, "c-none-0", "c-none-0")
    (previewed,) = run(plan, spark, path, sets=ONE).partitions
    assert previewed.bytes_after is None
    (previewed,) = run(plan, spark, path, sets=ONE, estimate=True).partitions
    assert previewed.bytes_after is not None


def test_estimate_finds_damage_inside_records(spark: SparkSession, tmp_path: Path) -> None:
    path = new_log_dir(tmp_path / "d")
    add_partition(path, "c-zstd-0", "c-zstd-0")
    log = path / "c-zstd-0" / segment_file(0, LOG)
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(bytes(data))
    assert by_name(run(plan, spark, path, sets=ONE))["c-zstd-0"].error is None
    previewed = run(plan, spark, path, sets=ONE, estimate=True)
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    done = run(clean, spark, path, sets=ONE)
    assert previewed.exit_code == done.exit_code == 3
    assert [told(p) for p in previewed.partitions] == list(done.partitions)
