"""A run as root on a log directory of another user. That user's broker can read, write and delete
every file afterwards.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.runs import clean, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away"),
]

KAFKA = (1234, 2345)
SOME = ("c-tomb-0", "d-size-0", "t-closed-0")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = copy_log_dir("clean", tmp_path / "source", only=SOME)
    (path / "c-tomb-0" / "00000000000000000000.log").chmod(0o600)
    for one in [path, *path.rglob("*")]:
        os.chown(one, *KAFKA)
    (path / ".lock").unlink(missing_ok=True)
    return path


def foreign(directory: Path) -> list[str]:
    """What belongs to somebody else, and files that others may write."""
    return [
        str(path)
        for path in [directory, *directory.rglob("*")]
        if (path.lstat().st_uid, path.lstat().st_gid) != KAFKA
        or stat.S_IMODE(path.lstat().st_mode) & 0o002
    ]


def test_output_files_belong_to_owner_of_source(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    assert run(clean, spark, source, output=[str(tmp_path / "output")]).exit_code == 0
    assert (tmp_path / "output" / ".lock").exists()
    assert foreign(tmp_path / "output") == []
    assert not (source / ".lock").exists()


def test_kept_and_quarantined_files_belong_to_owner(spark: SparkSession, source: Path) -> None:
    log = source / "t-closed-0" / "00000000000000000000.log"
    log.chmod(0o600)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    run(clean, spark, source, keep_replaced=True, on_corrupt="quarantine")
    assert list(source.glob("*/.winnow-kept-*"))
    aside = [path for path in source.glob("*/.winnow-quarantine-*/*") if path.is_file()]
    assert aside
    assert {stat.S_IMODE(path.stat().st_mode) for path in aside} == {0o600}
    assert foreign(source) == []
