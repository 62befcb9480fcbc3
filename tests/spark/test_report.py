"""The segments, dirty ratios and times that a run reports are what happened on the disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import winnow
from tests.spark.runs import by_name, clean, files_of, plan, run
from winnow.cleaning.result import COMPACTED, NONE, RETAINED, PartitionResult

pytestmark = pytest.mark.spark


def test_reported_fates_ratios_and_times_match_the_disk(spark: SparkSession, log_dir: Path) -> None:
    before = files_of(log_dir)
    sets = ["cd-mixed:retention.bytes=120000"]
    previewed = by_name(run(plan, spark, log_dir, sets=sets))
    done = by_name(run(clean, spark, log_dir, sets=sets))
    after = files_of(log_dir)
    again = by_name(run(plan, spark, log_dir, sets=sets))
    assert {p.actions for p in done.values()} == {
        (COMPACTED,),
        (RETAINED,),
        (COMPACTED, RETAINED),
        (NONE,),
    }
    for name, p in done.items():
        assert sum(segment.bytes for segment in p.segments) == (p.bytes_before or 0), name
        assert {segment.base_offset for segment in p.segments} == {
            int(Path(file).stem)
            for file in before
            if file.startswith(f"{name}/") and file.endswith(".log")
        }
        for segment in p.segments:
            file = f"{name}/{segment.base_offset:020}.log"
            assert segment.fate != "kept" or after[file] == before[file], file
            assert segment.fate != "deleted" or file not in after, file
        fates = {segment.fate for segment in p.segments}
        assert ("compacted" in fates, "deleted" in fates) == (
            COMPACTED in p.actions,
            RETAINED in p.actions,
        ), name
        assert (p.duration_ms is None) == (p.actions == (NONE,)), name
        assert p.dirty_ratio_after == again[name].dirty_ratio, name
        if set(p.actions) != {COMPACTED, RETAINED}:
            # Only what is read has a checksum, and only then it is known whether it changes.
            assert previewed[name].segments == tuple(
                replace(
                    segment,
                    checksum=None,
                    fate="deleted" if segment.fate == "deleted" else "compacted",
                )
                if segment.checksum is not None
                else segment
                for segment in p.segments
            ), name
            unchanged = [s for s in p.segments if s.fate == "kept" and s.checksum is not None]
            assert (p.segments_unchanged or 0) == len(unchanged), name
    assert any(p.dirty_ratio for p in done.values())
    assert 0 < sum(done["c-tomb-0"].tombstones) == tombstones(spark, log_dir, done["c-tomb-0"])


def tombstones(spark: SparkSession, log_dir: Path, p: PartitionResult) -> int:
    """In what the round cleaned of the only partition of its topic, as a consumer would get
    them.
    """
    winnow.register(spark)
    records = spark.read.format("kafka-log").option("topics", p.topic).load(str(log_dir))
    return records.where(f"value IS NULL AND offset < {p.first_dirty_offset_after}").count()
