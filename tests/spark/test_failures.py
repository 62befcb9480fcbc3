"""A partition that cannot be written keeps its log unchanged, and the others are cleaned."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.disks import disk_or_skip
from tests.fixtures.data import copy_tree
from tests.spark.runs import (
    AtStage,
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
from winnow.cleaning.rewrite import assignment, compaction
from winnow.cleaning.rewrite.compaction import Outcome, run_compaction
from winnow.errors import NoSpaceError
from winnow.runtime.progress import Progress
from winnow.runtime.spool import StoredKeys
from winnow.scan.job import CompactionJob
from winnow.storage.local import LocalStorage
from winnow.storage.places import free_bytes

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETS = ("*:cleanup.policy=compact", "*:internal.segment.bytes=65536")


def two_partitions(path: Path) -> Path:
    log_dir = new_log_dir(path)
    add_partition(log_dir, "fails-0", "c-4p-1")
    add_partition(log_dir, "fine-0", "c-tomb-0")
    return log_dir


def test_failed_staging_directory_affects_only_its_partition(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = two_partitions(tmp_path / "d")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "00000000")
    monkeypatch.setattr(time, "strftime", lambda *_: "20260101T000000Z")
    in_the_way = log_dir / "fails-0" / ".winnow-20260101T000000Z-00000000"
    in_the_way.write_text("a file of somebody else")
    before = files_of(log_dir / "fails-0")
    result = run(clean, spark, log_dir, sets=SETS)
    failed, fine = (by_name(result)[name] for name in ("fails-0", "fine-0"))
    assert in_the_way.name in (failed.error or "")
    assert (failed.actions, failed.left_alone) == (("none",), True)
    assert changes(before, files_of(log_dir / "fails-0")) == []
    assert (fine.actions, fine.error) == (("compacted",), None)
    assert list(checkpoint(log_dir / "cleaner-offset-checkpoint")) == ["fine-0"]
    assert result.exit_code == 3


def test_source_changed_during_the_run_is_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """Another process writes in spite of the lock. The files are no longer what was read."""
    log_dir = two_partitions(tmp_path / "d")
    log = log_dir / "fails-0" / f"{648:020d}.log"

    def touch() -> None:
        os.utime(log, ns=(1, 1_700_000_000_000_000_000))

    before = files_of(log_dir / "fails-0")
    result = run(clean, spark, log_dir, sets=SETS, progress=AtStage("compacting", touch))
    failed, fine = (by_name(result)[name] for name in ("fails-0", "fine-0"))
    assert str(log) in (failed.error or "")
    assert failed.actions == ("none",)
    assert (fine.actions, fine.error) == (("compacted",), None)
    assert changes(before, files_of(log_dir / "fails-0")) == [log.name]
    assert "fails-0" not in checkpoint(log_dir / "cleaner-offset-checkpoint")
    assert stray_files(log_dir) == []


def lying_in(path: str, keys: StoredKeys) -> StoredKeys:
    """Return prefetched keys as if they lay at the start of a file."""
    names = ("starts", "hashes", "numbers", "tombstones")
    return replace(
        keys,
        parts=tuple(
            replace(
                part,
                **{name: replace(getattr(part, name), path=path, start=0) for name in names},
            )
            for part in keys.parts
        ),
    )


@pytest.mark.parametrize(("left", "shuffled"), [(0, False), (8, False), (8, True)])
def test_lost_prefetched_keys_affect_only_their_partition(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    left: int,
    shuffled: bool,
) -> None:
    """`left`: the number of bytes that remain of them. Others may be in the same files. `shuffled`:
    another task than the one that rewrites records resolves their keys.
    """
    if shuffled:
        monkeypatch.setattr(assignment, "_RESOLVED_BY_REWRITE", 0)
    log_dir = two_partitions(tmp_path / "d")
    for number in range(8):  # or one segment would outweigh all others
        add_partition(log_dir, f"more-{number}", "c-4p-1")
    lost = tmp_path / "winnow-spool-lost"
    if left:
        lost.write_bytes(bytes(left))

    def losing_keys(
        sc: SparkContext, job: CompactionJob, progress: Progress, *, estimates: bool
    ) -> list[list[Outcome]]:
        partitions = list(job.partitions)
        (failing,) = (
            number
            for number, partition in enumerate(partitions)
            if partition.directory.endswith("fails-0")
        )
        splits = partitions[failing].splits
        assert any(split.keys for split in splits)
        partitions[failing] = replace(
            partitions[failing],
            splits=tuple(
                replace(split, keys=split.keys and lying_in(str(lost), split.keys))
                for split in splits
            ),
        )
        return run_compaction(
            sc, replace(job, partitions=tuple(partitions)), progress, estimates=estimates
        )

    monkeypatch.setattr(compaction, "run_compaction", losing_keys)
    before = files_of(log_dir / "fails-0")
    result = run(clean, spark, log_dir, sets=SETS)
    failed, fine = (by_name(result)[name] for name in ("fails-0", "fine-0"))
    assert "winnow-spool-" in (failed.error or "")
    assert (failed.actions, failed.left_alone) == (("none",), True)
    assert changes(before, files_of(log_dir / "fails-0")) == []
    assert (fine.actions, fine.error) == (("compacted",), None)
    assert stray_files(log_dir) == []


def test_segment_that_fails_when_read_back_affects_only_its_partition(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task writes further small segments while it syncs and reads back the ones before."""
    log_dir = two_partitions(tmp_path / "d")
    more = [f"more-{number}" for number in range(16)]
    for name in more:
        add_partition(log_dir, name, "c-tomb-0")

    def with_wrong_end(
        sc: SparkContext, job: CompactionJob, progress: Progress, *, estimates: bool
    ) -> list[list[Outcome]]:
        partitions = [
            replace(partition, end_offset=1)
            if partition.directory.endswith("fails-0")
            else partition
            for partition in job.partitions
        ]
        return run_compaction(
            sc, replace(job, partitions=tuple(partitions)), progress, estimates=estimates
        )

    monkeypatch.setattr(compaction, "run_compaction", with_wrong_end)
    before = files_of(log_dir / "fails-0")
    results = by_name(run(clean, spark, log_dir, sets=SETS))
    assert "last offset" in (results["fails-0"].error or "")
    assert results["fails-0"].actions == ("none",)
    assert changes(before, files_of(log_dir / "fails-0")) == []
    logs = {
        name: {path.name: path.read_bytes() for path in sorted((log_dir / name).glob("*.log"))}
        for name in ("fine-0", *more)
    }
    for name in more:
        assert (results[name].actions, results[name].error) == (("compacted",), None)
        assert logs[name] == logs["fine-0"]
    assert stray_files(log_dir) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    with disk_or_skip(tmp_path / "disk", mib=7) as disk:
        yield disk


