"""A disk with little free space: a log whose copy would not fit shrinks if what it keeps fits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.compare import assert_same_dump
from tests.disks import disk_or_skip
from tests.fixtures.data import CLEAN_MARKER, copy_tree
from tests.kafka.judge.judge import Kafka
from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.segment_writer import SegmentConfig
from tests.spark.runs import (
    NOW,
    by_name,
    changes,
    clean,
    files_of,
    plan,
    run,
    settings,
    stray_files,
)
from tests.unit.cli.results import printed
from winnow.api import doctor
from winnow.cli.doctor import page
from winnow.cli.options import CommandLine
from winnow.errors import NoSpaceError, UsageError
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places
from winnow.verbs.doctor.other_disk import other_disk
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MIB = 2**20
SETS = (
    "*:cleanup.policy=compact",
    "*:min.cleanable.dirty.ratio=0",
    "*:segment.bytes=8388608",
)
CONFIG = SegmentConfig(segment_bytes=8 * MIB)


def write_log(
    log_dir: LogDirWriter, topic: str, *, records: int, keys: int, in_batch: int = 100
) -> None:
    """Records of 1 KiB over closed segments of 8 MiB, and an active segment of one record."""
    log = log_dir.partition(topic, 0, CONFIG)
    value = os.urandom(1000)
    for first in range(0, records, in_batch):
        log.append_records(
            [
                Record(n, NOW - 10**9 + n, f"key-{(first + n) % keys}".encode(), value)
                for n in range(in_batch)
            ]
        )
    log.roll()
    log.append_records([Record(0, NOW - 10**8, b"last", b"")])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB."""
    with disk_or_skip(tmp_path / "disk", mib=48) as disk:
        yield disk


def crash(log_dir: Path) -> None:
    """Leave what a young broker leaves that dies: no marker, no recovery point."""
    (log_dir / CLEAN_MARKER).unlink()
    (log_dir / "recovery-point-offset-checkpoint").write_bytes(b"")


def fill_up_to(disk: Path, left: int) -> None:
    """Leave so many bytes free."""
    status = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(status.f_bavail * status.f_frsize - left))


def bytes_of(partition: Path) -> int:
    return sum(log.stat().st_size for log in partition.glob("*.log"))


