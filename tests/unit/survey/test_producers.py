"""Which producers a broker would still know (S8.4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cleaning.partitions import NOW, batch, make_partition, record, segments_of
from winnow.logdir.names import LOG, SNAPSHOT, segment_file
from winnow.logdir.snapshots import encode_snapshot
from winnow.state import PartitionState, ProducerEntry, TopicPartition
from winnow.storage.local import LocalStorage
from winnow.survey.transactions import known_producers, newest_snapshot
from winnow.survey.walk import walk_segment

DAY = 86_400_000
SEGMENTS = {
    0: [batch(record(0), producer_id=7), batch(record(1), producer_id=8)],
    2: [batch(record(2), producer_id=7), batch(record(3), producer_id=9)],
    4: [batch(record(4))],
}


def entry(producer_id: int, last_offset: int, *, age: int = 0) -> ProducerEntry:
    return ProducerEntry(producer_id, 0, 0, last_offset, 0, NOW - age, -1, -1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_partition(tmp_path / "t-0", SEGMENTS)


def snapshot(directory: Path, offset: int, *entries: ProducerEntry) -> Path:
    path = directory / segment_file(offset, SNAPSHOT)
    path.write_bytes(encode_snapshot(entries))
    return path


def known(directory: Path, *, log_start: int = 0) -> dict[int, int | None]:
    """Return producer id -> last data offset."""
    segments = segments_of(directory)
    state = PartitionState(
        log_dir=str(directory.parent),
        topic_partition=TopicPartition("t", 0),
        segments=segments,
        log_start_offset=log_start,
        log_end_offset=5,
        high_watermark=5,
        cleaner_checkpoint=None,
        log_start_checkpoint=None,
        snapshot_offsets=tuple(
            sorted(int(path.name[:20]) for path in directory.glob("*.snapshot"))
        ),
        leader_epochs=(),
    )
    newest = newest_snapshot(LocalStorage(), state)
    sizes = {base: (directory / segment_file(base, LOG)).stat().st_size for base in SEGMENTS}
    walks = [
        walk_segment(str(directory), base, size, producers_from=newest.offset)
        for base, size in sizes.items()
    ]
    found = known_producers(newest, walks, now=NOW, expiration_ms=DAY)
    return {pid: producer.last_offset for pid, producer in found.producers.items()}


def test_no_snapshot_gives_no_producers(directory: Path) -> None:
    assert known(directory) == {}


def test_batches_after_the_newest_snapshot_are_replayed(directory: Path) -> None:
    snapshot(directory, 2, entry(7, 0), entry(8, 1))
    assert known(directory) == {7: 2, 8: 1, 9: 3}


def test_damaged_snapshot_gives_the_same_producers(directory: Path) -> None:
    snapshot(directory, 2, entry(7, 0), entry(8, 1))
    sound = snapshot(directory, 5, entry(7, 2), entry(8, 1), entry(9, 3))
    before = known(directory)
    sound.write_bytes(sound.read_bytes()[:-1] + b"\x55")
    assert known(directory) == before == {7: 2, 8: 1, 9: 3}


def test_older_snapshot_is_used_if_the_newest_is_damaged(directory: Path) -> None:
    """It knows producers that have no batches left in the log."""
    snapshot(directory, 2, entry(99, 1))
    snapshot(directory, 5, entry(99, 1)).write_bytes(b"garbage")
    assert known(directory) == {99: 1, 7: 2, 9: 3}


def test_whole_log_is_replayed_if_all_snapshots_are_damaged(directory: Path) -> None:
    snapshot(directory, 5, entry(7, 2)).write_bytes(b"garbage")
    assert known(directory) == {7: 2, 8: 1, 9: 3}


def test_snapshot_beyond_the_log_end_is_ignored(directory: Path) -> None:
    snapshot(directory, 2, entry(7, 0), entry(8, 1))
    snapshot(directory, 6, entry(99, 5))
    assert known(directory) == {7: 2, 8: 1, 9: 3}


def test_snapshot_at_the_log_start_is_ignored(directory: Path) -> None:
    snapshot(directory, 2, entry(99, 1))
    assert known(directory, log_start=2) == {7: 2, 9: 3}


def test_idle_producer_expires(directory: Path) -> None:
    snapshot(directory, 5, entry(1, 4, age=DAY - 1), entry(2, 4, age=DAY))
    assert known(directory) == {1: 4}
