"""A run that is asked to stop finishes its current commit, starts no other, and leaves no stray
files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.runs import (
    AtStage,
    Verb,
    add_partition,
    by_name,
    changes,
    checkpoint,
    clean,
    files_of,
    new_log_dir,
    plan,
    run,
    stray_files,
)
from winnow.cleaning.commit import commit
from winnow.errors import StoppedError
from winnow.runtime.stop import Stop
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETS = ("c*:cleanup.policy=compact", "*:internal.segment.bytes=65536", "d*:cleanup.policy=delete")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = new_log_dir(tmp_path / "d")
    for name, source in (
        ("c1-0", "c-4p-1"),
        ("c2-0", "c-tomb-0"),
        ("c3-0", "c-hotkey-0"),
        ("d-time-0", "d-time-0"),
    ):
        add_partition(path, name, source)
    return path


def test_stop_during_a_spark_job_cancels_it_and_commits_nothing(
    spark: SparkSession, log_dir: Path
) -> None:
    before = files_of(log_dir)
    stop = Stop()
    result = run(
        clean,
        spark,
        log_dir,
        sets=SETS,
        stop=stop,
        progress=AtStage("compacting", lambda: stop.request("a test")),
    )
    named = by_name(result)
    assert named["d-time-0"].actions == ("retained",)
    for name in ("c1-0", "c2-0", "c3-0"):
        assert (named[name].actions, named[name].left_alone, named[name].error) == (
            ("none",),
            True,
            None,
        )
        assert named[name].reason == "unchanged: the run was stopped, a test"
        assert named[name].code == "not-done"
    assert not [name for name in changes(before, files_of(log_dir)) if name.startswith("c")]
    assert stray_files(log_dir) == []
    assert (result.status, result.exit_code) == ("partial", 3)


@pytest.mark.parametrize("suffix", [".cleaned", ".swap", ".deleted", ".log"])
def test_stop_during_a_commit_finishes_it_and_starts_no_other(
    spark: SparkSession, log_dir: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    stop = Stop()
    begun: list[str] = []
    rename = LocalStorage.rename

    def stopping(self: LocalStorage, source: str, target: str) -> None:
        rename(self, source, target)
        partition = Path(target).parent.name
        if partition.startswith("c") and target.endswith(suffix):
            stop.request("a test")
            begun.append(partition)

    with monkeypatch.context() as patch:
        # tests/crash/test_side_by_side_stops.py stops a run with two commits under way.
        patch.setattr(commit, "COMMITS_AT_ONCE", 1)
        patch.setattr(LocalStorage, "rename", stopping)
        named = by_name(run(clean, spark, log_dir, sets=SETS, stop=stop))
    (done,) = set(begun)
    assert named[done].actions == ("compacted",)
    assert list(checkpoint(log_dir / "cleaner-offset-checkpoint")) == [done]
    left = {"c1-0", "c2-0", "c3-0"} - {done}
    assert all(named[name].left_alone for name in left)
    assert stray_files(log_dir) == []
    # What was left is cleaned by the next run as if nothing had been.
    again = by_name(run(clean, spark, log_dir, sets=SETS))
    assert {name for name in left if again[name].actions == ("compacted",)} == left


@pytest.mark.parametrize("verb", [plan, clean])
def test_stop_before_any_result_is_reported(spark: SparkSession, log_dir: Path, verb: Verb) -> None:
    stop = Stop()
    before = files_of(log_dir)
    with pytest.raises(StoppedError, match="a test") as stopped:
        run(
            verb,
            spark,
            log_dir,
            sets=SETS,
            stop=stop,
            progress=AtStage("looking", lambda: stop.request("a test")),
        )
    assert stopped.value.exit_code == 3
    assert changes(before, files_of(log_dir)) == []


def test_stop_neither_cancels_jobs_of_the_caller_nor_leaves_tags(
    spark: SparkSession, log_dir: Path
) -> None:
    stop = Stop()
    run(
        clean,
        spark,
        log_dir,
        sets=SETS,
        stop=stop,
        progress=AtStage("compacting", lambda: stop.request("a test")),
    )
    assert len(spark.sparkContext.getJobTags()) == 0
    assert spark.sparkContext.parallelize(range(10), 2).sum() == 45


def test_stop_while_records_are_read_for_the_space_they_need_is_a_result(
    spark: SparkSession, log_dir: Path
) -> None:
    stop = Stop()
    result = run(
        clean,
        spark,
        log_dir,
        sets=SETS,
        max_extra_space=100,
        stop=stop,
        progress=AtStage("weighing", lambda: stop.request("a test")),
    )
    named = by_name(result)
    assert named.pop("d-time-0").actions == ("retained",)
    assert {(p.code, p.reason) for p in named.values()} == {
        ("not-done", "unchanged: the run was stopped, a test")
    }
