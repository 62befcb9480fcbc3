"""What Kafka makes of indexes that were never cut, beside the marker of a clean shutdown (S1.7)."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures.data import copy_log_dir
from tests.kafka.judge.judge import Kafka
from tests.spark.runs import NOW
from winnow.logdir.listing import list_segments
from winnow.storage.local import LocalStorage

QUARTER_OF_A_CENTURY_MS = 25 * 365 * 86_400_000
PREALLOCATED = {"index": 10_485_760, "timeindex": 10_485_756}


def preallocate(directory: Path, suffix: str) -> list[Path]:
    """Make the indexes of all closed segments zeros. Return all logs."""
    logs = sorted(directory.glob("*.log"))
    for log in logs[:-1]:
        path = log.with_suffix(f".{suffix}")
        path.write_bytes(b"")
        with path.open("r+b") as file:
            file.truncate(PREALLOCATED[suffix])
    return logs


def test_kafka_takes_a_time_index_of_zeros_for_1970_and_winnow_reads_the_log(
    kafka: Kafka, tmp_path: Path
) -> None:
    """Of records that are some weeks old, Kafka deletes what is older than 25 years."""
    name = "d-time-0"
    sound = copy_log_dir("clean", tmp_path / "sound", only=[name]) / name
    zeros = copy_log_dir("clean", tmp_path / "zeros", only=[name]) / name
    before = [one.largest_timestamp for one in list_segments(LocalStorage(), str(sound)).segments]
    logs = preallocate(zeros, "timeindex")
    found = [one.largest_timestamp for one in list_segments(LocalStorage(), str(zeros)).segments]
    assert found == before
    end = kafka.load(sound, now=NOW).state["end_offset"]
    for directory in (sound, zeros):
        kafka.retain(
            directory, now=NOW, policy="delete", retention_ms=QUARTER_OF_A_CENTURY_MS, hw=end
        )
    assert [log.name for log in sorted(sound.glob("*.log"))] == [log.name for log in logs]
    assert [log.name for log in sorted(zeros.glob("*.log"))] == [logs[-1].name]


def test_kafkas_cleaner_needs_no_offset_index(kafka: Kafka, tmp_path: Path) -> None:
    name = "c-4p-1"
    directories = [
        copy_log_dir("clean", tmp_path / which, only=[name]) / name for which in ("sound", "zeros")
    ]
    preallocate(directories[1], "index")
    end = kafka.load(directories[0], now=NOW).state["end_offset"]
    sizes = sum(log.stat().st_size for log in directories[0].glob("*.log"))
    for directory in directories:
        kafka.clean(directory, now=NOW, policy="compact", first_dirty=0, hw=end)
    sound, zeros = (kafka.load(directory, now=NOW).records for directory in directories)
    assert sound == zeros
    # The size of an index limits how many segments become one.
    logs = [len(list(directory.glob("*.log"))) for directory in directories]
    assert logs[0] < logs[1]
    assert sum(log.stat().st_size for log in directories[1].glob("*.log")) < sizes
