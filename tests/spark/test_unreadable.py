"""A disk can't read a part of one log. The other partitions are planned, cleaned and recovered.

A map of a hole needs memory, which a full tmpfs has not. A page of a log that a failing disk can't
read ends the same way: whoever touches it is killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.disks import MIB, disk_or_skip, fill
from tests.spark.runs import (
    NOW,
    add_partition,
    by_name,
    changes,
    clean,
    files_of,
    new_log_dir,
    plan,
    run,
    settings,
)
from winnow import api
from winnow.recovery.logs.run import recover_unclean
from winnow.recovery.logs.values import TruncateRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[Path]:
    """Of a broker that crashed. The last segment of `bad-0` ends with a hole."""
    with disk_or_skip(tmp_path / "disk", mib=8) as disk:
        log_dir = new_log_dir(disk / "logs")
        (log_dir / ".kafka_cleanshutdown").unlink()
        for name in ("bad-0", "fine-0"):
            add_partition(log_dir, name, "d-time-0")
        with max((log_dir / "bad-0").glob("*.log")).open("r+b") as log:
            log.truncate(MIB)
        fill(disk)
        yield log_dir


SETS = ("*:cleanup.policy=delete", "*:retention.ms=1000")


def test_other_partitions_are_planned_and_cleaned(spark: SparkSession, log_dir: Path) -> None:
    before = files_of(log_dir / "bad-0")
    assert by_name(run(plan, spark, log_dir, sets=SETS))["fine-0"].error is None
    result = run(clean, spark, log_dir, sets=SETS, only="retention")
    bad, fine = (by_name(result)[name] for name in ("bad-0", "fine-0"))
    assert "the disk can't read or write" in (bad.error or "")
    assert (fine.actions, fine.error) == (("retained",), None)
    assert changes(before, files_of(log_dir / "bad-0")) == []
    assert result.exit_code == 3


def test_doctor_names_the_partition(spark: SparkSession, log_dir: Path) -> None:
    found = api.doctor(spark, [str(log_dir)], settings=settings(*SETS), now=NOW, deep=True)
    assert "bad-0" in str(found)
    assert "the disk can't read" in str(found)


def test_other_logs_are_recovered(spark: SparkSession, log_dir: Path) -> None:
    before = files_of(log_dir / "bad-0")
    request = TruncateRequest(settings=settings(*SETS), now=NOW, truncate=True)
    (found,) = recover_unclean(spark, [str(log_dir)], request).log_dirs
    errors = {log.name: log.error for log in found.logs}
    assert "the disk can't read" in (errors.pop("bad-0") or "")
    assert errors == {"fine-0": None}
    assert changes(before, files_of(log_dir / "bad-0")) == []
    assert "not enough space" in (found.error or "")
    assert not found.marked
