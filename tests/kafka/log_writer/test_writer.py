"""The log writer beside Kafka's own log: the same appends give the same files to the byte (S1,
S8.4).
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.judge.judge import Kafka
from tests.kafka.log_writer.twin import HOUR_MS, NOW, Twin, batch, legacy, records, wrapper
from tests.log_writer.leader_batches import Producer
from tests.log_writer.segment_writer import SegmentConfig
from tests.twins.encoding import encode_batch
from winnow.logdir.snapshots import decode_snapshot
from winnow.wire.batch import Codec
from winnow.wire.plain import Record

SMALL = SegmentConfig(segment_bytes=1000, index_interval_bytes=100)


def bases(files: dict[str, bytes]) -> list[int]:
    return sorted(int(name[:20]) for name in files if name.endswith(".log"))


@pytest.fixture
def twin(kafka: Kafka, tmp_path: Path) -> Twin:
    return Twin(kafka, tmp_path, SMALL, now=NOW)


def test_empty_log(twin: Twin) -> None:
    twin.roll()
    assert bases(twin.assert_alike()) == [0]


def test_segment_rolls_by_bytes(twin: Twin) -> None:
    for number in range(20):
        twin.lead(records(1 + number % 5, size=9 * number))
    files = twin.assert_alike()
    assert len(bases(files)) > 3
    assert all(
        len(data) <= SMALL.segment_bytes for name, data in files.items() if name.endswith(".log")
    )


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_gives_same_files(twin: Twin, codec: Codec) -> None:
    for number in range(12):
        twin.follow(batch(twin.log.log_end_offset, 8, size=25, codec=codec, timestamp=NOW + number))
    twin.assert_alike()


def test_segment_rolls_by_record_time(kafka: Kafka, tmp_path: Path) -> None:
    twin = Twin(kafka, tmp_path, SegmentConfig(segment_ms=HOUR_MS), now=NOW)
    # The clock has no say as long as the first batch has a time; an hour exactly is not yet too
    # long.
    for timestamp in (
        NOW,
        NOW - HOUR_MS,
        NOW + HOUR_MS - 1,
        NOW + HOUR_MS,
        NOW,
        NOW + HOUR_MS + 1,
        NOW,
    ):
        twin.now += 10 * HOUR_MS
        twin.lead(records(timestamp=timestamp))
    assert bases(twin.assert_alike()) == [0, 5]


def test_segment_rolls_by_clock_if_records_have_no_time(kafka: Kafka, tmp_path: Path) -> None:
    twin = Twin(kafka, tmp_path, SegmentConfig(segment_ms=HOUR_MS), now=NOW)
    for offset in range(4):
        twin.follow(legacy(0, offset))
        twin.now += HOUR_MS
    twin.follow(legacy(1, 4, timestamp=NOW))
    assert bases(twin.assert_alike()) == [0, 2, 4]


@pytest.mark.parametrize(("index_bytes", "interval"), [(32, 10), (40, 100), (64, 0)])
def test_segment_rolls_when_an_index_is_full(
    kafka: Kafka, tmp_path: Path, index_bytes: int, interval: int
) -> None:
    config = SegmentConfig(segment_index_bytes=index_bytes, index_interval_bytes=interval)
    twin = Twin(kafka, tmp_path, config, now=NOW)
    for number in range(60):
        # Every second stretch does not get newer, so that only the offset index grows there.
        twin.lead(records(timestamp=NOW + (number if number // 20 % 2 else 0)))
    assert len(bases(twin.assert_alike())) > 5


@pytest.mark.parametrize("far", [2**31 - 1, 2**31])
def test_segment_rolls_if_offset_is_too_far_from_base(twin: Twin, far: int) -> None:
    twin.follow(batch(0))
    twin.follow(batch(far))
    twin.follow(batch(2**40))
    assert bases(twin.assert_alike()) == sorted({0, 2**40, *([far] if far == 2**31 else [])})


def test_segment_rolls_if_first_offset_is_too_far(twin: Twin) -> None:
    twin.follow(batch(2**32 + 5))
    assert bases(twin.assert_alike()) == [0, 2**32 + 5]


def test_base_offset_of_old_formats_is_estimated(twin: Twin) -> None:
    """Kafka does not read a wrapper for its first offset. If the segment is only full, the base is
    the log end offset.
    """
    twin.follow(legacy(1, 0, timestamp=NOW))
    twin.follow(wrapper(1, [2**31, 2**31 + 1, 2**31 + 7], timestamp=NOW))
    twin.follow(wrapper(0, [2**33]) + legacy(0, 2**33 + 1))
    twin.follow(legacy(1, 2**33 + 2, timestamp=NOW, value=b"v" * 950))
    assert bases(twin.assert_alike()) == [0, 8, 2**33 + 1 - (2**31 - 1), 2**33 + 2]


def test_old_formats_clear_leader_epochs(twin: Twin) -> None:
    twin.follow(batch(0, leader_epoch=1))
    twin.follow(batch(1, leader_epoch=4) + batch(2, leader_epoch=4) + batch(3, leader_epoch=6))
    assert twin.assert_alike()["leader-epoch-checkpoint"] == b"0\n3\n1 0\n4 1\n6 3\n"
    twin.follow(wrapper(1, [4, 5], timestamp=NOW))
    assert twin.assert_alike()["leader-epoch-checkpoint"] == b"0\n0\n"
    twin.follow(batch(6, leader_epoch=2))
    twin.follow(batch(7, leader_epoch=1))
    assert twin.assert_alike()["leader-epoch-checkpoint"] == b"0\n1\n1 7\n"


def test_changing_leaders_are_recorded(twin: Twin) -> None:
    twin.become_leader(2)
    twin.become_leader(3)
    twin.lead(records(3))
    twin.become_leader(7)
    twin.lead(records(2))
    twin.become_leader(8)
    assert twin.assert_alike()["leader-epoch-checkpoint"] == b"0\n3\n3 0\n7 3\n8 5\n"
    # A restart forgets the leader that wrote nothing.
    assert twin.assert_alike()["leader-epoch-checkpoint"] == b"0\n2\n3 0\n7 3\n"


def test_log_start_offset_moves_into_a_segment(twin: Twin) -> None:
    for number in range(30):
        if number % 10 == 0:
            twin.become_leader(number)
        twin.lead(records(2, size=60), producer=Producer(1), transactional=number > 25)
    twin.raise_log_start_offset(45)
    files = twin.assert_alike()
    assert files["leader-epoch-checkpoint"] == b"0\n1\n20 45\n"
    assert len(bases(files)) > 5
    twin.lead(records(), producer=Producer(1), transactional=True)
    twin.assert_alike()
    twin.mark(Producer(1), commit=False)
    twin.raise_log_start_offset(twin.log.log_end_offset)
    twin.assert_alike()


def test_log_with_a_late_start_offset(kafka: Kafka, tmp_path: Path) -> None:
    twin = Twin(kafka, tmp_path, SMALL, now=NOW, log_start_offset=500)
    files = twin.assert_alike()
    assert bases(files) == [500]
    twin.lead(records(4))
    twin.follow(batch(700))
    twin.assert_alike()


def test_snapshots_of_many_producers(kafka: Kafka, tmp_path: Path) -> None:
    """Their order is that of a Java HashMap, which grows meanwhile."""
    twin = Twin(kafka, tmp_path, SegmentConfig(segment_bytes=2000), now=NOW)
    numbers = random.Random(5)
    ids = [
        *range(2000, 2040),
        *(numbers.randrange(2**62) for _ in range(40)),
        2**31,
        2**32 + 5,
        2**63 - 1,
    ]
    numbers.shuffle(ids)
    for pid in ids:
        twin.lead(records(2), producer=Producer(pid, numbers.randrange(5)))
        if numbers.random() < 0.2:
            several = [
                (numbers.randrange(1000), number)
                for number in range(numbers.choice((2, 5, 13, 14)))
            ]
            end = twin.log.log_end_offset
            twin.follow(
                b"".join(
                    batch(end + n, size=0, producer_id=p, producer_epoch=9, base_sequence=n)
                    for p, n in several
                )
            )
    files = twin.assert_alike()
    last = f"{twin.log.log_end_offset:020d}.snapshot"
    assert len(decode_snapshot(files[last], where=last)) > len(ids)


def test_producer_restarts_and_its_sequences_wrap(twin: Twin) -> None:
    first, second = Producer(7, 0), Producer(7, 1)
    twin.lead(records(3), producer=first, base_sequence=2**31 - 2)
    twin.lead(records(2), producer=first)
    twin.lead(records(1), producer=second)
    twin.follow(batch(twin.log.log_end_offset, producer_id=7, producer_epoch=0, base_sequence=40))
    files = twin.assert_alike()
    name = f"{twin.log.log_end_offset:020d}.snapshot"
    [entry] = decode_snapshot(files[name], where=name)
    assert (entry.epoch, entry.last_sequence, entry.last_offset) == (0, 40, 6)


def test_transactions_overlap(twin: Twin) -> None:
    a, b, c = (Producer(number) for number in (1, 2, 3))
    for producer in (a, b, a, c):
        twin.lead(records(2), producer=producer, transactional=True)
    twin.mark(b, commit=False, coordinator_epoch=3)
    assert twin.log.last_stable_offset == 0
    twin.mark(a, commit=False, coordinator_epoch=3)
    twin.lead(records(2), producer=b, transactional=True)
    twin.mark(c, commit=True)
    twin.mark(b, commit=False, coordinator_epoch=4)
    twin.mark(a, commit=False, coordinator_epoch=4)  # of nothing
    files = twin.assert_alike()
    aborted = b"".join(data for name, data in sorted(files.items()) if name.endswith(".txnindex"))
    assert list(struct.iter_unpack(">hqqqq", aborted)) == [
        (0, 2, 2, 8, 0),
        (0, 1, 0, 9, 6),
        (0, 2, 10, 13, 14),
    ]


def test_open_transaction_survives_a_restart(twin: Twin) -> None:
    open_, other = Producer(1, 4), Producer(2)
    for _ in range(20):
        twin.lead(records(2, size=30), producer=open_, transactional=True)
        twin.lead(records(), producer=other)
    twin.assert_alike()
    twin.now += 2 * 24 * HOUR_MS  # `other` is forgotten by the next start, `open_` is not
    twin.assert_alike()
    twin.mark(open_, commit=False)
    files = twin.assert_alike()
    assert sum(name.endswith(".txnindex") for name in files) == 1
    name = f"{twin.log.log_end_offset:020d}.snapshot"
    assert [entry.producer_id for entry in decode_snapshot(files[name], where=name)] == [1]


def test_markers_of_transaction_version_2(twin: Twin) -> None:
    """The coordinator raises the epoch in the marker, so no data batch has that epoch."""
    for epoch in range(3):
        twin.lead(records(2), producer=Producer(5, epoch), transactional=True)
        twin.mark(Producer(5, epoch + 1), commit=epoch == 1)
    end = twin.log.log_end_offset
    both = batch(end, producer_id=5, producer_epoch=3, base_sequence=0, transactional=True)
    twin.follow(both + marker(end + 1, 5, commit=False, epoch=4))
    files = twin.assert_alike()
    name = f"{twin.log.log_end_offset:020d}.snapshot"
    [entry] = decode_snapshot(files[name], where=name)
    assert (entry.epoch, entry.last_sequence, entry.last_offset) == (4, -1, -1)


def test_appends_of_several_batches(twin: Twin) -> None:
    """All batches of one append are written to one segment, and their producers are checked
    together.
    """
    options = {"producer_epoch": 0, "transactional": True}
    for _ in range(4):
        end = twin.log.log_end_offset
        data = batch(end, 2, producer_id=1, base_sequence=0, **options)
        data += marker(end + 2, 1, commit=False) + batch(
            end + 3, 1, producer_id=1, base_sequence=2, **options
        )
        data += batch(end + 5, 1, producer_id=2, base_sequence=0, **options) + marker(
            end + 9, 2, commit=False
        )
        twin.follow(data + marker(end + 10, 1, commit=False))
    files = twin.assert_alike()
    assert len(bases(files)) > 1
    assert sum(len(data) for name, data in files.items() if name.endswith(".txnindex")) == 34 * 12


def test_cleaned_batches_can_be_appended(twin: Twin) -> None:
    """As by a follower that starts empty: gaps, batches without records, markers without a
    record.
    """
    twin.follow(batch(10, producer_id=4, producer_epoch=1, base_sequence=3, last_offset=90))
    twin.follow(hollow(100, 120, producer_id=4, producer_epoch=1, base_sequence=12))
    twin.follow(hollow(130, 130, producer_id=6, producer_epoch=0, transactional=True, control=True))
    twin.follow(hollow(131, 131, producer_id=4, producer_epoch=1, transactional=True, control=True))
    files = twin.assert_alike()
    name = f"{132:020d}.snapshot"
    entries = {entry.producer_id: entry for entry in decode_snapshot(files[name], where=name)}
    assert (entries[4].last_sequence, entries[4].last_offset, entries[4].offset_delta) == (
        32,
        120,
        20,
    )
    assert (entries[6].epoch, entries[6].last_offset, entries[6].timestamp) == (-1, -1, -1), (
        "known, but nothing of it"
    )


def marker(offset: int, producer_id: int, *, commit: bool, epoch: int = 0) -> bytes:
    record = Record(offset, NOW, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
    return encode_batch(
        [record],
        leader_epoch=0,
        transactional=True,
        control=True,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def hollow(first: int, last: int, **options: Any) -> bytes:
    return encode_batch(
        [], base_offset=first, last_offset=last, leader_epoch=0, max_timestamp=NOW, **options
    )
