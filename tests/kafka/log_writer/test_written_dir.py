"""The batches of a real broker, written again one by one: the same bytes, and a broker starts on
them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from tests.compare import assert_same_partition
from tests.fixtures.data import TOPIC_CONFIGS, copy_file, copy_log_dir, copy_tree, partition_dirs
from tests.kafka.broker.test_starts import AS_IT_IS, HARMLESS
from tests.kafka.cleaner.runs import read_checkpoint
from tests.kafka.judge.broker import Broker
from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.segment_writer import SegmentConfig
from tests.log_writer.whole_batches import whole_batches
from winnow.logdir.meta import read_meta
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage
from winnow.wire.batch import CONTROL

NOW = 1_795_200_000_000
"""Later than all records; how long ago does not matter, since all of them have a time."""
COMPACTED = {"b-cleaned-0", "b-txn-0"}
"""The broker cleaned these, so their segments differ from what was written."""
MOST = 30


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_log_dir("clean", tmp_path_factory.mktemp("recorded") / "log-dir")


def _directory_id(log_dir: Path) -> str:
    lines = (log_dir / "meta.properties").read_text().splitlines()
    return next(line for line in lines if line.startswith("directory.id=")).partition("=")[2]


@pytest.fixture
def written(recorded: Path, tmp_path: Path) -> Path:
    """All its batches again, with the identity of its broker and its topics."""
    target = tmp_path / "log-dir"
    settings = topic_settings()
    begins = read_checkpoint(recorded / "log-start-offset-checkpoint")
    meta = read_meta(LocalStorage(), str(recorded))
    with LogDirWriter(
        target,
        clock=lambda: NOW,
        node_id=meta.node_id or 0,
        cluster_id=meta.cluster_id or "",
        directory_id=_directory_id(recorded),
        broker_epoch=15,
    ) as log_dir:
        for directory in partition_dirs(recorded):
            topic, number = directory.name.rsplit("-", 1)
            topic_id = (directory / "partition.metadata").read_text().rsplit(" ", 1)[1]
            log = log_dir.partition(topic, int(number), settings[topic], topic_id=topic_id)
            for batch in batches(directory):
                log.append(batch)
            log.raise_log_start_offset(begins.get(directory.name, 0))
        cleaned = read_checkpoint(recorded / "cleaner-offset-checkpoint")
        for name, offset in cleaned.items():
            topic, number = name.rsplit("-", 1)
            log_dir.cleaner_offsets[TopicPartition(topic, int(number))] = offset
    return target


def test_bytes_equal_those_of_the_broker(recorded: Path, written: Path) -> None:
    compared = [
        directory for directory in partition_dirs(recorded) if directory.name not in COMPACTED
    ]
    assert len(compared) >= MOST
    for directory in compared:
        for file in directory.glob("*.log"):  # ours are as old as the writer's clock says
            assert (written / directory.name / file.name).stat().st_mtime_ns == NOW * 10**6
            copy_times(file, written / directory.name / file.name)
        assert_same_partition(written / directory.name, directory)
    names = {
        name for name in files(recorded) if not name.endswith((".tmp", "bootstrap.checkpoint"))
    }
    assert files(written) == names | {".lock"}
    for name in sorted(name for name in names if name.endswith("-checkpoint")):
        assert read_checkpoint(written / name) == read_checkpoint(recorded / name), name
    assert (written / ".kafka_cleanshutdown").read_bytes() == (
        recorded / ".kafka_cleanshutdown"
    ).read_bytes()


def test_broker_starts_on_it_and_serves_all_records(
    recorded: Path, written: Path, tmp_path: Path
) -> None:
    copy_tree(recorded / "__cluster_metadata-0", written / "__cluster_metadata-0")
    copy_file(recorded / "bootstrap.checkpoint", written / "bootstrap.checkpoint")
    begins = read_checkpoint(recorded / "log-start-offset-checkpoint")
    with Broker(written, home=tmp_path / "broker", settings=AS_IT_IS) as broker:
        consumed = broker.consume("read_uncommitted")
        loaded = broker.log
    assert [
        line for line in broker.complaints if not any(known in line for known in HARMLESS)
    ] == []
    recovered = [
        line
        for line in loaded.splitlines()
        if "Recovering" in line and "__cluster_metadata" not in line
    ]
    assert recovered == []
    ends = read_checkpoint(recorded / "replication-offset-checkpoint")
    for directory in partition_dirs(recorded):
        name = directory.name
        seen = consumed[name]
        assert (seen.begin, seen.end, seen.stuck_at) == (begins.get(name, 0), ends[name], None), (
            name
        )
        assert seen.records == record_count(directory) - begins.get(name, 0), name


def topic_settings() -> Mapping[str, SegmentConfig]:
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    for line in TOPIC_CONFIGS.read_text().splitlines():
        topic, setting = line.split(maxsplit=1)
        key, value = setting.split("=", 1)
        texts[topic][key] = value
    default = SegmentConfig()
    return {
        topic: SegmentConfig(
            segment_bytes=int(
                given.get(
                    "internal.segment.bytes", given.get("segment.bytes", default.segment_bytes)
                )
            ),
            segment_index_bytes=int(given.get("segment.index.bytes", default.segment_index_bytes)),
            index_interval_bytes=int(
                given.get("index.interval.bytes", default.index_interval_bytes)
            ),
        )
        for topic, given in texts.items()
    }


def batches(directory: Path) -> list[bytes]:
    found = []
    for file in sorted(directory.glob("*.log")):
        data = file.read_bytes()
        rows = whole_batches(data, least_offset=int(file.stem), file_name=file.name)
        cuts = [*rows["position"].tolist(), len(data)]
        found += [data[start:end] for start, end in pairwise(cuts)]
    return found


def record_count(directory: Path) -> int:
    rows = [
        whole_batches(data, least_offset=0, file_name=directory.name) for data in batches(directory)
    ]
    return sum(
        int(row["record_count"][0]) for row in rows if not int(row["attributes"][0]) & CONTROL
    )


def files(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir() if entry.is_file()}


def copy_times(source: Path, target: Path) -> None:
    os.utime(target, ns=(source.stat().st_mtime_ns,) * 2)
