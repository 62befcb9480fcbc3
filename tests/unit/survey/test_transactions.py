"""Take one log with transactions through walk, fold, scan and rewrite, and verify its index."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.twins.encoding import encode_batch
from tests.twins.walk import decode_batch
from tests.unit.cleaning.partitions import (
    NOW,
    SECRET,
    batch,
    files_of,
    job_of,
    make_partition,
    record,
    records_in,
    segments_of,
)
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.rewrite.rewrite import rewrite_group
from winnow.cleaning.rewrite.verify import Meant, verify_staged
from winnow.errors import CorruptLogError, VerificationError
from winnow.logdir import batches
from winnow.logdir.indexes.txnindex import AbortedTransaction, decode_txn_index, encode_txn_index
from winnow.logdir.names import LOG, TXNINDEX, segment_file
from winnow.policy.versions import asked_version
from winnow.scan import cut
from winnow.scan.job import GroupJob, PartitionJob
from winnow.scan.resolve import Survivors, resolve_bucket
from winnow.scan.scan import scan_split
from winnow.state import PartitionState, ProducerEntry, TopicPartition
from winnow.survey.transactions import Snapshot, Transactions, settle
from winnow.survey.walk import SegmentWalk, TransactionsWanted, walk_segment
from winnow.wire.plain import Record

ABORTED = AbortedTransaction(7, 1, 4, 5)
DAY = 86_400_000
NOTHING_TOLD = Snapshot(0, ())


def data(offset: int, producer: int, key: bytes) -> bytes:
    return encode_batch(
        [record(offset, key)],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=offset,
        transactional=True,
    )


def marker(offset: int, producer: int, *, commit: bool, epoch: int = 0) -> bytes:
    content = Record(offset, NOW, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 11))
    return encode_batch(
        [content], producer_id=producer, producer_epoch=epoch, transactional=True, control=True
    )


SEGMENTS = {
    0: [encode_batch([record(0, b"a")]), data(1, 7, b"a"), data(2, 8, b"b")],
    3: [data(3, 8, b"d"), marker(4, 7, commit=False), marker(5, 8, commit=True, epoch=1)],
    6: [data(6, 8, b"c")],
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = make_partition(tmp_path / "t-0", SEGMENTS)
    (made / segment_file(3, TXNINDEX)).write_bytes(encode_txn_index([ABORTED]))
    return made


def walked(
    directory: Path, *, high_watermark: int = 7, log_start: int = 0, producers_from: int = 0
) -> list[SegmentWalk]:
    segments = segments_of(directory)
    ends = [*(segment.base_offset for segment in segments[1:]), None]
    return [
        walk_segment(
            str(directory),
            segment.base_offset,
            segment.log_bytes,
            producers_from=producers_from,
            transactions=TransactionsWanted(
                high_watermark=high_watermark,
                log_start_offset=log_start,
                end_offset=following,
                txn_index=segment.txnindex_bytes is not None,
            ),
        )
        for segment, following in zip(segments, ends, strict=True)
    ]


def settled(
    directory: Path,
    walks: list[SegmentWalk],
    *,
    high_watermark: int = 7,
    log_start: int = 0,
    snapshot: Snapshot = NOTHING_TOLD,
    version: str = "4.3",
) -> Transactions:
    state = PartitionState(
        log_dir=str(directory.parent),
        topic_partition=TopicPartition("t", 0),
        segments=segments_of(directory),
        log_start_offset=log_start,
        log_end_offset=7,
        high_watermark=high_watermark,
        cleaner_checkpoint=None,
        log_start_checkpoint=None,
        snapshot_offsets=(),
        leader_epochs=(),
    )
    rules = asked_version(version).rules
    return settle(state, snapshot, walks, now=NOW, expiration_ms=DAY, rules=rules)


@pytest.mark.parametrize("rows", [1, 2, 65_536])
def test_producers_and_open_transactions_cross_chunks_and_segments(
    directory: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BLOCK_ROWS", rows)
    found = settled(directory, walked(directory))
    assert [carried.open_producers for carried in found.carried] == [set(), {7, 8}, set()]
    assert (found.last_stable_offset, str(found.undecided)) == (
        6,
        "producer 8 has a transaction open since offset 6",
    )
    producers = found.producers.producers
    assert (producers[7].last_offset, producers[7].coordinator_epoch) == (1, 11)
    assert (producers[8].last_offset, producers[8].current_txn_first_offset) == (6, 6)
    assert found.aborted.tolist() == [(7, 1, 4, 5)]


def test_transaction_that_ends_at_the_high_watermark_is_undecided(directory: Path) -> None:
    found = settled(directory, walked(directory, high_watermark=5), high_watermark=5)
    assert found.last_stable_offset == 2
    assert "producer 8 from offset 2 on ends at 5" in str(found.undecided)


# One transaction, open since offset 1, with no other batches.
OPEN = {
    0: [encode_batch([record(0)]), data(1, 7, b"a"), batch(record(2), record(3), record(4))],
    5: [batch(record(5))],
}
TOLD = ProducerEntry(
    producer_id=7,
    epoch=0,
    last_sequence=1,
    last_offset=1,
    offset_delta=0,
    timestamp=NOW,
    coordinator_epoch=-1,
    current_txn_first_offset=1,
)


@pytest.mark.parametrize(
    ("log_start", "snapshot", "stable"),
    [
        pytest.param(1, Snapshot(1, ()), 1, id="begins at it"),
        pytest.param(2, Snapshot(2, ()), 6, id="below it and unknown"),
        pytest.param(
            3, Snapshot(5, (TOLD,)), 2, id="below it and known, and it lies inside of a batch"
        ),
        pytest.param(
            5, Snapshot(6, (TOLD,)), 5, id="below it and known, and a segment begins there"
        ),
    ],
)
def test_transaction_below_log_start_is_open_only_if_in_a_snapshot(
    tmp_path: Path, log_start: int, snapshot: Snapshot, stable: int
) -> None:
    """Kafka replays from the log start offset. It raises offsets in a snapshot to the first batch
    there (S3.2).
    """
    made = make_partition(tmp_path / "t-0", OPEN)
    walks = walked(made, high_watermark=6, log_start=log_start, producers_from=snapshot.offset)
    found = settled(made, walks, high_watermark=6, log_start=log_start, snapshot=snapshot)
    assert found.last_stable_offset == stable
    assert (found.undecided is None) == (stable == 6)


@pytest.mark.parametrize(("version", "stable"), [("2.8", 3), ("3.9", 3), ("4.0", 5), ("4.4", 5)])
def test_version_decides_what_a_transaction_open_below_the_log_start_limits(
    tmp_path: Path, version: str, stable: int
) -> None:
    """No batch lies between the log start offset 3 and the next segment."""
    made = make_partition(
        tmp_path / "t-0", {0: [encode_batch([record(0)]), data(1, 7, b"a")], 5: [batch(record(5))]}
    )
    walks = walked(made, high_watermark=6, log_start=3, producers_from=6)
    snapshot = Snapshot(6, (TOLD,))
    found = settled(made, walks, high_watermark=6, log_start=3, snapshot=snapshot, version=version)
    assert found.last_stable_offset == stable


def test_index_of_another_log_is_refused_and_both_files_named(directory: Path) -> None:
    (directory / segment_file(3, TXNINDEX)).write_bytes(
        encode_txn_index([replace(ABORTED, last_offset=5)])
    )
    with pytest.raises(
        CorruptLogError, match=rf"{segment_file(3, TXNINDEX)} and .*{segment_file(3, LOG)}"
    ):
        walked(directory)


def test_control_batch_with_wrong_crc_is_refused(tmp_path: Path) -> None:
    damaged = bytearray(b"".join(SEGMENTS[3]))
    damaged[-1] ^= 1
    directory = make_partition(tmp_path / "t-0", {**SEGMENTS, 3: [bytes(damaged)]})
    with pytest.raises(CorruptLogError, match="control batch does not match its CRC"):
        walked(directory)


def cleaned(job: PartitionJob) -> list[CleanedGroup]:
    buckets: dict[int, list[object]] = {}
    for number in range(len(job.splits)):
        for bucket, blob in scan_split(job, number, SECRET):
            buckets.setdefault(bucket, []).append(blob)
    kept: list[Survivors] = [s for blobs in buckets.values() for s in resolve_bucket(blobs)]  # type: ignore[arg-type]
    return [
        rewrite_group(
            GroupOutput(job, group, [s for s in kept if s.split in group.splits], now=NOW)
        )()
        for group in job.groups
    ]


def two_groups(directory: Path) -> PartitionJob:
    transactions = settled(directory, walked(directory))
    segments = segments_of(directory)
    job = job_of(directory, end_offset=6, aborted=transactions.aborted, last_records={})
    groups = tuple(
        GroupJob((segment,), (number,), transactions.carried[number])
        for number, segment in enumerate(segments[:2])
    )
    return replace(job, splits=job.splits[:2], groups=groups)


def test_case_33_groups_that_share_a_transaction_are_cleaned_separately(directory: Path) -> None:
    """Case 28 as well: the aborted value of `a` at 1 is dropped. The value at 0, which it would
    have superseded, is kept.
    """
    groups = cleaned(two_groups(directory))
    assert [group.unchanged for group in groups] == [False, True]
    first, second = (files_of(directory, group) for group in groups)
    assert [r.offset for r in records_in(Path(first[LOG]).read_bytes())] == [0, 2]
    assert [r.offset for r in records_in(Path(second[LOG]).read_bytes())] == [3, 4, 5]
    assert TXNINDEX not in first
    index = Path(second[TXNINDEX])
    assert decode_txn_index(index.read_bytes(), str(index), base_offset=3, end_offset=6) == (
        ABORTED,
    )


def test_several_splits_give_the_same_result_as_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cleaned(job_of(directory, aborted=settled(directory, walked(directory)).aborted))
    monkeypatch.setattr(cut, "SPLIT_BYTES", 1)
    (directory / ".winnow-again").mkdir()
    job = job_of(
        directory,
        aborted=settled(directory, walked(directory)).aborted,
        staging=f"{directory}/.winnow-again",
    )
    assert len(job.splits) == 7
    split = cleaned(job)
    for suffix, path in whole[0].staged.paths.items():
        assert Path(split[0].staged.paths[suffix]).read_bytes() == Path(path).read_bytes()
    assert TXNINDEX in whole[0].staged.paths


@pytest.mark.parametrize(("horizon", "left"), [(None, 1), (NOW + 1, 1), (NOW, 0)])
def test_case_29_marker_without_data_is_dropped_at_its_horizon(
    tmp_path: Path, horizon: int | None, left: int
) -> None:
    content = Record(0, NOW - 5, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 11))
    alone = encode_batch(
        [content],
        producer_id=7,
        producer_epoch=0,
        transactional=True,
        control=True,
        delete_horizon=horizon,
    )
    directory = make_partition(
        tmp_path / "t-0", {0: [alone, encode_batch([record(1)])], 2: [encode_batch([record(2)])]}
    )
    [group] = cleaned(job_of(directory))
    log = Path(files_of(directory, group)[LOG]).read_bytes()
    assert group.records_after == left + 1
    if left:
        header, _ = decode_batch(log, 0)
        assert header["base_timestamp"] == (NOW + DAY if horizon is None else horizon)


def test_abort_marker_is_kept_if_its_delete_horizon_overflows(tmp_path: Path) -> None:
    """`delete.retention.ms` of 2^63-1 means forever: the marker has no horizon and no entry, as in
    Kafka.
    """
    alone = [marker(0, 7, commit=False), encode_batch([record(1)])]
    directory = make_partition(tmp_path / "t-0", {0: alone, 2: [encode_batch([record(2)])]})
    job = job_of(directory, delete_retention_ms=2**63 - 1)
    [group] = cleaned(job)
    header, _ = decode_batch(Path(group.staged.paths[LOG]).read_bytes(), 0)
    assert (header["base_offset"], header["base_timestamp"]) == (0, NOW)
    for wanted in (b"", encode_txn_index([ABORTED])):
        with (
            pytest.raises(VerificationError, match="transaction index") if wanted else nullcontext()
        ):
            verify_staged(
                group.staged.paths,
                Meant(
                    base_offset=0,
                    end_offset=job.end_offset,
                    log_bytes=group.bytes_after,
                    records=group.records_after,
                    index_interval_bytes=100,
                    segment_index_bytes=10_485_760,
                    without_horizons=wanted,
                ),
            )


def verify(group: CleanedGroup, paths: dict[str, str]) -> None:
    verify_staged(
        paths,
        Meant(
            base_offset=3,
            end_offset=6,
            log_bytes=group.bytes_after,
            records=group.records_after,
            index_interval_bytes=100,
            segment_index_bytes=10_485_760,
        ),
    )


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [replace(ABORTED, last_offset=5)],
        [replace(ABORTED, producer_id=8)],
        [replace(ABORTED, last_offset=3), ABORTED],
        [ABORTED, replace(ABORTED, last_offset=5)],
        [replace(ABORTED, last_offset=6)],
    ],
)
def test_staged_transaction_index_that_contradicts_the_log_is_refused(
    directory: Path, entries: list[AbortedTransaction]
) -> None:
    _, group = cleaned(two_groups(directory))
    paths = files_of(directory, group)
    verify(group, paths)
    Path(paths[TXNINDEX]).write_bytes(encode_txn_index(entries))
    with pytest.raises(VerificationError):
        verify(group, paths)
    del paths[TXNINDEX]
    with pytest.raises(VerificationError, match="transaction index"):
        verify(group, paths)
