"""Whole log directories as the writer leaves them (S1.1-S1.5). tests/kafka/cleaner shows that a
broker starts on one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.segment_writer import SegmentConfig
from winnow.errors import LogDirInUseError, UsageError
from winnow.logdir.listing import list_segments
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.meta import read_meta
from winnow.logdir.survey import survey_log_dirs
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage
from winnow.wire.plain import Record

NOW = 1_800_000_000_000
STORAGE = LocalStorage()
RECORDS = [Record(0, NOW, b"k%d" % number, b"v") for number in range(3)]


def opened(path: Path, **options: Any) -> LogDirWriter:
    return LogDirWriter(path, clock=lambda: NOW, **options)


def test_closed_writer_leaves_a_cleanly_shut_down_log_directory(tmp_path: Path) -> None:
    with opened(tmp_path, cluster_id="c", directory_id="AAAAAAAAAAAAAAAAAAAAAA") as log_dir:
        for number in range(2):
            log_dir.partition("a", number, SegmentConfig(segment_bytes=120)).append_records(RECORDS)
        log_dir.partition("b", 0).append_records(RECORDS)
        log_dir.partition("b", 0).raise_log_start_offset(2)
        log_dir.partition("a", 0).append_records(RECORDS)
        log_dir.partition("empty.one", 7)
        log_dir.high_watermarks[TopicPartition("a", 1)] = 1
        log_dir.cleaner_offsets[TopicPartition("a", 0)] = 3
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert {
        name: (tmp_path / name).read_text() for name in ("meta.properties", ".kafka_cleanshutdown")
    } == {
        "meta.properties": (
            "#\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\nversion=1\ncluster.id=c\n"
        ),
        ".kafka_cleanshutdown": '{"version":0,"brokerEpoch":-1}',
    }
    ends = "0\n4\na 0 6\na 1 3\nb 0 3\nempty.one 7 0\n"
    assert {file.name: file.read_text() for file in tmp_path.glob("*-checkpoint")} == {
        "recovery-point-offset-checkpoint": ends,
        "replication-offset-checkpoint": ends.replace("a 1 3", "a 1 1"),
        "log-start-offset-checkpoint": "0\n1\nb 0 2\n",
        "cleaner-offset-checkpoint": "0\n1\na 0 3\n",
    }
    [survey] = survey_log_dirs(STORAGE, [str(tmp_path)])
    assert survey.clean_shutdown
    listing = list_segments(STORAGE, str(tmp_path / "a-0"))
    assert [segment.base_offset for segment in listing.segments] == [0, 3]


def test_partitions_of_a_topic_share_one_id(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        for topic, number in (("a", 0), ("a", 1), ("b", 0)):
            log_dir.partition(topic, number)
        log_dir.partition("c", 0, topic_id="6zx0rX8OSnmCqLmZn3b4Tg")
    ids = [
        (tmp_path / name / "partition.metadata").read_text()
        for name in ("a-0", "a-1", "b-0", "c-0")
    ]
    assert ids[0] == ids[1] != ids[2]
    assert ids[3] == "version: 0\ntopic_id: 6zx0rX8OSnmCqLmZn3b4Tg"


def test_existing_log_directory_is_continued(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        for topic in ("a", "b"):
            log_dir.partition(topic, 0).append_records(RECORDS)
            log_dir.partition(topic, 0).raise_log_start_offset(1)
    before = (tmp_path / "meta.properties").read_bytes()
    with opened(tmp_path) as log_dir:
        log = log_dir.partition("a", 0)
        assert (log.log_start_offset, log.log_end_offset) == (1, 3)
        log.append_records(RECORDS)
        log.raise_log_start_offset(2)
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n2\na 0 6\nb 0 3\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n2\na 0 2\nb 0 1\n"
    assert (tmp_path / "meta.properties").read_bytes() == before


def test_log_directory_is_locked_while_open(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    with pytest.raises(LogDirInUseError):
        opened(tmp_path)
    log_dir.close()
    log_dir.close()
    lock_log_dir(str(tmp_path)).close()


def test_log_directory_is_not_marked_clean_after_an_error(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    opened(tmp_path).close()
    with pytest.raises(StoppedError), opened(tmp_path):
        raise StoppedError
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    lock_log_dir(str(tmp_path)).close()


def test_log_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, cluster_id="one").close()
    with pytest.raises(UsageError, match="somebody else"):
        opened(tmp_path, cluster_id="two")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert read_meta(STORAGE, str(tmp_path)).cluster_id == "one"


def test_illegal_partition_name_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir, pytest.raises(UsageError):
        log_dir.partition("", 0)
    assert not [entry for entry in tmp_path.iterdir() if entry.is_dir()]
