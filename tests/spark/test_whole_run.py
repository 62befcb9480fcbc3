"""A plan, a run and a second run over the whole recorded log directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir, partition_dirs
from tests.spark.runs import (
    NOW,
    File,
    by_name,
    changes,
    checkpoint,
    clean,
    files_of,
    plan,
    run,
    stray_files,
)
from winnow.cleaning.result import RunResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OWNER = (1234, 4321) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
TRANSACTIONAL = ("__consumer_offsets-0", "t-closed-0", "t-long-0", "t-open-0", "t-v1-0")
START_OFFSET = 460

Files = dict[str, File | None]


@dataclass(frozen=True)
class Runs:
    log_dir: Path
    before: Files
    planned: RunResult
    after_plan: Files
    cleaned: RunResult
    after_clean: Files
    again: RunResult
    after_again: Files


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The broker's files are of another owner and mode than what this process would make."""
    log_dir = copy_log_dir("clean", tmp_path_factory.mktemp("whole") / "log-dir")
    # Two whole segments of a log with transactions, and a part of the third, lie below the start of
    # the log.
    bases = sorted(int(path.stem) for path in (log_dir / "t-closed-0").glob("*.log"))
    assert bases[2] < START_OFFSET < bases[3]
    (log_dir / "log-start-offset-checkpoint").write_text(
        f"0\n2\nd-start 0 1234\nt-closed 0 {START_OFFSET}\n"
    )
    for path in log_dir.rglob("*"):
        if path.is_file():
            os.chown(path, *OWNER)
            path.chmod(0o640)
    before = files_of(log_dir)
    planned = run(plan, spark, log_dir)
    after_plan = files_of(log_dir)
    cleaned = run(clean, spark, log_dir)
    after_clean = files_of(log_dir)
    again = run(clean, spark, log_dir)
    return Runs(
        log_dir, before, planned, after_plan, cleaned, after_clean, again, files_of(log_dir)
    )


def test_plan_changes_nothing(runs: Runs) -> None:
    assert changes(runs.before, runs.after_plan) == []


def test_second_run_at_same_time_changes_no_file(runs: Runs) -> None:
    assert changes(runs.before, runs.after_clean)
    assert changes(runs.after_clean, runs.after_again) == []


def test_second_run_reports_that_nothing_was_done(runs: Runs) -> None:
    assert {p.actions for p in runs.again.partitions} == {("none",)}
    for p in runs.again.partitions:
        assert (p.segments_before, p.bytes_before, p.log_start_offset_before) == (
            *(p.segments_after, p.bytes_after),
            p.log_start_offset_after,
        )
        assert p.first_dirty_offset_before == p.first_dirty_offset_after


def test_each_partition_is_reported_once_with_a_reason(runs: Runs) -> None:
    names = [directory.name for directory in partition_dirs(runs.log_dir)]
    for result in (runs.planned, runs.cleaned, runs.again):
        assert sorted(by_name(result)) == names
        assert all(
            p.reason and p.policy is not None and p.log_dir == str(runs.log_dir)
            for p in result.partitions
        )
        assert [p.error for p in result.partitions] == [None] * len(names)
        assert (result.now, result.status, result.exit_code) == (NOW, "done", 0)
    assert len({result.run_id for result in (runs.planned, runs.cleaned, runs.again)}) == 3


def test_plan_predicts_the_run(runs: Runs) -> None:
    done = by_name(runs.cleaned)
    for name, previewed in by_name(runs.planned).items():
        found = done[name]
        assert (previewed.actions, previewed.policy) == (found.actions, found.policy)
        afterwards = "retention is decided after the compaction" in previewed.reason
        assert previewed.reason == found.reason or afterwards
        assert "decided after" not in found.reason
        assert (previewed.segments_before, previewed.bytes_before) == (
            found.segments_before,
            found.bytes_before,
        )
        assert previewed.dirty_ratio == found.dirty_ratio
        for field in ("first_dirty_offset_after", "log_start_offset_after"):
            assert getattr(previewed, field) == (None if afterwards else getattr(found, field)), (
                name,
                field,
            )
        for field in ("segments_after", "bytes_after", "records_before"):
            assert getattr(previewed, field) in (None, getattr(found, field)), (name, field)
        # How many segments retention takes of what a compaction leaves can't be told before it.
        assert (previewed.segments_after is None) == afterwards