def test_log_of_few_keys_shrinks_with_2_mib_free(
    disk: Path, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    with LogDirWriter(disk / "d", clock=lambda: NOW) as log_dir:
        write_log(log_dir, "users", records=33_000, keys=500)
    fill_up_to(disk, 2 * MIB)
    copy_tree(disk / "d", tmp_path / "roomy")
    assert bytes_of(disk / "d" / "users-0") > 32 * MIB
    previewed = run(plan, spark, disk / "d", sets=SETS)
    (result,) = run(clean, spark, disk / "d", sets=SETS).partitions
    assert (result.actions, result.error) == (("compacted",), None)
    assert previewed.partitions[0].bytes_after == result.bytes_after
    assert bytes_of(disk / "d" / "users-0") < MIB
    run(clean, spark, tmp_path / "roomy", sets=SETS)
    assert changes(files_of(tmp_path / "roomy" / "users-0"), files_of(disk / "d" / "users-0")) == []
    assert stray_files(disk / "d") == []
    theirs, ours = (
        kafka.load(path / "users-0", now=NOW) for path in (tmp_path / "roomy", disk / "d")
    )
    assert_same_dump(theirs.lines, ours.lines)


def test_log_of_few_keys_shrinks_without_a_free_byte(
    disk: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """Its indexes make the first room."""
    with LogDirWriter(disk / "d", clock=lambda: NOW) as log_dir:
        write_log(log_dir, "users", records=33_000, keys=500, in_batch=4)
    crash(disk / "d")
    fill_up_to(disk, 0)
    copy_tree(disk / "d", tmp_path / "roomy")
    found = doctor(spark, [str(disk / "d")], settings=settings(*SETS), now=NOW)
    assert [gain.what for gain in found.gains] == ["compaction"]
    (result,) = run(clean, spark, disk / "d", sets=SETS).partitions
    assert (result.actions, result.error) == (("compacted",), None)
    run(clean, spark, tmp_path / "roomy", sets=SETS)
    assert changes(files_of(tmp_path / "roomy" / "users-0"), files_of(disk / "d" / "users-0")) == []
    assert stray_files(disk / "d") == []


class Stopped(BaseException):
    """The run ends here."""


class StopsAtUnlink(LocalStorage):
    """Ends the process, as it were, at the n-th removal of an index."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self._left = left

    def unlink(self, path: str) -> None:
        if path.endswith("index"):
            self._left -= 1
            if not self._left:
                raise Stopped
        super().unlink(path)


@pytest.mark.parametrize("left", [1, 2, 5, 8])
def test_crash_while_indexes_are_removed_loses_nothing(
    disk: Path, spark: SparkSession, kafka: Kafka, tmp_path: Path, left: int
) -> None:
    with LogDirWriter(disk / "d", clock=lambda: NOW) as log_dir:
        write_log(log_dir, "users", records=33_000, keys=500, in_batch=4)
    crash(disk / "d")
    fill_up_to(disk, 0)
    for name in ("sound", "crashed"):
        (tmp_path / name).mkdir()
    copy_tree(disk / "d" / "users-0", tmp_path / "sound" / "users-0")
    with pytest.raises(Stopped):
        run(clean, spark, disk / "d", sets=SETS, storage=StopsAtUnlink(left))
    copy_tree(disk / "d" / "users-0", tmp_path / "crashed" / "users-0")
    sound, crashed = (
        kafka.load(tmp_path / name / "users-0", now=NOW) for name in ("sound", "crashed")
    )
    assert crashed.error is None
    assert crashed.records == sound.records
    (result,) = run(clean, spark, disk / "d", sets=SETS).partitions
    assert (result.actions, result.error) == (("compacted",), None)


def test_smallest_log_makes_room_for_the_next(disk: Path, spark: SparkSession) -> None:
    """`large` keeps more than is free. Cleaning `small` first frees enough."""
    with LogDirWriter(disk / "d", clock=lambda: NOW) as log_dir:
        write_log(log_dir, "large", records=16_000, keys=4_000)
        write_log(log_dir, "small", records=16_000, keys=100)
    fill_up_to(disk, 2 * MIB)
    sets = [*SETS, "*:segment.bytes=1073741824"]
    large_alone = run(plan, spark, disk / "d", sets=sets, topics=["large"])
    assert large_alone.partitions[0].error_code == NoSpaceError.exit_code
    result = run(clean, spark, disk / "d", sets=sets)
    assert {name: p.actions for name, p in by_name(result).items()} == {
        "large-0": ("compacted",),
        "small-0": ("compacted",),
    }
    assert stray_files(disk / "d") == []


def test_log_that_cannot_fit_is_unchanged_and_others_go_on(disk: Path, spark: SparkSession) -> None:
    with LogDirWriter(disk / "d", clock=lambda: NOW) as log_dir:
        write_log(log_dir, "unique", records=8_000, keys=8_000)
        write_log(log_dir, "few", records=200, keys=10)
    fill_up_to(disk, 2 * MIB)
    before = files_of(disk / "d" / "unique-0")
    for verb in (plan, clean):
        named = by_name(run(verb, spark, disk / "d", sets=SETS))
        partition = named["unique-0"]
        assert partition.error_code == NoSpaceError.exit_code
        assert named["few-0"].actions == ("compacted",)
        assert "of which 64.0 KiB must stay free" in (partition.error or "")
        assert changes(before, files_of(disk / "d" / "unique-0")) == []
        assert stray_files(disk / "d") == []


def test_doctor_says_that_space_is_short(disk: Path, spark: SparkSession) -> None:
    with LogDirWriter(disk / "d", clock=lambda: NOW) as log_dir:
        write_log(log_dir, "unique", records=8_000, keys=8_000)
    fill_up_to(disk, 1 * MIB)
    found = doctor(spark, [str(disk / "d")], settings=settings(*SETS), now=NOW)
    assert (found.gains, found.short_of_space) == ((), 1)
    place = other_disk(Places(), [str(disk / "d")])
    assert place is not None
    assert found.advice[0].arguments == ("clean", "--output", place)
    shown = printed(page(found, CommandLine(log_dirs=[str(disk / "d")])))
    assert "the compaction of 1 partition needs more space than is free" in shown


def test_keep_free_leaves_that_much(disk: Path, spark: SparkSession) -> None:
    with LogDirWriter(disk / "d", clock=lambda: NOW) as log_dir:
        write_log(log_dir, "users", records=8_000, keys=500)
    refused = run(clean, spark, disk / "d", sets=SETS, keep_free=48 * MIB)
    assert refused.partitions[0].error_code == NoSpaceError.exit_code
    done = run(clean, spark, disk / "d", sets=SETS, keep_free=0)
    assert done.partitions[0].actions == ("compacted",)
    with pytest.raises(UsageError, match="expected a whole number, 0 or more, found -1"):
        run(plan, spark, disk / "d", sets=SETS, keep_free=-1)


def test_doctor_names_only_what_clean_can_do(disk: Path, spark: SparkSession) -> None:
    with LogDirWriter(disk / "d", clock=lambda: NOW) as log_dir:
        write_log(log_dir, "unique", records=8_000, keys=8_000)
        write_log(log_dir, "users", records=2_000, keys=500)
    fill_up_to(disk, 2 * MIB)
    found = doctor(spark, [str(disk / "d")], settings=settings(*SETS), now=NOW)
    (gain,) = found.gains
    assert (gain.what, gain.partitions, gain.at_most) == ("compaction", 1, False)
    (trouble,) = found.troubles
    assert trouble.topic == "unique"
    assert "not enough space" in (trouble.error or "")
    assert found.exit_code == 3
    assert "--deep" not in [word for advice in found.advice for word in advice.arguments]
    before = bytes_of(disk / "d" / "users-0")
    run(clean, spark, disk / "d", sets=SETS)
    assert before - bytes_of(disk / "d" / "users-0") == gain.freed_bytes


def test_doctor_of_a_full_disk_says_why_nothing_can_be_freed(
    disk: Path, spark: SparkSession
) -> None:
    with LogDirWriter(disk / "d", clock=lambda: NOW) as log_dir:
        write_log(log_dir, "fresh", records=8_000, keys=8_000)
    fill_up_to(disk, 0)
    sets = ["*:cleanup.policy=delete", "*:retention.ms=-1", "*:retention.bytes=-1"]
    found = doctor(spark, [str(disk / "d")], settings=settings(*sets), now=NOW)
    assert (found.gains, found.exit_code) == ((), NoSpaceError.exit_code)
    (topic,) = found.unfreed
    assert topic.topic == "fresh"
    assert topic.log_bytes == bytes_of(disk / "d" / "fresh-0")
    assert "retention" in topic.reason


def test_doctor_of_a_compacted_disk_without_a_free_byte_names_another_disk(
    disk: Path, spark: SparkSession
) -> None:
    with LogDirWriter(disk / "d", clock=lambda: NOW) as log_dir:
        write_log(log_dir, "users", records=8_000, keys=500)
    fill_up_to(disk, 0)
    found = doctor(spark, [str(disk / "d")], settings=settings(*SETS), now=NOW)
    assert (found.gains, found.exit_code) == ((), NoSpaceError.exit_code)
    place = other_disk(Places(), [str(disk / "d")])
    assert [advice.arguments for advice in found.advice] == [("clean", "--output", place)]
    assert run(clean, spark, disk / "d", sets=SETS).exit_code == NoSpaceError.exit_code
    assert stray_files(disk / "d") == []
