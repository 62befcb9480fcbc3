"""Counts of removed records by reason, and checksums over batches."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import (
    NOW,
    SECRET,
    batch,
    job_of,
    make_partition,
    record,
    records_in,
)
from winnow.cleaning.result import RecordsRemoved
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.rewrite.rewrite import rewrite_group
from winnow.logdir.names import LOG
from winnow.policy.transactions import ABORTED
from winnow.scan.cut import batches_checksum
from winnow.scan.resolve import resolve_bucket
from winnow.scan.scan import KeyBlob, scan_split
from winnow.wire.batch import BATCH, Codec
from winnow.wire.plain import Record
from winnow.wire.walk import walk_batches


def marker(offset: int, producer: int, *, commit: bool, horizon: int | None = None) -> bytes:
    content = Record(offset, NOW - 5, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 11))
    return encode_batch(
        [content],
        producer_id=producer,
        producer_epoch=0,
        transactional=True,
        control=True,
        delete_horizon=horizon,
    )


def log(codec: Codec) -> list[bytes]:
    """Return a log with every reason for removal, each followed by a record that is kept."""
    aborted = [record(1, b"b"), record(2, b"a")]
    return [
        batch(record(0, b"a"), codec=codec),
        encode_batch(
            aborted,
            codec=codec,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        ),
        encode_batch([record(3, b"t", None), record(4, b"u")], codec=codec, delete_horizon=NOW),
        encode_batch([record(5, b"v", None), record(6, b"w")], codec=codec, delete_horizon=NOW + 1),
        batch(record(7, None), record(8, b"x"), codec=codec),
        marker(9, 7, commit=False),
        batch(record(10, b"a"), record(11, b"a"), codec=codec),
        marker(12, 8, commit=True, horizon=NOW),
        marker(13, 9, commit=True, horizon=NOW + 1),
    ]


def cleaned(directory: Path) -> CleanedGroup:
    job = job_of(directory, aborted=np.array([(7, 1, 9, 10)], ABORTED))
    buckets: dict[int, list[KeyBlob]] = {}
    for number in range(len(job.splits)):
        for bucket, blob in scan_split(job, number, SECRET):
            buckets.setdefault(bucket, []).append(blob)
    kept = [some for blobs in buckets.values() for some in resolve_bucket(blobs)]
    return rewrite_group(GroupOutput(job, job.groups[0], kept, now=NOW))()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_removed_records_are_counted_by_reason(tmp_path: Path, codec: Codec) -> None:
    group = cleaned(make_partition(tmp_path / "t-0", {0: log(codec)}))
    staged = Path(group.staged.paths[LOG]).read_bytes()
    assert [one.offset for one in records_in(staged)] == [4, 5, 6, 8, 9, 11, 13]
    # Superseded: 0 and 10 of key `a`, and the one without a key. Then 3; 1 and 2; 12.
    assert group.removed == RecordsRemoved(superseded=3, tombstones=1, aborted=2, markers=1)
    assert group.removed.total == group.records_before - group.records_after


def test_checksums_match_the_files(tmp_path: Path) -> None:
    segments = {0: log(Codec.NONE), 14: [batch(record(14))]}
    group = cleaned(make_partition(tmp_path / "t-0", segments))
    for base, batches in segments.items():
        assert group.source_checksums[base] == plain_checksum(b"".join(batches), base)
    assert group.checksum == plain_checksum(Path(group.staged.paths[LOG]).read_bytes(), 0)


def plain_checksum(data: bytes, base: int) -> int:
    """Compute it by hand: offset, length and CRC are at bytes 0, 8 and 17 of a batch."""
    summed, at = b"", 0
    while at < len(data):
        offset, length = struct.unpack_from(">qi", data, at)
        summed += struct.pack(">qi", offset, length + 12) + data[at + 17 : at + 21]
        at += length + 12
    assert at == len(data)
    assert base == struct.unpack_from(">q", data)[0] or base == 0
    return zlib.crc32(summed)


def test_checksum_can_be_made_in_parts_and_depends_on_order() -> None:
    rows = np.zeros(9, BATCH)
    count, _, _ = walk_batches(b"".join(log(Codec.NONE)), 0, 0, rows)
    assert count == len(rows)
    whole = batches_checksum(rows)
    for cut in range(len(rows) + 1):
        assert batches_checksum(rows[cut:], batches_checksum(rows[:cut])) == whole
    assert batches_checksum(rows[::-1]) != whole
    assert batches_checksum(rows[:0]) == 0


def test_removal_counts_are_added_by_reason() -> None:
    one, two = RecordsRemoved(superseded=1, markers=2), RecordsRemoved(superseded=3, retention=4)
    assert one + two == RecordsRemoved(superseded=4, markers=2, retention=4)
    assert (one + two).total == 10
