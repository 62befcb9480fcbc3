"""A run repairs what a crash left before it decides anything (S6.2, S6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_file
from tests.spark.runs import (
    File,
    add_partition,
    by_name,
    changes,
    clean,
    files_of,
    new_log_dir,
    plan,
    run,
    stray_files,
)
from winnow.cleaning.result import PartitionResult, RunResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SUFFIXES = (".log", ".index", ".timeindex")
FIRST, SECOND, THIRD = (f"{base:020d}" for base in (0, 648, 1318))


def during_writing(directory: Path) -> None:
    """Some `.cleaned`, and a `.swap` above: nothing has changed yet."""
    (directory / f"{FIRST}.log.cleaned").write_bytes(b"half a segm")
    (directory / f"{SECOND}.index.swap").write_bytes(b"")


def before_sources_go(directory: Path) -> None:
    """A whole output as `.swap`, all sources still there: it is finished."""
    for suffix in SUFFIXES:
        copy_file(directory / f"{SECOND}{suffix}", directory / f"{SECOND}{suffix}.swap")


def after_sources_went(directory: Path) -> None:
    for suffix in SUFFIXES:
        copy_file(directory / f"{SECOND}{suffix}", directory / f"{SECOND}{suffix}.swap")
        (directory / f"{SECOND}{suffix}").rename(directory / f"{SECOND}{suffix}.deleted")


def during_the_last_renames(directory: Path) -> None:
    for suffix in SUFFIXES[1:]:
        (directory / f"{SECOND}{suffix}").rename(directory / f"{SECOND}{suffix}.swap")


def before_removal(directory: Path) -> None:
    for suffix in SUFFIXES:
        (directory / f"{'0' * 17}100{suffix}.deleted").write_bytes(b"old")


def staging_directory(directory: Path) -> None:
    staging = directory / ".winnow-20260101T000000Z-00000000"
    staging.mkdir()
    (staging / f"{FIRST}.log.abc").write_bytes(b"half a segment")


CRASHES = {
    "writing": during_writing,
    "swap": before_sources_go,
    "sources": after_sources_went,
    "renames": during_the_last_renames,
    "removal": before_removal,
    "staging": staging_directory,
}
UNFINISHED = [name for name in CRASHES if name != "removal"]


@dataclass(frozen=True)
class Crashed:
    log_dir: Path
    before: dict[str, File | None]
    planned: RunResult
    after_plan: dict[str, File | None]
    cleaned: RunResult

    def results(self, name: str) -> tuple[PartitionResult, PartitionResult]:
        return by_name(self.planned)[name], by_name(self.cleaned)[name]


@pytest.fixture(scope="module")
def crashed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    log_dir = new_log_dir(tmp_path_factory.mktemp("crashed") / "d")
    add_partition(log_dir, "sound-0", "c-4p-1")
    for name, crash in CRASHES.items():
        crash(add_partition(log_dir, f"{name}-0", "c-4p-1"))
    sets = ["*:cleanup.policy=compact", "*:internal.segment.bytes=65536"]
    before = files_of(log_dir)
    planned = run(plan, spark, log_dir, sets=sets)
    after_plan = files_of(log_dir)
    return Crashed(log_dir, before, planned, after_plan, run(clean, spark, log_dir, sets=sets))


def test_plan_leaves_leftovers_unchanged(crashed: Crashed) -> None:
    assert changes(crashed.before, crashed.after_plan) == []


def test_plan_sees_the_log_without_files_that_are_deleted_already(crashed: Crashed) -> None:
    """A broker that stops leaves those that it would have removed after file.delete.delay.ms."""
    planned, cleaned = crashed.results("removal-0")
    sound, _ = crashed.results("sound-0")
    assert (planned.actions, planned.reason) == (sound.actions, sound.reason)
    assert planned.segments == sound.segments
    assert cleaned.bytes_after == crashed.results("sound-0")[1].bytes_after


@pytest.mark.parametrize("name", UNFINISHED)
def test_plan_reports_interrupted_run_to_recover_first(crashed: Crashed, name: str) -> None:
    planned, _ = crashed.results(f"{name}-0")
    assert (planned.actions, planned.left_alone, planned.error) == (("none",), True, None)
    assert planned.rule == "S6.3"
    assert "interrupted run" in planned.reason
    assert crashed.planned.exit_code == 3


@pytest.mark.parametrize("name", CRASHES)
def test_run_recovers_and_ends_as_without_the_crash(crashed: Crashed, name: str) -> None:
    _, done = crashed.results(f"{name}-0")
    _, sound = crashed.results("sound-0")
    assert (done.actions, done.error, done.left_alone) == (("compacted",), None, False)
    assert (done.segments_after, done.bytes_after, done.records_after) == (
        *(sound.segments_after, sound.bytes_after),
        sound.records_after,
    )
    found, wanted = (files_of(crashed.log_dir / which) for which in (f"{name}-0", "sound-0"))
    # A finished swap takes the snapshot at its base with it, as Kafka's loader does.
    assert [file for file in changes(wanted, found) if not file.endswith(".snapshot")] == []


def test_no_stray_files_remain(crashed: Crashed) -> None:
    assert stray_files(crashed.log_dir) == []
    assert (crashed.cleaned.status, crashed.cleaned.exit_code) == ("done", 0)


def test_result_says_what_was_put_right(crashed: Crashed) -> None:
    (note,) = crashed.cleaned.notes
    assert f"finished or removed in {len(CRASHES)} partitions: " in note
    assert "sound-0" not in note
    assert crashed.planned.notes == ()
