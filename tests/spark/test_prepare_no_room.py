"""Full disks during `prepare` and `commit`: real file systems of a few MiB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.disks import disk_or_skip, fill, fill_names
from tests.spark.preparing import CHANGED, OTHER, committed, prepared, staged, two_partitions
from tests.spark.runs import files_of
from winnow.cleaning.prepared import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[Path]:
    with disk_or_skip(tmp_path / "disk", mib=16, kind="ext4") as disk:
        yield two_partitions(disk / "log-dir")


def of_logs(log_dir: Path) -> dict[str, Any]:
    return {name: file for name, file in files_of(log_dir).items() if "/.winnow" not in name}


def test_full_disk_leaves_nothing_of_a_preparation(
    spark: SparkSession, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, ballast = of_logs(log_dir), log_dir.parent / "ballast"
    record = run.record

    def full(*args: Any) -> None:
        if not ballast.exists():
            fill(log_dir.parent)
        record(*args)

    with monkeypatch.context() as patch:
        patch.setattr(run, "record", full)
        made = prepared(spark, log_dir)
    assert {one.code for one in made.partitions if one.error} == {"no-space"}
    assert made.exit_code == 3
    assert of_logs(log_dir) == before
    left = {one.name for one in made.partitions if one.error}
    assert left
    assert not left & staged(log_dir).keys()
    ballast.unlink()
    assert prepared(spark, log_dir).exit_code == 0
    assert staged(log_dir).keys() == {CHANGED, OTHER}


@pytest.mark.parametrize("full", [fill, fill_names])
def test_commit_needs_no_free_space(
    spark: SparkSession, log_dir: Path, full: Callable[[Path], object]
) -> None:
    """A full disk is why somebody commits: the preparation has its space already."""
    prepared(spark, log_dir)
    full(log_dir.parent)
    done = committed(log_dir)
    assert done.exit_code == 0
    assert {one.name: one.actions for one in done.partitions} == dict.fromkeys(
        (CHANGED, OTHER), ("compacted",)
    )
    assert not staged(log_dir)
