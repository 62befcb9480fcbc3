"""`read_committed` skips aborted records, and all records from the first open transaction on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.data import copy_log_dir, unpacked
from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import make_partition
from tests.unit.kafka_log.reading import offsets, rows
from winnow.errors import CorruptLogError
from winnow.logdir.indexes.txnindex import AbortedTransaction, encode_txn_index
from winnow.logdir.names import SNAPSHOT, TXNINDEX, segment_file
from winnow.logdir.snapshots import encode_snapshot
from winnow.state import ProducerEntry
from winnow.wire.control import ControlType
from winnow.wire.plain import Record

CLEAN = unpacked("before-clean") / "clean"
WITH_TRANSACTIONS = ("t-closed-0", "t-long-0", "t-open-0", "t-v1-0", "b-txn-0")
COMMITTED = {"isolationLevel": "read_committed"}


def data(offset: int, producer: int, *, transactional: bool = True) -> bytes:
    records = [Record(offset, 1, b"k", b"v"), Record(offset + 1, 1, b"k", b"v")]
    return encode_batch(
        records,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def marker(offset: int, producer: int, kind: ControlType) -> bytes:
    record = Record(offset, 1, b"\0\0\0" + bytes([kind]), bytes(6))
    return encode_batch(
        [record], producer_id=producer, producer_epoch=0, transactional=True, control=True
    )


ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
LOG: Mapping[int, Sequence[bytes]] = {
    0: [data(0, 1), data(2, 2), marker(4, 1, ABORT), data(5, 1), data(7, 9, transactional=False)],
    9: [marker(9, 2, ABORT), marker(10, 1, COMMIT), data(11, 2), data(13, 3)],
    15: [data(15, 9, transactional=False), marker(17, 2, COMMIT), data(18, 9, transactional=False)],
}
"""Producers 1 and 2 abort at first and commit then, the last transaction of 3 is open."""
GOOD = [5, 6, 7, 8, 11, 12]


def snapshot(*open_: tuple[int, int]) -> bytes:
    return encode_snapshot(
        ProducerEntry(producer, 0, 1, first + 1, 1, 1, 0, first) for producer, first in open_
    )


def test_log_without_side_files_is_enough(tmp_path: Path) -> None:
    assert offsets(make_partition(tmp_path / "t-0", LOG), **COMMITTED) == GOOD


def test_snapshot_replaces_the_replay(tmp_path: Path) -> None:
    """The snapshot and the indexes are trusted. Here they contradict the log before the
    snapshot.
    """
    directory = make_partition(tmp_path / "t-0", LOG)
    (directory / segment_file(15, SNAPSHOT)).write_bytes(snapshot((2, 11)))
    entry = AbortedTransaction(producer_id=1, first_offset=0, last_offset=4, last_stable_offset=2)
    (directory / segment_file(0, TXNINDEX)).write_bytes(encode_txn_index([entry]))
    # Producer 3 is not in it, and producer 2 commits after it. No file says that 2 aborted at 9.
    assert offsets(directory, **COMMITTED) == [2, 3, *GOOD, 13, 14, 15, 16, 18, 19]


def test_index_counts_where_it_differs_from_the_replay(tmp_path: Path) -> None:
    """Each producer writes two batches and aborts. The index says that the first one is none of the
    transaction.
    """
    begins = {producer: 5 * producer for producer in range(40)}
    log = [
        batch
        for producer, at in begins.items()
        for batch in (data(at, producer), data(at + 2, producer), marker(at + 4, producer, ABORT))
    ]
    directory = make_partition(tmp_path / "t-0", {0: log})
    entries = [AbortedTransaction(producer, at + 2, at + 4, at) for producer, at in begins.items()]
    (directory / segment_file(0, TXNINDEX)).write_bytes(encode_txn_index(entries))
    assert offsets(directory, **COMMITTED) == [
        offset for at in begins.values() for offset in (at, at + 1)
    ]


@pytest.mark.parametrize("producer", [-1, -2])
def test_transactional_batch_without_a_producer_is_committed(producer: int, tmp_path: Path) -> None:
    """As to a broker, whatever follows."""
    log = [data(0, producer), data(2, 1), marker(4, producer, ABORT), data(5, producer)]
    directory = make_partition(tmp_path / "t-0", {0: [*log, marker(7, 1, COMMIT)]})
    assert offsets(directory, **COMMITTED) == [0, 1, 2, 3, 5, 6]


@pytest.mark.parametrize(
    "spoiled", [b"", b"\0\1", snapshot((3, 13))[:-1], snapshot((3, 13))[:-1] + b"x"]
)
def test_damaged_snapshot_is_ignored(spoiled: bytes, tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", LOG)
    (directory / segment_file(20, SNAPSHOT)).write_bytes(spoiled)
    assert offsets(directory, **COMMITTED) == GOOD


def test_snapshot_beyond_the_log_end_is_ignored(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", LOG)
    (directory / segment_file(21, SNAPSHOT)).write_bytes(snapshot())
    assert offsets(directory, **COMMITTED) == GOOD
    (directory / segment_file(21, SNAPSHOT)).rename(directory / segment_file(20, SNAPSHOT))
    assert offsets(directory, **COMMITTED) == [n for n in range(20) if n not in {4, 9, 10, 17}]


def test_torn_end_is_the_log_end(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", LOG)
    log = directory / f"{15:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    assert offsets(directory, **COMMITTED) == GOOD


def test_log_with_a_damaged_control_batch_shows_no_records(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", LOG)
    log = directory / f"{9:020d}.log"
    spoiled = bytearray(log.read_bytes())
    spoiled[len(marker(9, 2, ABORT)) - 1] ^= 1
    log.write_bytes(bytes(spoiled))
    [row] = rows(directory, **COMMITTED)
    assert "a control batch does not match its CRC" in row["problem"]
    with pytest.raises(CorruptLogError, match="control batch does not match"):
        rows(directory, mode="FAILFAST", **COMMITTED)
    assert rows(directory, mode="DROPMALFORMED", **COMMITTED) == []


@pytest.mark.parametrize("name", WITH_TRANSACTIONS)
def test_log_with_and_without_side_files_gives_the_same_records(name: str, tmp_path: Path) -> None:
    """Cleaned logs are excluded: their aborts may be recorded only in the index."""
    there = offsets(CLEAN / name, **COMMITTED)
    assert set(there) < set(offsets(CLEAN / name))
    copied = copy_log_dir("clean", tmp_path / "log-dir", only=[name]) / name
    for suffix in (SNAPSHOT, TXNINDEX):
        for path in copied.glob(f"*{suffix}"):
            path.unlink()
    assert offsets(copied, **COMMITTED) == there


@given(most=st.integers(1, 20_000))
def test_tasks_of_any_size_skip_the_same_records(most: int) -> None:
    name = "t-long-0"
    assert offsets(CLEAN / name, maxBytesPerPartition=most, **COMMITTED) == offsets(
        CLEAN / name, **COMMITTED
    )


def test_markers_are_shown_only_if_asked_for(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", LOG)
    assert offsets(directory, includeControl=True, **COMMITTED) == [4, *GOOD[:4], 9, 10, *GOOD[4:]]
    assert {row["offset"] for row in rows(directory, includeControl=True) if row["isControl"]} == {
        4,
        9,
        10,
        17,
    }
    assert offsets(directory) == [n for n in range(20) if n not in {4, 9, 10, 17}]
