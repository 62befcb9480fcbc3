"""The judge and the recorded results agree: Kafka's classes still do what was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compare import assert_same_dump, assert_same_partition
from tests.fixtures.data import (
    copy_log_dir,
    copy_tree,
    expected,
    expected_checkpoint,
    expected_commands,
    partition_dirs,
)
from tests.kafka.judge.judge import Kafka, KafkaFailedError
from tests.spark.runs import NOW


@pytest.mark.parametrize(
    "config", ["merge", "retain-all", "retain-bytes", "retain-hw", "retain-start", "cd-both"]
)
def test_kafka_reproduces_the_recorded_results(
    config: str, kafka: Kafka, log_dir: Path, topic_configs: Path
) -> None:
    recorded = expected(config)
    directories = [log_dir / name for name in recorded]
    for command in expected_commands(config):
        kafka.run(command, directories, "--topic-configs", str(topic_configs))
    for directory in directories:
        assert_same_dump(kafka.dump(directory), recorded[directory.name], name=directory.name)
    assert (log_dir / "cleaner-offset-checkpoint").read_text() == expected_checkpoint(config)


def test_untouched_directories_are_as_recorded(kafka: Kafka, log_dir: Path) -> None:
    """Including times in ms: packing lost nothing."""
    recorded = expected("untouched")
    for name, lines in recorded.items():
        if name != "d-start-0":  # opening it took away snapshots below its log start offset
            assert_same_dump(kafka.dump(log_dir / name), lines, name=name)


def test_loading_leaves_a_sound_directory_unchanged(kafka: Kafka, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-hotkey-0", "t-closed-0"])
    for directory in partition_dirs(log_dir):
        before = tmp_path / "before" / directory.name
        before.parent.mkdir(exist_ok=True)
        copy_tree(directory, before)
        loaded = kafka.load(directory, now=NOW)
        assert loaded.error is None
        assert len(loaded.records) == loaded.state["end_offset"]
        assert_same_partition(directory, before)


def test_loading_after_a_crash_truncates_a_torn_tail(kafka: Kafka, tmp_path: Path) -> None:
    directory = copy_log_dir("damaged", tmp_path / "log-dir", only=["x-torn-0"]) / "x-torn-0"
    recorded = expected("recovered", log_dir="damaged")["x-torn-0"]
    loaded = kafka.load(directory, now=NOW, unclean=True)
    assert loaded.error is None
    # The time of the segment that was cut is the time of the cutting.
    assert_same_dump(
        [x for x in loaded.lines if x["t"] != "mtime"],
        [x for x in recorded if '"t":"mtime"' not in x],
    )


def test_high_watermark_comes_from_the_checkpoint_on_request(kafka: Kafka, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["d-time-0"])
    (log_dir / "replication-offset-checkpoint").write_text("0\n1\nd-time 0 1500\n")
    assert (
        kafka.load(log_dir / "d-time-0", now=NOW, hw_checkpoint=True).state["high_watermark"]
        == 1500
    )
    assert kafka.load(log_dir / "d-time-0", now=NOW).state["high_watermark"] == 4000


def test_failure_includes_kafkas_message(kafka: Kafka, tmp_path: Path) -> None:
    with pytest.raises(KafkaFailedError, match="no such directory"):
        kafka.open(tmp_path / "nothing-0", now=NOW)
    with pytest.raises(KafkaFailedError, match="unknown option --colour"):
        kafka.open(tmp_path, now=NOW, colour="red")
