"""Logs as the writer leaves them (S1, S8.4). tests/kafka/cleaner shows that Kafka's own log leaves
the same.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log_writer.leader_batches import Producer
from tests.log_writer.producer_table import ProducerTable
from tests.log_writer.segment_writer import SegmentConfig
from tests.log_writer.whole_batches import whole_batches
from tests.log_writer.writer import LogWriter
from tests.twins.encoding import encode_batch
from tests.twins.walk import decode_batch
from winnow.errors import CorruptLogError
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.snapshots import read_snapshot
from winnow.state import ProducerEntry
from winnow.storage.local import LocalStorage
from winnow.wire.plain import Record

NOW = 1_800_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def write(directory: Path, config: SegmentConfig | None = None, **options: Any) -> LogWriter:
    return LogWriter(directory, config, **({"clock": lambda: NOW} | options))


def records(count: int = 1, *, timestamp: int = NOW, size: int = 10) -> list[Record]:
    return [Record(0, timestamp + number, b"k%d" % number, b"v" * size) for number in range(count)]


def batch(offset: int, **options: Any) -> bytes:
    return encode_batch([Record(offset, NOW, b"k", b"v")], **({"leader_epoch": 0} | options))


def logs(directory: Path) -> dict[int, bytes]:
    return {int(file.stem): file.read_bytes() for file in sorted(directory.glob("*.log"))}


def test_append_assigns_offsets_epochs_and_sequences(tmp_path: Path) -> None:
    with write(tmp_path / "t-0", leader_epoch=3) as log:
        assert log.append_records(records(2), producer=Producer(9, 1)) == 0
        assert log.append_records(records(3), producer=Producer(9, 1)) == 2
        assert log.append_records(records(1), producer=Producer(9, 2)) == 5
        assert log.append_records(records(1), log_append_time=True) == 6
        assert log.log_end_offset == 7
    [data] = logs(tmp_path / "t-0").values()
    rows = whole_batches(data, least_offset=0, file_name="log")
    assert rows["base_offset"].tolist() == [0, 2, 5, 6]
    assert rows["leader_epoch"].tolist() == [3, 3, 3, 3]
    assert rows["base_sequence"].tolist() == [0, 2, 0, -1]
    header, decoded = decode_batch(data, int(rows["position"][1]))
    assert int(header["producer_id"]) == 9
    assert [record.offset for record in decoded] == [2, 3, 4]


def test_full_segment_is_rolled(tmp_path: Path) -> None:
    size = len(batch(0))
    with write(tmp_path / "t-0", SegmentConfig(segment_bytes=2 * size)) as log:
        for offset in range(5):
            log.append(batch(offset))
        assert log.segment_bases == (0, 2, 4)
    assert {base: len(data) for base, data in logs(tmp_path / "t-0").items()} == {
        0: 2 * size,
        2: 2 * size,
        4: size,
    }
    # A closed log has a snapshot at every base except the first, and at the end.
    snapshots = sorted(int(file.stem) for file in (tmp_path / "t-0").glob("*.snapshot"))
    assert snapshots == [2, 4, 5]


def test_segment_is_rolled_after_segment_ms(tmp_path: Path) -> None:
    with write(tmp_path / "t-0", SegmentConfig(segment_ms=HOUR_MS)) as log:
        for timestamp in (NOW, NOW + HOUR_MS, NOW - DAY_MS, NOW + HOUR_MS + 1, NOW):
            log.append_records(records(timestamp=timestamp))
        assert log.segment_bases == (0, 3)


def test_segment_is_rolled_when_an_index_is_full(tmp_path: Path) -> None:
    # Four offset entries fit, and two time entries, since one place is reserved.
    with write(
        tmp_path / "t-0", SegmentConfig(segment_index_bytes=36, index_interval_bytes=0)
    ) as log:
        for number in range(4):
            log.append_records(records(timestamp=NOW + number))
        for _ in range(6):
            log.append_records(records())
        # The first time index is full at 2. The second one does not grow; the offset index has 4
        # entries at 8.
        assert log.segment_bases == (0, 3, 8)


def test_segment_is_rolled_when_offsets_jump_too_far(tmp_path: Path) -> None:
    with write(tmp_path / "t-0") as log:
        for offset in (0, 2**31 - 1, 2**31, 2**50):
            log.append(batch(offset))
        assert log.segment_bases == (0, 2**31, 2**50)
    index = (tmp_path / "t-0" / f"{2**50:020d}.timeindex").read_bytes()
    assert list(struct.iter_unpack(">qi", index)) == [(NOW, 0)]


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 300), st.integers(-1000, 1000)), max_size=40
    ),
    interval=st.sampled_from([0, 200, 4096]),
)
def test_writer_and_builder_make_the_same_indexes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, int, int]], interval: int
) -> None:
    """The writer adds entry by entry; the builder adds many batches at once for a cleaned
    segment.
    """
    directory = tmp_path_factory.mktemp("log")
    with write(directory, SegmentConfig(segment_bytes=3000, index_interval_bytes=interval)) as log:
        for count, size, late in sizes:
            log.append_records(records(count, size=size, timestamp=NOW + late))
    for base, data in logs(directory).items():
        builder = IndexBuilder(base_offset=base, index_interval_bytes=interval)
        builder.append(whole_batches(data, least_offset=base, file_name="log"))
        found = tuple(
            (directory / f"{base:020d}{suffix}").read_bytes() for suffix in (".index", ".timeindex")
        )
        assert found == builder.finish()


def test_abort_is_indexed_in_the_segment_of_its_marker(tmp_path: Path) -> None:
    """Its last stable offset is the first offset of the oldest open transaction, or else the next
    offset.
    """
    one, two = Producer(1), Producer(2)
    with write(tmp_path / "t-0") as log:
        for producer in (one, two):
            log.append_records(records(), producer=producer, transactional=True)
        assert log.last_stable_offset == 0
        log.append_marker(one, commit=False)
        assert log.last_stable_offset == 1
        log.roll()
        log.append_marker(two, commit=False)
        assert log.last_stable_offset == log.log_end_offset == 4
        log.append_records(records(), producer=one, transactional=True)
        log.append_marker(one, commit=True)
    entries = {
        int(file.stem): list(struct.iter_unpack(">hqqqq", file.read_bytes()))
        for file in (tmp_path / "t-0").glob("*.txnindex")
    }
    assert entries == {0: [(0, 1, 0, 2, 1)], 3: [(0, 2, 1, 3, 4)]}


def test_snapshot_lists_all_producers(tmp_path: Path) -> None:
    with write(tmp_path / "t-0") as log:
        log.append_records(records(3), producer=Producer(17, 2))
        log.append_records(records(2), producer=Producer(3), transactional=True)
        log.append_records(records(2, timestamp=NOW - 5), producer=Producer(16), transactional=True)
        log.append_marker(Producer(16), commit=True, coordinator_epoch=4, timestamp=NOW + 1)
    entries = read_snapshot(LocalStorage(), str(tmp_path / "t-0" / f"{8:020d}.snapshot"))
    # In the order of a hash table with 16 slots.
    assert entries == (
        ProducerEntry(16, 0, 1, 6, 1, NOW + 1, 4, -1),
        ProducerEntry(17, 2, 2, 2, 2, NOW + 2, -1, -1),
        ProducerEntry(3, 0, 1, 4, 1, NOW + 1, -1, 3),
    )


def test_leader_epochs_are_recorded(tmp_path: Path) -> None:
    file = tmp_path / "t-0" / "leader-epoch-checkpoint"
    with write(tmp_path / "t-0") as log:
        assert file.read_bytes() == b""
        log.append(batch(0, leader_epoch=2))
        log.append(batch(1, leader_epoch=2))
        log.become_leader(5)
        log.append_records(records())
        assert file.read_bytes() == b"0\n2\n2 0\n5 2\n"
        log.raise_log_start_offset(1)
        assert file.read_bytes() == b"0\n2\n2 1\n5 2\n"


def test_mtime_of_a_log_is_that_of_its_last_append(tmp_path: Path) -> None:
    times = iter(range(NOW, NOW + 100))
    with write(
        tmp_path / "t-0", SegmentConfig(segment_bytes=150), clock=lambda: next(times)
    ) as log:
        for offset in range(3):
            log.append(batch(offset))
    ages = [
        file.stat().st_mtime_ns // 10**6 - NOW for file in sorted((tmp_path / "t-0").glob("*.log"))
    ]
    assert ages == [2, 3]


def test_existing_log_is_continued(tmp_path: Path) -> None:
    producer = Producer(5)
    with write(tmp_path / "t-0", log_start_offset=100) as log:
        log.append_records(records(3), producer=producer, transactional=True)
    with write(tmp_path / "t-0", SegmentConfig(segment_bytes=200), log_start_offset=100) as log:
        assert (log.log_start_offset, log.log_end_offset, log.last_stable_offset) == (100, 103, 100)
        log.append_records(records(), producer=producer, transactional=True)
        log.append_marker(producer, commit=False)
        assert log.segment_bases == (100, 104)
    rows = whole_batches(logs(tmp_path / "t-0")[100], least_offset=100, file_name="log")
    assert rows["base_sequence"].tolist() == [0, 3]
    aborted = (tmp_path / "t-0" / f"{104:020d}.txnindex").read_bytes()
    assert list(struct.iter_unpack(">hqqqq", aborted)) == [(0, 5, 100, 104, 105)]


def test_missing_newest_snapshot_is_rebuilt_by_a_replay(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    with write(directory, SegmentConfig(segment_bytes=200)) as log:
        for number in range(6):
            log.append_records(records(), producer=Producer(number % 4), transactional=number == 5)
    last = directory / f"{6:020d}.snapshot"
    expected = last.read_bytes()
    last.unlink()
    with write(directory) as log:
        assert log.last_stable_offset == 5
    assert last.read_bytes() == expected


def test_idle_producers_expire_on_restart(tmp_path: Path) -> None:
    with write(tmp_path / "t-0") as log:
        log.append_records(records(timestamp=NOW - DAY_MS), producer=Producer(1))
        log.append_records(records(timestamp=NOW - DAY_MS + 1), producer=Producer(2))
        log.append_records(
            records(timestamp=NOW - DAY_MS), producer=Producer(3), transactional=True
        )
    with write(tmp_path / "t-0") as log:
        log.append_records(records())
    entries = read_snapshot(LocalStorage(), str(tmp_path / "t-0" / f"{4:020d}.snapshot"))
    assert [entry.producer_id for entry in entries] == [2, 3]


def marker(offset: int, kind: int) -> bytes:
    record = Record(offset, NOW, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return encode_batch(
        [record], leader_epoch=0, transactional=True, control=True, producer_id=1, producer_epoch=0
    )


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "nothing to append"),
        (batch(1), "can't be read"),
        (batch(2)[:-1], "can't be read"),
        (batch(3) + batch(2), "can't be read"),
        (batch(2, crc=1), "wrong CRC"),
        (batch(2, leader_epoch=-1), "no leader epoch"),
        (batch(2) + batch(3) + batch(4) + batch(5), "larger than a segment"),
        (marker(2, 3), "ends no transaction"),
        (
            batch(2, producer_id=1, producer_epoch=0, base_sequence=1),
            "outside of its producer's transaction",
        ),
        (batch(2) + batch(2**31 + 5), "too long for one segment"),
    ],
)
def test_batches_that_kafka_refuses_are_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    directory = tmp_path / "t-0"
    sender: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    before = encode_batch(
        [Record(1, NOW, b"k", b"v")], base_offset=0, leader_epoch=0, transactional=True, **sender
    )
    with write(directory, SegmentConfig(segment_bytes=250)) as log:
        log.append(before)
        with pytest.raises(CorruptLogError, match=problem):
            log.append(data)
        assert log.log_end_offset == 2
    assert {base: data for base, data in logs(directory).items() if data} == {0: before}
    [entry] = read_snapshot(LocalStorage(), str(directory / f"{2:020d}.snapshot"))
    assert (entry.last_offset, entry.current_txn_first_offset) == (1, 0)


def test_append_that_fills_an_index_is_refused(tmp_path: Path) -> None:
    with write(
        tmp_path / "t-0", SegmentConfig(segment_index_bytes=36, index_interval_bytes=0)
    ) as log:
        with pytest.raises(CorruptLogError, match="too long for one segment"):
            log.append(b"".join(batch(offset) for offset in range(9)))
        log.append(batch(0))
    assert list(logs(tmp_path / "t-0").values()) == [batch(0)]
    assert (tmp_path / "t-0" / f"{0:020d}.index").read_bytes() == b""


def test_closed_log_refuses_appends(tmp_path: Path) -> None:
    log = write(tmp_path / "t-0")
    log.close()
    log.close()
    with pytest.raises(ValueError, match="is closed"):
        log.append(batch(0))


def test_log_start_offset_must_lie_in_the_log_and_never_falls(tmp_path: Path) -> None:
    with write(tmp_path / "t-0") as log:
        log.append_records(records(2))
        with pytest.raises(ValueError, match="3 is not in"):
            log.raise_log_start_offset(3)
        log.raise_log_start_offset(2)
        log.raise_log_start_offset(1)
        assert log.log_start_offset == 2


def test_refused_append_leaves_producers_unchanged() -> None:
    table = ProducerTable()
    data = batch(0, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True) + batch(
        1, producer_id=1, producer_epoch=0, base_sequence=1
    )
    with pytest.raises(CorruptLogError, match="transaction"):
        table.append(data, whole_batches(data, least_offset=0, file_name="log"))
    assert table.entries() == []
    assert table.first_open_offset is None