def test_space_is_checked_after_retention_has_freed_some(
    spark: SparkSession, small_disk: Path
) -> None:
    """Before retention, there is no room."""
    log_dir = new_log_dir(small_disk / "d")
    compacted, expired = (
        add_partition(log_dir, "c-4p-1", "c-4p-1"),
        add_partition(log_dir, "d-time-0", "d-time-0"),
    )
    needed, frees = (
        sum(log.stat().st_size for log in path.glob("*.log")) for path in (compacted, expired)
    )
    assert needed < frees
    (small_disk / "ballast").write_bytes(bytes(free_bytes(str(small_disk))))
    held = by_name(run(clean, spark, log_dir, sets=SETS, topics=["c-4p"]))["c-4p-1"]
    assert held.error_code == NoSpaceError.exit_code
    done = by_name(
        run(
            clean,
            spark,
            log_dir,
            sets=[*SETS, "d-time:cleanup.policy=delete", "d-time:retention.ms=0"],
        )
    )
    assert (done["d-time-0"].actions, done["c-4p-1"].actions) == (("retained",), ("compacted",))


def test_disk_that_fills_during_the_run_leaves_log_unchanged(
    spark: SparkSession, small_disk: Path, tmp_path: Path
) -> None:
    log_dir, other = new_log_dir(small_disk / "d"), new_log_dir(tmp_path / "other")
    add_partition(log_dir, "fails-0", "c-4p-1")
    add_partition(other, "fine-0", "c-tomb-0")
    before = files_of(log_dir)

    def fill() -> None:
        room = os.statvfs(small_disk)
        (small_disk / "ballast").write_bytes(bytes(room.f_bavail * room.f_frsize))

    result = run(clean, spark, log_dir, other, sets=SETS, progress=AtStage("compacting", fill))
    failed, fine = (by_name(result)[name] for name in ("fails-0", "fine-0"))
    assert "No space left on device" in (failed.error or "")
    assert changes(before, files_of(log_dir)) == []
    assert (fine.actions, fine.error) == (("compacted",), None)
    assert stray_files(log_dir) == []
    (small_disk / "ballast").unlink()
    again = run(clean, spark, log_dir, sets=SETS)
    assert by_name(again)["fails-0"].actions == ("compacted",)


