"""A run commits what it has read before it reads more, so that one that is stopped has done part of
its work.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError

from tests.fixtures.data import copy_tree
from tests.spark.runs import (
    AtStage,
    Stages,
    add_partition,
    by_name,
    changes,
    checkpoint,
    clean,
    files_of,
    new_log_dir,
    run,
    set_checkpoint,
    stray_files,
)
from winnow.cleaning import clean as cleaning
from winnow.cleaning import schedule
from winnow.logdir.names import CLEANER_CHECKPOINT
from winnow.runtime.stop import Stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COMPACTED = ("b-txn-0", "c-tomb-0", "t-long-0", "cd-mixed-0")
SETS = (
    "*:min.cleanable.dirty.ratio=0",
    "?-*:cleanup.policy=compact",
    "cd-mixed:cleanup.policy=compact,delete",
    "d-time:cleanup.policy=delete",
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """`c-tomb-0` is the cleanest: its first segments are clean already."""
    path = new_log_dir(tmp_path / "log-dir")
    for name in (*COMPACTED, "d-time-0"):
        add_partition(path, name, name)
    bases = sorted(int(path.stem) for path in (path / "c-tomb-0").glob("*.log"))
    set_checkpoint(path / CLEANER_CHECKPOINT, "c-tomb-0", bases[3])
    return path


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is one partition."""
    monkeypatch.setattr(schedule, "BATCH_BYTES", 1)


def content(log_dir: Path) -> dict[str, str]:
    return {name: file.digest for name, file in files_of(log_dir).items() if file is not None}


def test_batches_leave_the_same_files_as_one(
    spark: SparkSession, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    copy_tree(log_dir, other)
    at_once = run(clean, spark, log_dir, sets=SETS)
    monkeypatch.setattr(schedule, "BATCH_BYTES", 1)
    stages = Stages()
    portioned = run(clean, spark, other, sets=SETS, progress=stages)
    assert sum("; compacting 1 partition" in name for name in stages.names) == len(COMPACTED)
    assert len({name.partition(" done; ")[0] for name in stages.names if " done; " in name}) == 4
    assert content(other) == content(log_dir)
    for first, second in zip(at_once.partitions, portioned.partitions, strict=True):
        assert (first.actions, first.reason, first.records_removed) == (
            second.actions,
            second.reason,
            second.records_removed,
        )


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("stage", ["reading", "compacting"])
def test_stopped_run_has_done_the_batches_before(
    spark: SparkSession, log_dir: Path, stage: str
) -> None:
    before = files_of(log_dir)
    stop, seen = Stop(), list[str]()

    def at_the_third() -> None:
        seen.append(stage)
        if len(seen) == 3:
            stop.request("a test")

    result = run(
        clean, spark, log_dir, sets=SETS, stop=stop, progress=AtStage(f"; {stage}", at_the_third)
    )
    named = by_name(result)
    done = {name for name in named if named[name].actions != ("none",)}
    assert "d-time-0" in done, "retention makes room first"
    assert len(done & {*COMPACTED}) == 2
    assert "c-tomb-0" not in done, "the dirtiest come first"
    for name in {*COMPACTED} - done:
        assert (named[name].code, named[name].error) == ("not-done", None)
        assert not [one for one in changes(before, files_of(log_dir)) if one.startswith(name)]
    assert (result.status, result.exit_code) == ("partial", 3)
    assert done & {*COMPACTED} <= {*checkpoint(log_dir / CLEANER_CHECKPOINT)}
    assert stray_files(log_dir) == []
    again = by_name(run(clean, spark, log_dir, sets=SETS))
    assert all("compacted" in again[name].actions for name in {*COMPACTED} - done)


def test_each_run_with_a_time_limit_goes_further(
    spark: SparkSession, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However short it is against the whole work: the time is over when a second partition is about
    to be read.
    """
    monkeypatch.setattr(schedule, "ASSUMED_RATE", 1)
    left = {*COMPACTED}
    for _ in COMPACTED:
        now, seen = [0.0], list[str]()

        def over(now: list[float] = now, seen: list[str] = seen) -> None:
            seen.append("")
            if len(seen) == 2:
                now[0] = 60.0

        result = run(
            clean,
            spark,
            log_dir,
            sets=SETS,
            stop=Stop(timeout_s=60, clock=lambda now=now: now[0]),
            progress=AtStage("; reading", over),
        )
        done = {n for n, p in by_name(result).items() if "compacted" in p.actions}
        assert len(done & left) == 1
        left -= done
        assert result.exit_code == (3 if left else 0)
    assert not left


@pytest.mark.usefixtures("one_by_one")
def test_failed_job_of_one_batch_leaves_the_others(
    spark: SparkSession, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk, count = cleaning.read_headers, 0

    def failing(*arguments: object) -> object:
        nonlocal count
        count += 1
        if count == 2:
            raise Py4JError("the worker is gone")
        return walk(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(cleaning, "read_headers", failing)
    result = run(clean, spark, log_dir, sets=SETS)
    failed = [p for p in result.partitions if p.error is not None]
    assert [p.error for p in failed] == ["the Spark job failed: the worker is gone"]
    assert sum("compacted" in p.actions for p in result.partitions) == len(COMPACTED) - 1