def test_reported_figures_match_the_disk(runs: Runs) -> None:
    starts = checkpoint(runs.log_dir / "log-start-offset-checkpoint")
    dirty = checkpoint(runs.log_dir / "cleaner-offset-checkpoint")
    for name, p in by_name(runs.cleaned).items():
        logs = sorted((runs.log_dir / name).glob("*.log"))
        assert (p.segments_after, p.bytes_after) == (
            len(logs),
            sum(log.stat().st_size for log in logs),
        ), name
        assert p.log_start_offset_after == max(int(logs[0].stem), starts.get(name, 0)), name
        if "compacted" in p.actions:
            assert dirty[name] == p.first_dirty_offset_after
            assert p.records_before is not None
            assert p.records_after is not None
            assert p.records_after < p.records_before


def test_no_stray_files_remain(runs: Runs) -> None:
    assert stray_files(runs.log_dir) == []


def test_every_file_keeps_owner_and_mode_of_the_broker(runs: Runs) -> None:
    """This includes replaced files, an empty segment that was rolled, and checkpoints."""
    assert len(changes(runs.before, runs.after_clean)) > 100
    wrong = {
        name: (oct(file.mode), file.owner)
        for name, file in runs.after_clean.items()
        if file is not None and (file.mode & 0o7777 != 0o640 or file.owner != OWNER)
    }
    assert wrong == {}


@pytest.mark.parametrize("name", TRANSACTIONAL)
def test_partitions_with_transactions_are_compacted(runs: Runs, name: str) -> None:
    p = by_name(runs.cleaned)[name]
    assert "compacted" in p.actions
    assert not p.left_alone
    dirty = checkpoint(runs.log_dir / "cleaner-offset-checkpoint")[name]
    assert dirty == p.first_dirty_offset_after
    assert ("has a transaction open since offset" in p.reason) == (name == "t-open-0")


def test_segments_below_log_start_are_deleted_after_compaction(
    runs: Runs,
) -> None:
    p = by_name(runs.cleaned)["t-closed-0"]
    assert p.actions == ("compacted", "retained")
    bases = sorted(int(path.stem) for path in (runs.log_dir / "t-closed-0").glob("*.log"))
    assert (p.segments_before, p.segments_after) == (7, len(bases))
    assert 0 < bases[0] <= START_OFFSET < bases[1]
    assert (p.log_start_offset_before, p.log_start_offset_after) == (START_OFFSET, START_OFFSET)
    assert checkpoint(runs.log_dir / "log-start-offset-checkpoint")["t-closed-0"] == START_OFFSET


def test_only_cleaned_partitions_and_their_checkpoints_change(
    runs: Runs,
) -> None:
    touched = {name for name, p in by_name(runs.cleaned).items() if p.actions != ("none",)}
    allowed = {*touched, "cleaner-offset-checkpoint", "log-start-offset-checkpoint"}
    assert {name.split("/")[0] for name in changes(runs.before, runs.after_clean)} <= allowed


def test_active_segments_of_compacted_partitions_are_never_touched(runs: Runs) -> None:
    changed = set(changes(runs.before, runs.after_clean))
    for name, p in by_name(runs.cleaned).items():
        if "compacted" in p.actions:
            active = max(path.stem for path in (runs.log_dir / name).glob("*.log"))
            assert not [file for file in changed if file.startswith(f"{name}/{active}.")]


def test_directory_that_is_no_partition_is_reported_as_skipped(runs: Runs) -> None:
    assert [note for note in runs.cleaned.notes if "__cluster_metadata-0" in note]
