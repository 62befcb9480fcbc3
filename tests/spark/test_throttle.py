"""`--throttle`: a run takes as long as its bytes need at that rate, with the same result as
without.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.runs import NOW, add_partition, clean, files_of, new_log_dir, plan, settings
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import parse_set

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETTINGS = settings("q:cleanup.policy=compact", "q:internal.segment.bytes=65536")
RATE = "log.cleaner.io.max.bytes.per.second"


def sizes(directory: Path) -> tuple[int, int]:
    """Of the log that is cleaned, and of the active segment."""
    *closed, active = (path.stat().st_size for path in sorted(directory.glob("*.log")))
    return sum(closed), active


def test_run_takes_as_long_as_its_bytes_need(spark: SparkSession, tmp_path: Path) -> None:
    """Every byte is walked. Bytes that are cleaned are scanned and read again. Written bytes are
    read back.
    """
    left, taken, rate = {}, 0.0, None
    for name in ("free", "throttled"):
        log_dir = new_log_dir(tmp_path / name)
        before, active = sizes(add_partition(log_dir, "q-0", "c-4p-1"))
        begin = time.monotonic()
        result = clean(spark, [str(log_dir)], settings=SETTINGS, now=NOW, throttle=rate)
        taken = time.monotonic() - begin
        assert [p.actions for p in result.partitions] == [("compacted",)]
        left[name] = {file: found and found.digest for file, found in files_of(log_dir).items()}
        rate = 2.5 * before
    after, _ = sizes(tmp_path / "throttled" / "q-0")
    assert left["throttled"] == left["free"]
    assert taken >= (3 * before + active + 2 * after) / (2.5 * before)


def test_rate_of_the_brokers_cleaner_applies(spark: SparkSession, tmp_path: Path) -> None:
    """The rate ends with the run: nothing of it remains in the caller's session."""
    log_dir = new_log_dir(tmp_path / "log")
    before, active = sizes(add_partition(log_dir, "q-0", "c-4p-1"))
    properties = parse_server_properties(f"node.id=1\n{RATE}={before}")
    begin = time.monotonic()
    result = plan(
        spark, [str(log_dir)], settings=replace(SETTINGS, server_properties=properties), now=NOW
    )
    assert time.monotonic() - begin >= (before + active) / before
    assert not [note for note in result.notes if RATE in note]
    assert spark.sparkContext.getLocalProperty("winnow.io.max.bytes.per.second") is None


def test_throttle_argument_overrides_the_brokers_rate(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = new_log_dir(tmp_path / "log")
    add_partition(log_dir, "q-0", "c-4p-1")
    slow = replace(SETTINGS, sets=(parse_set(f"{RATE}=1"),))
    assert plan(spark, [str(log_dir)], settings=slow, now=NOW, throttle=1e12).exit_code == 0
