"""Full disks, before and during a run: real file systems of a few MiB, mounted for the test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.compare import assert_same_dump
from tests.disks import disk_or_skip, fill, free_bytes
from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import as_loaded
from tests.kafka.judge.judge import Kafka
from tests.spark.runs import (
    NOW,
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
    set_checkpoint,
    stray_files,
)
from winnow.errors import NoSpaceError, UsageError
from winnow.logdir.names import CLEAN_SHUTDOWN
from winnow.policy.sources import Settings, parse_topic_set
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COMPACTED = ("*:cleanup.policy=compact", "*:internal.segment.bytes=65536")
RETENTION_MS = 4_440_000_000
"""All segments of these logs are older, but for the active ones."""
EXPIRED = (
    "d-*:cleanup.policy=delete",
    f"d-*:retention.ms={RETENTION_MS}",
    "d-*:retention.bytes=-1",
)
NAMES = ("d-time-0", "d-size-0", "c-tomb-0")


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 16 MiB. On ext4 a directory takes blocks, too."""
    with disk_or_skip(tmp_path / "disk", mib=16, kind=request.param) as disk:
        yield disk


def test_disk_full_at_driver_write_leaves_log_unchanged(
    disk: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has also used up the reserved space."""

    log_dir, other = new_log_dir(disk / "d"), new_log_dir(tmp_path / "other")
    add_partition(log_dir, "fails-0", "c-4p-1")
    add_partition(other, "fine-0", "c-tomb-0")
    before = files_of(log_dir)
    create = LocalStorage.create

    def full(self: LocalStorage, path: str, data: bytes, **named: Any) -> None:
        if path.startswith(str(disk)) and path.endswith("/round.json.tmp"):
            fill(disk)
        create(self, path, data, **named)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "create", full)
        result = run(clean, spark, log_dir, other, sets=COMPACTED, keep_free=0)
    named = by_name(result)
    assert named["fails-0"].code == "no-space"
    assert (named["fails-0"].error_code, named["fails-0"].left_alone) == (
        NoSpaceError.exit_code,
        True,
    )
    assert "not enough space" in (named["fails-0"].error or "")
    assert named["fine-0"].actions == ("compacted",)
    assert changes(before, files_of(log_dir)) == []
    assert stray_files(log_dir) == []
    (disk / "ballast").unlink()
    assert run(clean, spark, log_dir, sets=COMPACTED).exit_code == 0


@pytest.fixture
def expired(disk: Path) -> Path:
    """A disk without a free byte, with three logs. Retention deletes all closed segments of two;
    the third is only compacted.
    """
    log_dir = new_log_dir(disk / "d")
    for name in NAMES:
        add_partition(log_dir, name, name)
    bases = sorted(int(path.stem) for path in (log_dir / "d-size-0").glob("*.log"))
    set_checkpoint(log_dir / "log-start-offset-checkpoint", "d-size-0", bases[1] + 1)
    fill(disk)
    return log_dir


def test_free_at_least_frees_space_on_a_full_disk(
    expired: Path, disk: Path, spark: SparkSession
) -> None:
    before = files_of(expired)
    previewed = run(plan, spark, expired, sets=EXPIRED, free_at_least=200_000)
    assert changes(before, files_of(expired)) == []
    assert free_bytes(disk) == 0
    result = run(clean, spark, expired, sets=EXPIRED, free_at_least=200_000)
    assert (result.exit_code, result.short_bytes, result.peak_extra_bytes) == (0, 0, 0)
    assert [p.error for p in result.partitions] == [None] * len(NAMES)
    assert free_bytes(disk) >= 200_000
    after = by_name(result)
    told = [
        (p.segments_after, p.bytes_after, p.log_start_offset_after) for p in previewed.partitions
    ]
    assert told == [
        (p.segments_after, p.bytes_after, p.log_start_offset_after) for p in result.partitions
    ]
    assert after["c-tomb-0"].actions == ("none",)
    assert [name for name in changes(before, files_of(expired)) if "c-tomb-0" in name] == []
    # Little was needed: no more than a segment too many went.
    assert (
        sum(p.bytes_before - p.bytes_after for p in result.partitions if p.bytes_before)
        < 200_000 + 66_000
    )
    assert stray_files(expired) == []


def test_free_at_least_deletes_the_segments_that_kafka_would_and_reports_shortfall(
    expired: Path, disk: Path, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    copy_tree(expired, theirs)
    result = run(clean, spark, expired, sets=EXPIRED, free_at_least=10**9)
    assert result.exit_code == NoSpaceError.exit_code
    gone = sum(p.bytes_before - p.bytes_after for p in result.partitions if p.bytes_before)
    assert free_bytes(disk) >= gone > 900_000
    assert result.short_bytes is not None
    assert 10**9 - gone - 50_000 < result.short_bytes <= 10**9 - gone
    (note,) = [note for note in result.notes if "short" in note]
    assert "The largest topics are c-tomb" in note
    assert "--topic-set" in note
    assert stray_files(expired) == []
    for name in ("d-time-0", "d-size-0"):
        start = by_name(result)[name].log_start_offset_after or 0
        kafka.retain(
            theirs / name,
            now=NOW,
            config={"cleanup.policy": "delete", "retention.ms": RETENTION_MS},
        )
        assert_same_dump(
            as_loaded(kafka.dump(expired / name), start),
            as_loaded(kafka.dump(theirs / name), start),
        )
        assert checkpoint(expired / "log-start-offset-checkpoint") == {}


def test_free_at_least_never_rolls_the_active_segment(disk: Path, spark: SparkSession) -> None:
    log_dir = new_log_dir(disk / "d")
    add_partition(log_dir, "d-time-0", "d-time-0")
    last = max((log_dir / "d-time-0").glob("*.log"))
    crashed = log_dir / "d-time-0" / ".winnow-20260101T000000Z-00000000"
    crashed.mkdir()
    (crashed / "half").write_bytes(bytes(10_000))
    fill(disk)
    result = run(clean, spark, log_dir, sets=[*EXPIRED, "d-*:retention.ms=0"], free_at_least=10**9)
    assert result.exit_code == NoSpaceError.exit_code
    assert [*(log_dir / "d-time-0").glob("*.log")] == [last]
    assert stray_files(log_dir) == []


@pytest.mark.parametrize("more", [{"only": "compaction"}, {"keep_replaced": True}])
def test_free_at_least_refuses_conflicting_options(
    more: dict[str, object], spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="freeing space"):
        run(clean, spark, new_log_dir(tmp_path / "d"), free_at_least=1, **more)


def test_full_spark_scratch_disk_leaves_log_unchanged(
    disk: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = new_log_dir(tmp_path / "d")
    add_partition(log_dir, "fails-0", "c-4p-1")
    before = files_of(log_dir)
    with monkeypatch.context() as patch:
        patch.setattr(spark.sparkContext, "_temp_dir", str(disk))
        result = run(
            clean,
            spark,
            log_dir,
            sets=COMPACTED,
            progress=AtStage("compacting", lambda: fill(disk)),
        )
    [failed] = result.partitions
    assert (failed.error_code, failed.left_alone, result.exit_code) == (
        NoSpaceError.exit_code,
        True,
        6,
    )
    assert re.search(rf"not enough space: .*No space left on device: '{disk}/", failed.error or "")
    assert changes(before, files_of(log_dir)) == []
    assert stray_files(log_dir) == []


def test_free_at_least_cuts_the_zeros_of_indexes_before_it_deletes(
    disk: Path, spark: SparkSession
) -> None:
    log_dir = new_log_dir(disk / "d")
    for name in ("d-time-0", "d-size-0", "c-tomb-0"):
        add_partition(log_dir, name, name)
    (log_dir / CLEAN_SHUTDOWN).unlink()
    grown = []
    for name in ("d-time-0", "c-tomb-0"):
        index = max((log_dir / name).glob("*.index"))
        grown.append((index, index.read_bytes()))
        with index.open("ab") as file:  # as a broker makes it, on a file system without holes
            file.write(bytes(2 * 2**20))
    fill(disk)
    before = files_of(log_dir)
    # The settings of topic c-tomb are unknown: a broker builds its index anew, nevertheless.
    sets = [one for one in EXPIRED if one.startswith("d-")]
    configs = {"settings": Settings(topic_sets=tuple(map(parse_topic_set, sets)))}
    wanted = 3 * 2**20
    previewed = plan(spark, [str(log_dir)], now=NOW, free_at_least=wanted, **configs)
    assert changes(before, files_of(log_dir)) == []
    result = clean(spark, [str(log_dir)], now=NOW, free_at_least=wanted, **configs)
    for one, were in ((previewed, "would be"), (result, "were")):
        assert one.short_bytes == 0
        told = rf"4\.0 MiB of zeros at the end of 2 index files {were} cut first"
        assert [note for note in one.notes if re.match(told, note)], one.notes
        assert not any(found.acts for found in one.partitions)
    assert free_bytes(disk) >= wanted
    for index, data in grown:
        assert index.read_bytes() == data
    changed = changes(before, files_of(log_dir))
    assert {f"{index.parent.name}/{index.name}" for index, _ in grown} == {
        name for name in changed if not name.endswith(".lock")
    }
