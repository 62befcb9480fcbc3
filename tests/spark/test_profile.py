"""`--profile`: the time and bytes of each phase of a run, as Spark and the tasks measure them.
Without the option nothing is measured.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.runs import add_partition, clean, new_log_dir, plan, run
from winnow.runtime.profile import Mark, profiling

pytestmark = pytest.mark.spark

SETS = ["q-*:cleanup.policy=compact", "q-*:min.cleanable.dirty.ratio=0"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    made = new_log_dir(tmp_path / "log")
    add_partition(made, "q-a-0", "c-none-0")
    return made


@pytest.mark.parametrize("shuffled", [False, True])
def test_each_phase_has_its_jobs_and_bytes_and_they_add_up(
    spark: SparkSession, small: Path, monkeypatch: pytest.MonkeyPatch, *, shuffled: bool
) -> None:
    """Few keys are resolved by the task that rewrites their records, without a shuffle."""
    if shuffled:
        monkeypatch.setattr("winnow.cleaning.rewrite.assignment._RESOLVED_BY_REWRITE", 0)
    sc = spark.sparkContext
    sc.parallelize([1], 1).count()  # of somebody else
    with profiling(sc, earlier=[Mark("before", 1)]) as profiler:
        result = run(clean, spark, small, sets=SETS, progress=profiler)
        sc.parallelize([1], 1).count()
    sc.parallelize([1], 1).count()
    profile = profiler.profile()
    (partition,) = result.partitions
    phases = {phase.name: phase for phase in profile.phases}
    assert profile.seconds == pytest.approx(sum(phase.seconds for phase in profile.phases))
    compacting = phases["compacting 1 partition"]
    assert (compacting.jobs, compacting.stages) == (1, 2 if shuffled else 1)
    # Headers, compaction; and the one after it.
    assert sum(phase.jobs for phase in profile.phases) == 3
    compacted = sum(segment.bytes for segment in partition.segments if segment.fate == "compacted")
    staged = sum(output.bytes for output in partition.outputs)
    # The walk has scanned each split; it is read to rewrite it. What is staged is read back, and
    # has indexes beside it.
    assert compacting.bytes_read == pytest.approx(compacted + staged, rel=0.02)
    assert staged < compacting.bytes_written < staged * 1.05
    assert compacting.shuffle_bytes_written == compacting.shuffle_bytes_read
    assert (compacting.shuffle_bytes_read > 0) is shuffled
    assert compacting.python_cpu_seconds > 0
    assert 0 < compacting.read_back_seconds < compacting.seconds * sc.defaultParallelism
    assert compacting.task_seconds > 0
    assert partition.bytes_before is not None
    assert (
        phases["reading batch headers and keys of 1 partition"].bytes_read >= partition.bytes_before
    )
    assert phases["committing 1 partition"].jobs == 1  # what was submitted before the profile ended


def test_session_is_unchanged_after_a_profile(spark: SparkSession, small: Path) -> None:
    sc = spark.sparkContext
    before = sc.getJobTags()
    with profiling(sc) as profiler:
        run(plan, spark, small, sets=SETS, progress=profiler)
    assert sc.getJobTags() == before
    first = profiler.profile()
    assert first.phases[0].name == "looking at 1 partition"
    # What ran later has no part in it.
    run(plan, spark, small, sets=SETS)
    again = profiler.profile()
    assert sum(phase.jobs for phase in again.phases) == sum(phase.jobs for phase in first.phases)
