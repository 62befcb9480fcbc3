"""Whether a preparation still holds when it is committed, or prepared again (S8.12)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import TOPIC_CONFIGS
from tests.spark.preparing import (
    CHANGED,
    OTHER,
    asked,
    committed,
    prepared,
    results,
    set_checkpoint,
    staged,
    two_partitions,
)
from tests.spark.runs import files_of
from winnow.clock import DAY_MS, now_ms
from winnow.logdir.names import PREPARED

pytestmark = pytest.mark.spark


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return two_partitions(tmp_path / "log-dir")


def with_same_times(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a file in place, as a program that sets the times back."""
    status = path.stat()
    data = change(path.read_bytes())
    with path.open("r+b") as file:
        file.write(data)
        file.truncate(len(data))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def flipped(data: bytes) -> bytes:
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def first_log(log_dir: Path) -> Path:
    return min((log_dir / CHANGED).glob("*.log"))


def last_log(log_dir: Path) -> Path:
    return max(log for log in (log_dir / CHANGED).glob("*.log") if log.stat().st_size)


def remove_first_segment(log_dir: Path) -> None:
    for file in (log_dir / CHANGED).glob(f"{first_log(log_dir).stem}.*"):
        file.unlink()


def add_segment(log_dir: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        (log_dir / CHANGED / f"{3:020}{suffix}").touch()


def add_epoch(log_dir: Path) -> None:
    path = log_dir / CHANGED / "leader-epoch-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    lines.append("7 100")
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def other_topic_id(log_dir: Path) -> None:
    path = log_dir / CHANGED / "partition.metadata"
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")


def flip_staged(log_dir: Path) -> None:
    (staging,) = staged(log_dir)[CHANGED]
    with_same_times(max(staging.glob("*.log.*"), key=lambda log: log.stat().st_size), flipped)


def remove_staged(log_dir: Path) -> None:
    (staging,) = staged(log_dir)[CHANGED]
    next(staging.glob("*.log.*")).unlink()


def tamper(log_dir: Path) -> None:
    (staging,) = staged(log_dir)[CHANGED]
    value = json.loads((staging / PREPARED).read_text())
    value["groups"][0]["files"][".log"]["name"] = "../../meta.properties"
    (staging / PREPARED).write_text(json.dumps(value))


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "flipped source": (lambda d: with_same_times(first_log(d), flipped), "the same batches"),
    "shorter source": (lambda d: with_same_times(first_log(d), lambda b: b[:-1]), "bytes"),
    "first segment deleted": (remove_first_segment, "segments: expected"),
    "segment added": (add_segment, "also 3"),
    "cleaned by the broker": (set_checkpoint("cleaner-offset-checkpoint", 400), "cleaner check"),
    "records deleted": (set_checkpoint("log-start-offset-checkpoint", 5), "log start offset"),
    "truncated and written again": (add_epoch, "leader epochs below offset"),
    "recovery point lowered": (set_checkpoint("recovery-point-offset-checkpoint", 1), "recovery"),
    "last batch cut": (lambda d: with_same_times(last_log(d), lambda b: b[:-40]), "the last batch"),
    "other topic": (other_topic_id, "cluster, node, directory and topic id"),
    "staged file flipped": (flip_staged, "CRC-32C"),
    "staged file removed": (remove_staged, "No such file"),
    "preparation tampered with": (tamper, "can't be"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_commit_drops_the_preparation_of_the_changed_partition_only(
    spark: SparkSession, log_dir: Path, name: str
) -> None:
    change, words = CHANGES[name]
    prepared(spark, log_dir)
    change(log_dir)
    before = own_files(log_dir)
    done = committed(log_dir)
    told = results(done)
    assert done.exit_code == 3
    assert words in told[CHANGED].why, told[CHANGED].why
    assert told[CHANGED].left_alone
    assert told[OTHER].actions == ("compacted",)
    assert own_files(log_dir) == before


def own_files(log_dir: Path) -> dict[str, object]:
    """The files of the partition that are not Winnow's."""
    found = files_of(log_dir / CHANGED)
    return {name: file for name, file in found.items() if not name.startswith(".winnow")}


def replace_directory(log_dir: Path) -> None:
    copy = shutil.copytree(log_dir / CHANGED, log_dir / "copy")
    shutil.rmtree(log_dir / CHANGED)
    copy.rename(log_dir / CHANGED)


def give_to_the_same_owner(log_dir: Path) -> None:
    for path in (log_dir / CHANGED).rglob("*"):
        os.chown(path, os.getuid(), os.getgid())


@pytest.mark.parametrize("change", [replace_directory, give_to_the_same_owner])
def test_other_stamp_with_the_same_bytes_is_accepted(
    spark: SparkSession, log_dir: Path, change: Callable[[Path], None]
) -> None:
    prepared(spark, log_dir)
    change(log_dir)
    assert committed(log_dir).exit_code == 0


def test_without_topic_id_only_the_same_file_is_accepted(
    spark: SparkSession, log_dir: Path
) -> None:
    for partition in (CHANGED, OTHER):
        (log_dir / partition / "partition.metadata").unlink(missing_ok=True)
    prepared(spark, log_dir)
    replace_directory(log_dir)
    told = results(committed(log_dir))
    assert "the topic has no id" in told[CHANGED].why
    assert told[OTHER].actions == ("compacted",)


def test_changed_setting_drops_the_preparation(spark: SparkSession, log_dir: Path) -> None:
    configs = log_dir.with_name("configs.txt")
    configs.write_text(TOPIC_CONFIGS.read_text())
    prepared(spark, log_dir, asked(configs=configs))
    configs.write_text(f"{configs.read_text()}\nc-tomb min.cleanable.dirty.ratio=0.37\n")
    told = results(committed(log_dir))
    assert "setting min.cleanable.dirty.ratio" in told[CHANGED].why
    assert told[OTHER].actions == ("compacted",)


def test_old_preparation_is_dropped(spark: SparkSession, log_dir: Path) -> None:
    prepared(spark, log_dir, now=now_ms() - 2 * DAY_MS)
    done = committed(log_dir)
    assert all(one.why.startswith("the preparation was dropped: age") for one in done.partitions)
    assert not staged(log_dir)


def test_second_preparation_replaces_what_is_past_half_of_its_age(
    spark: SparkSession, log_dir: Path
) -> None:
    """A timer that runs each day would otherwise keep what expires before its next run."""
    prepared(spark, log_dir, now=now_ms() - DAY_MS // 2 - 60_000)
    first = staged(log_dir)
    told = results(prepared(spark, log_dir))
    second = staged(log_dir)
    assert first.keys() == second.keys() == told.keys()
    assert all(first[name] != second[name] for name in first)


def test_second_preparation_keeps_what_holds_and_replaces_the_rest(
    spark: SparkSession, log_dir: Path
) -> None:
    prepared(spark, log_dir)
    first = staged(log_dir)
    with_same_times(first_log(log_dir), lambda data: data)  # another ctime
    set_checkpoint("cleaner-offset-checkpoint", 0)(log_dir)
    told = results(prepared(spark, log_dir))
    second = staged(log_dir)
    assert second[OTHER] == first[OTHER]
    assert second[CHANGED] != first[CHANGED]
    assert "prepared already" in told[OTHER].reason
    assert told[CHANGED].actions == ("compacted",)
    assert committed(log_dir).exit_code == 0
