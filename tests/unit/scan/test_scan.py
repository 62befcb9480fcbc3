"""What a scan refuses, and the position that its error names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import SECRET, batch, job_of, make_partition, record
from winnow.errors import CorruptLogError
from winnow.logdir.names import LOG, segment_file
from winnow.scan import cut
from winnow.scan.job import PartitionJob
from winnow.scan.scan import scan_split
from winnow.wire.batch import Codec

BATCHES = [
    batch(record(offset), codec=Codec.ZSTD if offset % 2 else Codec.NONE) for offset in range(6)
]
STARTS = [sum(map(len, BATCHES[:i])) for i in range(6)]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PartitionJob:
    """Return a job with splits of two batches each."""
    monkeypatch.setattr(cut, "SPLIT_BYTES", len(BATCHES[0]) + 1)
    job = job_of(make_partition(tmp_path / "t-0", {0: BATCHES}))
    assert [split.start for split in job.splits] == STARTS[::2]
    return job


def scanned(job: PartitionJob) -> None:
    for number in range(len(job.splits)):
        list(scan_split(job, number, SECRET))


def change(job: PartitionJob, at: int) -> Path:
    log = Path(job.directory) / segment_file(0, LOG)
    data = bytearray(log.read_bytes())
    data[at] ^= 1
    log.write_bytes(bytes(data))
    return log


@pytest.mark.parametrize("number", range(6))
def test_wrong_crc_is_refused_with_file_and_byte(job: PartitionJob, number: int) -> None:
    log = change(job, STARTS[number] + 63)
    inside = STARTS[number] - STARTS[number // 2 * 2]
    with pytest.raises(CorruptLogError, match=rf"CRC.*{log}, batch at byte {inside}") as caught:
        scanned(job)
    from_split = f"counted from byte {STARTS[number // 2 * 2]}"
    assert (from_split in str(caught.value)) == (number > 1)


@pytest.mark.parametrize("number", range(6))
def test_batch_of_an_unknown_version_is_refused_with_file_and_byte(
    job: PartitionJob, number: int
) -> None:
    log = change(job, STARTS[number] + 16)
    begin = STARTS[number // 2 * 2]
    with pytest.raises(CorruptLogError, match="expected magic 0 to 2") as caught:
        scanned(job)
    place = f"{log} at byte {STARTS[number] - begin}"
    assert caught.value.where == (f"{place}, counted from byte {begin}" if begin else place)


def test_crc_covers_the_last_byte_of_the_log(job: PartitionJob) -> None:
    change(job, STARTS[5] + len(BATCHES[5]) - 1)
    with pytest.raises(CorruptLogError, match="CRC"):
        scanned(job)


def test_batch_above_the_decompressed_limit_is_refused(tmp_path: Path) -> None:
    log = [encode_batch([record(0, value=bytes(5000))], codec=Codec.ZSTD)]
    job = job_of(make_partition(tmp_path / "t-0", {0: log}), max_decompressed_bytes=4000)
    with pytest.raises(CorruptLogError, match="batch at byte 0"):
        scanned(job)


def test_empty_log_has_no_splits(tmp_path: Path) -> None:
    assert job_of(make_partition(tmp_path / "t-0", {0: []})).splits == ()
