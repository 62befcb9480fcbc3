"""A partition that was moved by hand between two log directories of a broker (S1.5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import read_checkpoint, write_checkpoint
from tests.kafka.judge.judge import Kafka, KafkaFailedError
from tests.spark.runs import NOW, add_partition, by_name, clean, new_log_dir, plan, run, settings
from winnow.api import doctor

pytestmark = pytest.mark.spark

CLEANER = "cleaner-offset-checkpoint"
SETS = (
    "*:cleanup.policy=compact",
    "*:internal.segment.bytes=65536",
    "*:min.cleanable.dirty.ratio=0",
)


def attend(kafka: Kafka, one: Path, two: Path, root: Path) -> None:
    """Kafka's own cleaner over copies of both log directories. KafkaFailedError if it dies."""
    root.mkdir()
    for log_dir in (one, two):
        copy_tree(log_dir, root / log_dir.name)
    partitions = [path for path in root.glob("*/*-[0-9]") if path.is_dir()]
    kafka.attend(partitions, now=NOW, config={"cleanup.policy": "compact"})


def test_one_cleaner_entry_remains_and_kafkas_cleaner_runs(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    one, two = new_log_dir(tmp_path / "one"), new_log_dir(tmp_path / "two")
    add_partition(one, "c-tomb-0", "c-tomb-0")
    for name in ("moved-0", "twice-0"):
        add_partition(two, name, "c-tomb-0")
    write_checkpoint(one / CLEANER, {"moved-0": 120, "twice-0": 240, "gone-3": 1})
    write_checkpoint(two / CLEANER, {"twice-0": 120})
    with pytest.raises(KafkaFailedError, match="Duplicate key"):
        attend(kafka, one, two, tmp_path / "before")

    found = doctor(spark, [str(one), str(two)], settings=settings(*SETS), topics=(), now=NOW)
    assert [(f"{m.topic}-{m.partition}", m.stops_cleaner, m.log_dir) for m in found.misplaced] == [
        ("moved-0", False, str(two)),
        ("twice-0", True, str(two)),
    ]
    assert "Duplicate key" in found.misplaced[1].words
    assert ("clean", "--topics", "moved", "--topics", "twice") in [
        advice.arguments for advice in found.advice
    ]

    for verb in (plan, clean):
        result = by_name(run(verb, spark, one, two, sets=SETS))
        assert {name: p.first_dirty_offset_before for name, p in result.items()} == {
            "c-tomb-0": 0,
            "moved-0": 120,
            "twice-0": 120,
        }
    ends = {name: p.first_dirty_offset_after for name, p in result.items()}
    assert read_checkpoint(one / CLEANER) == {"c-tomb-0": ends["c-tomb-0"], "gone-3": 1}
    assert read_checkpoint(two / CLEANER) == {name: ends[name] for name in ("moved-0", "twice-0")}
    attend(kafka, one, two, tmp_path / "after")
    assert (
        doctor(spark, [str(one), str(two)], settings=settings(*SETS), topics=(), now=NOW).misplaced
        == ()
    )


def test_entries_are_gathered_even_if_nothing_is_cleaned(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, two = new_log_dir(tmp_path / "one"), new_log_dir(tmp_path / "two")
    add_partition(two, "kept-0", "c-tomb-0")
    write_checkpoint(one / CLEANER, {"kept-0": 120})
    write_checkpoint(two / CLEANER, {"kept-0": 240})
    result = run(
        clean, spark, one, two, sets=("*:cleanup.policy=compact", "*:min.cleanable.dirty.ratio=1")
    )
    assert by_name(result)["kept-0"].actions == ("none",)
    assert (read_checkpoint(one / CLEANER), read_checkpoint(two / CLEANER)) == ({}, {"kept-0": 120})
