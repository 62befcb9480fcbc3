"""A batch that was appended twice: the second copy alone has a key. No verb can read that log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.runs import by_name, clean, new_log_dir, run, set_checkpoint
from tests.unit.cleaning.partitions import batch, make_partition, record
from winnow import api
from winnow.cli.text.erase import page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HIDDEN = b"HIDDEN"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """`dup-0` has the offsets 10 to 12, and then 10 to 14, as after an append that was retried.
    `ok-0` is sound.
    """
    log_dir = new_log_dir(tmp_path / "log-dir")
    sound = [batch(record(n, b"k%d" % n)) for n in range(10)]
    first = batch(*(record(n, b"k") for n in (10, 11, 12)))
    second = batch(record(10), record(11, HIDDEN), *(record(n) for n in (12, 13, 14)))
    closed = [*sound, first, second, batch(record(15))]
    make_partition(log_dir / "dup-0", {0: closed, 16: [batch(record(16))]})
    make_partition(log_dir / "ok-0", {0: sound, 10: [batch(record(10))]})
    for name, end in (("dup-0", 17), ("ok-0", 11)):
        set_checkpoint(log_dir / "replication-offset-checkpoint", name, end)
    return log_dir


def test_nothing_is_proven_where_a_partition_was_not_searched(
    spark: SparkSession, log_dir: Path, tmp_path: Path
) -> None:
    result = api.erase(spark, [str(log_dir)], keys=[HIDDEN], certificate=str(tmp_path / "c"))
    assert (result.proven, result.status, result.exit_code) == (None, "partial", 3)
    assert [(p.topic, p.searched) for p in result.partitions] == [("dup", False), ("ok", True)]
    shown = [*page(result)]
    log_bytes = sum(file.stat().st_size for file in (log_dir / "dup-0").glob("*.log"))
    assert result.partitions[0].bytes_before == log_bytes
    assert "1 key, 0 of them found" in shown
    [told] = [line for line in shown if line.startswith("searched 1 of 2 partitions; dup-0 (")]
    assert told.endswith("was NOT searched and may hold the key")
    assert not any(line.startswith("Proven") for line in shown)
    certificate = Path(result.certificate or "")
    content = json.loads(certificate.read_text())
    assert content["proven"] is None
    assert content["why_not_proven"] == result.why_not_proven
    assert [one["searched"] for one in content["partitions"]] == [False, True]
    html = certificate.with_suffix(".html").read_text()
    assert "NOT PROVEN: not everything was searched" in html
    assert "Nothing had to be erased" not in html
    assert "no second reading" not in html


def test_damage_without_an_offset_of_its_own_is_before_an_offset(
    spark: SparkSession, log_dir: Path
) -> None:
    """The copy that goes lies between the offsets 9 and 10."""
    result = run(clean, spark, log_dir, sets=("*:cleanup.policy=compact",), on_corrupt="quarantine")
    moved = by_name(result)["dup-0"]
    assert moved.quarantined_bytes
    assert f"{moved.quarantined_bytes} damaged bytes before offset 10 were moved" in moved.reason