def test_failed_run_can_be_repeated_on_the_unchanged_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The next run ends as on a directory that never had the failure."""
    log_dir, sound = two_partitions(tmp_path / "d"), tmp_path / "sound"
    copy_tree(log_dir, sound)
    log = log_dir / "fails-0" / f"{648:020d}.log"
    times = log.stat()

    def touch() -> None:
        os.utime(log, ns=(1, 1_700_000_000_000_000_000))

    run(clean, spark, log_dir, sets=SETS, progress=AtStage("compacting", touch))
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert by_name(run(clean, spark, log_dir, sets=SETS))["fails-0"].actions == ("compacted",)
    run(clean, spark, sound, sets=SETS)
    assert changes(files_of(sound / "fails-0"), files_of(log_dir / "fails-0")) == []


def test_failed_spark_job_commits_nothing_and_is_reported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def losing_splits(
        sc: SparkContext, job: CompactionJob, progress: Progress, *, estimates: bool
    ) -> list[list[Outcome]]:
        without = [
            replace(one, groups=tuple(replace(g, splits=()) for g in one.groups))
            for one in job.partitions
        ]
        return run_compaction(
            sc, replace(job, partitions=tuple(without)), progress, estimates=estimates
        )

    log_dir = two_partitions(tmp_path / "d")
    add_partition(log_dir, "d-time-0", "d-time-0")
    monkeypatch.setattr(compaction, "run_compaction", losing_splits)
    before = files_of(log_dir)
    result = run(clean, spark, log_dir, sets=[*SETS, "d-time:cleanup.policy=delete"])
    named = by_name(result)
    for name in ("fails-0", "fine-0"):
        assert named[name].error
        assert named[name].actions == ("none",)
        assert [file for file in changes(before, files_of(log_dir)) if file.startswith(name)] == []
    assert (named["d-time-0"].actions, named["d-time-0"].error) == (("retained",), None)
    assert stray_files(log_dir) == []
    assert result.exit_code == 3


def test_unexpected_error_in_one_partition_does_not_stop_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do manifests that Winnow did not write."""
    log_dir = two_partitions(tmp_path / "d")
    for name, file, content in (
        (".winnow-x", "round.json", "[" * 5000 + "]" * 5000),
        (".winnow-x-quarantine", "file", ""),
        (
            ".winnow-quarantine-x",
            "manifest.json",
            '{"version": 1, "segments": [{"base_offset": "a", "log_bytes": 1}]}',
        ),
    ):
        (log_dir / "fails-0" / name).mkdir()
        (log_dir / "fails-0" / name / file).write_text(content)
    assert "left" in by_name(run(plan, spark, log_dir, sets=SETS))["fails-0"].reason
    rename = LocalStorage.rename

    def failing(self: LocalStorage, source: str, target: str) -> None:
        if "/d/fails-0/" in target and target.endswith(".swap"):
            raise RuntimeError("a defect")
        rename(self, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "rename", failing)
        result = run(clean, spark, log_dir, sets=SETS)
    failed, fine = (by_name(result)[name] for name in ("fails-0", "fine-0"))
    assert "RuntimeError: a defect" in (failed.error or "")
    assert (fine.actions, fine.error) == (("compacted",), None)
    assert result.exit_code == 3
    again = by_name(run(clean, spark, log_dir, sets=SETS))["fails-0"]
    assert (again.actions, again.error) == (("compacted",), None)


@pytest.mark.parametrize("renames", [1, 4, 8, 20, 30])
def test_disk_error_during_commit_is_reported_and_next_run_recovers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    log_dir, sound = two_partitions(tmp_path / "d"), tmp_path / "sound"
    copy_tree(log_dir, sound)
    done = 0
    rename = LocalStorage.rename

    def failing(self: LocalStorage, source: str, target: str) -> None:
        nonlocal done
        done += "/d/fails-0/" in target
        if done > renames and "/d/fails-0/" in target:
            raise OSError(errno.EIO, "Input/output error", target)
        rename(self, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "rename", failing)
        result = run(clean, spark, log_dir, sets=SETS)
    failed, fine = (by_name(result)[name] for name in ("fails-0", "fine-0"))
    assert "Input/output error" in (failed.error or "")
    assert (fine.actions, fine.error) == (("compacted",), None)
    assert "fails-0" not in checkpoint(log_dir / "cleaner-offset-checkpoint")
    assert result.exit_code == 3
    lying_there = sum(path.stat().st_size for path in (log_dir / "fails-0").glob("*.log"))
    assert failed.bytes_after in (None, lying_there)

    again = by_name(run(clean, spark, log_dir, sets=SETS))["fails-0"]
    assert (again.actions, again.error) == (("compacted",), None)
    assert "finished the cleaning" in again.reason
    done = by_name(run(clean, spark, sound, sets=SETS))["fails-0"]
    assert (again.bytes_after, again.segments_after) == (done.bytes_after, done.segments_after)
    assert stray_files(log_dir) == []
    assert changes(files_of(sound / "fails-0"), files_of(log_dir / "fails-0")) == []
