"""Links, pipes and sparse files in partitions: every verb that needs Spark leaves them, and
everything outside, untouched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pages import run_here
from tests.spark.runs import add_partition, by_name, clean, new_log_dir, plan, run
from tests.unit.logdir.foreign import KINDS, UNREADABLE, bounded, put, state_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETS = (
    "*:cleanup.policy=compact",
    "*:internal.segment.bytes=65536",
    "*:min.cleanable.dirty.ratio=0",
)
PLACES = (
    "00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex",
    "00000000000000000000.txnindex", "00000000000000000000.snapshot", "leader-epoch-checkpoint",
    "partition.metadata",
    ".winnow-r", ".winnow-kept-r", "00000000000000000000.log.swap",
)  # fmt: skip
FOREIGN = ("link to a file", "link to a directory", "link to nowhere", "named pipe", "sparse")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Every kind of file in every place, each in a partition of its own, beside a sound one."""
    path = new_log_dir(tmp_path / "logs")
    outside = tmp_path / "outside"
    (outside / "below").mkdir(parents=True)
    (outside / "file").write_text(f"{UNREADABLE}\n")
    add_partition(path, "sound-0", "c-tomb-0")
    for number, name in enumerate(PLACES):
        for kind in FOREIGN:
            partition = f"{kind.replace(' ', '-')}-{number}"
            add_partition(path, partition, "c-tomb-0")
            put(path, f"{partition}/{name}", kind)
    return path


def test_every_verb_leaves_outside_files_untouched(
    spark: SparkSession, log_dir: Path, tmp_path: Path
) -> None:
    assert set(FOREIGN) <= KINDS.keys()
    before = state_of(tmp_path / "outside")
    (tmp_path / "keys").write_text("nobody\n", encoding="utf-8")
    words = [
        "--now",
        "1795300000000",
        *(word for setting in SETS for word in ("--topic-set", setting)),
    ]
    told = ""
    with bounded(seconds=300, more_bytes=2**40):
        for verb in (
            ["verify", str(log_dir)],
            ["doctor", str(log_dir), *words],
            ["plan", str(log_dir), *words],
            ["erase", str(log_dir), "--keys", str(tmp_path / "keys"), "--dry-run"],
            ["recover", str(log_dir), "--dry-run"],
        ):
            code, out, err = run_here(spark, verb)
            assert code in {0, 3, 4}, err
            told += out + err
        assert run(plan, spark, log_dir, sets=SETS).exit_code == 3
        cleaned = by_name(run(clean, spark, log_dir, sets=SETS))
    assert cleaned["sound-0"].actions == ("compacted",)
    assert UNREADABLE not in told
    assert state_of(tmp_path / "outside") == before


def test_linked_partition_is_no_defect_for_a_run_that_keeps_what_it_replaces(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = new_log_dir(tmp_path / "logs")
    add_partition(path, "sound-0", "c-tomb-0")
    (path / "linked-0").symlink_to(path / "sound-0")
    cleaned = by_name(run(clean, spark, path, sets=SETS, keep_replaced=True))
    assert cleaned["sound-0"].actions == ("compacted",)
    assert "symbolic link" in cleaned["linked-0"].reason
    assert not [record for record in caplog.records if record.exc_info]
