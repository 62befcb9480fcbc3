"""Indexes of zeros beside the marker of a clean shutdown: a broker failed to cut them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.runs import add_partition, by_name, clean, files_of, new_log_dir, run
from winnow.cleaning.result import RETAINED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PREALLOCATED = {"index": 10_485_760, "timeindex": 10_485_756}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    log_dir = new_log_dir(tmp_path / "log-dir")
    for name in ("sound-0", "zeros-0", "tails-0"):
        add_partition(log_dir, name, "c-4p-1")
    for name in ("zeros-0", "tails-0"):
        for log in (log_dir / name).glob("*.log"):
            for suffix, size in PREALLOCATED.items():
                path = log.with_suffix(f".{suffix}")
                # The entry that closes a time index was not written either.
                data = path.read_bytes()[: -12 if suffix == "timeindex" else None]
                path.write_bytes(data if name == "tails-0" else b"")
                with path.open("r+b") as file:
                    file.truncate(size)
    return log_dir


def logs_of(log_dir: Path, name: str) -> dict[str, str]:
    files = files_of(log_dir / name)
    return {file: found.digest for file, found in files.items() if found and ".log" in file}


@pytest.mark.parametrize(
    "sets",
    [
        ("*:cleanup.policy=compact", "*:internal.segment.bytes=65536"),
        ("*:cleanup.policy=delete", "*:retention.ms=1000"),
    ],
    ids=["compact", "delete"],
)
def test_partition_is_cleaned_as_with_whole_indexes(
    spark: SparkSession, log_dir: Path, sets: tuple[str, ...]
) -> None:
    result = by_name(run(clean, spark, log_dir, sets=sets))
    expected = result["sound-0"]
    for name in ("zeros-0", "tails-0"):
        found = result[name]
        assert found.error is None
        assert (found.actions, found.bytes_after) == (expected.actions, expected.bytes_after)
        assert found.actions
        assert logs_of(log_dir, name) == logs_of(log_dir, "sound-0")


def test_no_segment_is_taken_for_one_of_1970(spark: SparkSession, log_dir: Path) -> None:
    """To a broker all segments but the active one would have expired."""
    century = 100 * 365 * 86_400_000 // 4
    sets = ("*:cleanup.policy=delete", f"*:retention.ms={century}")
    for name, found in by_name(run(clean, spark, log_dir, sets=sets)).items():
        assert found.error is None, name
        assert RETAINED not in found.actions, name
