"""Whole runs over Kafka's internal topics: which clients' records filled them, and how much of each
remains.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.runs import by_name, clean, plan, run
from tests.twins.walk import decode_batch
from winnow.wire.internal_topics import decode_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OFFSETS = ("__consumer_offsets-0", "__consumer_offsets-1")


def counted(directory: Path) -> dict[str, tuple[int, int]]:
    """Records and bytes by group, one batch after the other; each batch of this recording is of one
    group.
    """
    records: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position < len(data):
            header, found = decode_batch(data, position)
            position += int(header["size"])
            names = {
                key.name
                for one in found
                if (key := decode_key("__consumer_offsets", one.key)) is not None
            }
            for name in names:
                records[name] += len(found)
                sizes[name] += int(header["size"])
            assert len(names) == 1 or all(
                decode_key("__consumer_offsets", one.key) is None for one in found
            )
    return {name: (records[name], sizes[name]) for name in records}


def assert_is(found: tuple[int, int] | None, records: int | None, size: int | None) -> None:
    """The share that each record has of its batch is rounded down."""
    assert found is not None
    assert size is not None
    assert found[0] == records
    assert found[1] - size in range(max(found[0], 1))


def test_groups_that_filled_the_offsets_topic_are_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=[*OFFSETS, "c-tomb-0"])
    before = {name: counted(log_dir / name) for name in OFFSETS}
    previewed = by_name(run(plan, spark, log_dir))
    cleaned = by_name(run(clean, spark, log_dir))
    after = {name: counted(log_dir / name) for name in OFFSETS}
    for name in OFFSETS:
        result = cleaned[name]
        assert result.actions == ("compacted",)
        assert result.holders_total == len(before[name]) > 1
        for holder in result.holders:
            assert_is(before[name].get(holder.name), holder.records_before, holder.bytes_before)
            assert_is(
                after[name].get(holder.name, (0, 0)), holder.records_after, holder.bytes_after
            )
        sizes = [holder.bytes_before for holder in result.holders]
        assert sizes == sorted(sizes, reverse=True)
        assert previewed[name].holders_total == result.holders_total
        assert previewed[name].holders == tuple(
            replace(holder, records_after=None, bytes_after=None) for holder in result.holders
        )
    assert (
        "group-1" in before["__consumer_offsets-0"].keys() | before["__consumer_offsets-1"].keys()
    )


def test_keys_of_other_topics_are_never_shown(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-tomb-0"])
    (result,) = run(clean, spark, log_dir).partitions
    assert result.actions == ("compacted",)
    assert (result.holders, result.holders_total) == ((), None)
