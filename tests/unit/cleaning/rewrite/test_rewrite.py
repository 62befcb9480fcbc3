"""Rewrite one group into one staged, verified segment."""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cleaning.partitions import (
    MTIME_NS,
    NOW,
    batch,
    indexes,
    job_of,
    make_partition,
    record,
    records_in,
)
from winnow.cleaning.rewrite import filter as filter_module
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.rewrite.rewrite import estimate_group, rewrite_group
from winnow.errors import CorruptLogError, NoSpaceError, VerificationError
from winnow.logdir.commit import staged_segment
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX, segment_file
from winnow.runtime.cores import Cores
from winnow.runtime.failure import failure
from winnow.scan import chunks as chunks_module
from winnow.scan import cut, topic_usage
from winnow.scan.job import PartitionJob
from winnow.scan.resolve import Survivors
from winnow.scan.topic_usage import Holdings
from winnow.storage.segment_io import SegmentWriter
from winnow.wire.batch import Codec
from winnow.wire.internal_topics import CONSUMER_OFFSETS

SEGMENTS = {
    0: [
        batch(*(record(offset, b"k%d" % offset) for offset in range(4))),
        batch(record(4), record(5)),
    ],
    6: [batch(record(6), record(7), codec=Codec.GZIP), batch(record(8))],
}
HOUR = 3_600_000_000_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_partition(tmp_path / "t-0", SEGMENTS)


def survivors(**numbers: list[int]) -> list[Survivors]:
    """`s0=[0, 2]` means records 0 and 2 of split 0."""
    return [
        Survivors(int(name[1:]), np.array(some, np.uint32).tobytes())
        for name, some in numbers.items()
    ]


def rewritten(job: PartitionJob, **numbers: list[int]) -> CleanedGroup:
    return rewrite_group(GroupOutput(job, job.groups[0], survivors(**numbers), now=NOW))()


def staged_log(group: CleanedGroup) -> bytes:
    return Path(group.staged.paths[LOG]).read_bytes()


def test_staged_segment_holds_only_survivors(directory: Path) -> None:
    group = rewritten(job_of(directory), s0=[1, 5], s1=[0, 2])
    assert [one.offset for one in records_in(staged_log(group))] == [1, 5, 6, 8]
    assert (group.records_before, group.records_after) == (9, 4)
    assert group.bytes_after == len(staged_log(group))


def test_batches_that_survive_whole_are_copied_unchanged(directory: Path) -> None:
    group = rewritten(job_of(directory), s0=[0, 1, 2, 3, 4, 5], s1=[0, 1, 2])
    assert staged_log(group) == b"".join(SEGMENTS[0] + SEGMENTS[6])


EACH_CODEC = [Codec.GZIP, Codec.LZ4, Codec.NONE, Codec.SNAPPY, Codec.ZSTD]


@pytest.mark.parametrize("codecs", [EACH_CODEC, [Codec.NONE]], ids=["each codec", "small batches"])
@pytest.mark.parametrize("enough", [1, 10**6])
def test_using_more_cores_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enough: int, codecs: list[Codec]
) -> None:
    batches = [
        batch(*(record(10 * n + k) for k in range(n % 3 + 1)), codec=codecs[n % len(codecs)])
        for n in range(40)
    ]
    job = job_of(make_partition(tmp_path / "t-0", {0: batches}))
    monkeypatch.setattr(chunks_module, "_CHUNK_BYTES", 300)
    monkeypatch.setattr(filter_module, "PLAIN_CHUNK_BYTES", 300)
    parts = survivors(s0=list(range(0, 80, 3)))
    alone = rewrite_group(GroupOutput(job, job.groups[0], parts, now=NOW))()
    helped = rewrite_group(
        GroupOutput(job, job.groups[0], parts, now=NOW, cores=Cores(str(tmp_path), 3, enough))
    )()
    assert [Path(path).read_bytes() for path in helped.staged.paths.values()] == [
        Path(path).read_bytes() for path in alone.staged.paths.values()
    ]
    same = (
        "records_before",
        "records_after",
        "bytes_after",
        "tombstones",
        "removed",
        "checksum",
        "source_checksums",
    )
    assert [getattr(helped, name) for name in same] == [getattr(alone, name) for name in same]
    assert 0 < alone.records_after < alone.records_before
    assert (tmp_path / "core-0").exists()


def names_in(job: PartitionJob) -> Holdings | None:
    found = [
        way(GroupOutput(job, job.groups[0], survivors(s0=[0, 1, 2, 3]), now=NOW))().holdings
        for way in (estimate_group, rewrite_group)
    ]
    assert found[0] == found[1]
    return found[0]


def commits(directory: Path, *names: bytes) -> PartitionJob:
    keys = [struct.pack(">hh", 2, len(name)) + name for name in names]
    batches = [batch(record(offset, key)) for offset, key in enumerate(keys)]
    return job_of(make_partition(directory, {0: batches}), topic=CONSUMER_OFFSETS)


def test_names_are_counted_over_all_chunks_up_to_their_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filter_module, "PLAIN_CHUNK_BYTES", 1)
    job = commits(tmp_path / "t-0", b"a", b"large" * 9, b"a", b"medium" * 3, b"a")
    names = names_in(job)
    assert names is not None
    assert {name: records for name, (records, _) in names.by_name.items()} == {
        b"a": 2,
        b"large" * 9: 1,
        b"medium" * 3: 1,
    }
    assert names.complete
    monkeypatch.setattr(topic_usage, "MOST_NAMES", 2)
    names = names_in(job)
    assert names is not None
    assert (set(names.by_name), names.complete) == ({b"a", b"large" * 9}, False)


@pytest.mark.parametrize("topic", ["orders", "__consumer_offsets_backup"])
def test_names_are_counted_only_in_topics_of_kafka(tmp_path: Path, topic: str) -> None:
    job = replace(commits(tmp_path / "t-0", b"a", b"b", b"c", b"d", b"e"), topic=topic)
    assert names_in(job) is None


def test_survivors_of_a_split_may_arrive_in_parts(directory: Path) -> None:
    job = job_of(directory)
    parts = [*survivors(s0=[5]), *survivors(s1=[2]), *survivors(s0=[1])]
    group = rewrite_group(GroupOutput(job, job.groups[0], parts, now=NOW))()
    assert [one.offset for one in records_in(staged_log(group))] == [1, 5, 8]


def test_without_survivors_the_staged_files_are_empty(directory: Path) -> None:
    group = rewritten(job_of(directory))
    assert staged_log(group) == b""
    assert {suffix: Path(path).stat().st_size for suffix, path in group.staged.paths.items()} == {
        LOG: 0,
        INDEX: 0,
        TIMEINDEX: 0,
    }


def test_compressed_batch_without_survivors_is_not_decompressed(tmp_path: Path) -> None:
    spoiled = bytearray(batch(record(0), record(1), codec=Codec.GZIP))
    spoiled[61:63] = b"no"
    job = job_of(make_partition(tmp_path / "t-0", {0: [bytes(spoiled), batch(record(2))]}))
    group = rewritten(job, s0=[2])
    assert [one.offset for one in records_in(staged_log(group))] == [2]
    assert (group.records_before, group.records_after) == (3, 1)
    with pytest.raises(CorruptLogError):
        rewritten(job, s0=[1, 2])


def test_header_of_a_producers_last_batch_is_kept(tmp_path: Path) -> None:
    """S5.4: a broker learns the producer's next sequence from it."""
    log = [batch(record(0), producer_id=9), batch(record(1), producer_id=9), batch(record(2))]
    job = job_of(make_partition(tmp_path / "t-0", {0: log}), last_records={9: (1, 0)})
    group = rewritten(job, s0=[2])
    assert [one.offset for one in records_in(staged_log(group))] == [2]
    assert len(staged_log(group)) == 61 + len(log[2])


def test_indexes_match_the_staged_log(directory: Path) -> None:
    group = rewritten(job_of(directory), s0=[1, 5], s1=[0, 2])
    wanted = indexes(staged_log(group), 0)
    assert {suffix: Path(group.staged.paths[suffix]).read_bytes() for suffix in wanted} == wanted
    assert wanted[INDEX]


KEEPS_ALL = {"s0": [0, 1, 2, 3, 4, 5]}
"""All records of the first segment."""


def alone(directory: Path, **changes: object) -> PartitionJob:
    """A job of the first segment alone."""
    job = job_of(directory, **changes)
    group = replace(job.groups[0], segments=job.groups[0].segments[:1], splits=(0,))
    return replace(job, groups=(group,))


def assert_stays(group: CleanedGroup, job: PartitionJob) -> None:
    assert (group.unchanged, group.staged, group.bytes_staged) == (True, None, 0)
    assert list(Path(job.staging).iterdir()) == []


def test_segment_that_loses_nothing_is_not_written(directory: Path) -> None:
    job = alone(directory)
    group = rewritten(job, **KEEPS_ALL)
    assert_stays(group, job)
    assert (group.records_before, group.records_after) == (6, 6)
    assert group.bytes_after == sum(map(len, SEGMENTS[0]))
    assert group.checksum == group.source_checksums[0]
    assert estimate_group(
        GroupOutput(job, job.groups[0], survivors(**KEEPS_ALL), now=NOW)
    )().unchanged


def test_segment_without_batches_is_not_written(tmp_path: Path) -> None:
    job = alone(make_partition(tmp_path / "t-0", {0: [], 6: SEGMENTS[6]}))
    job = replace(job, groups=(replace(job.groups[0], splits=()),))
    assert_stays(rewritten(job), job)


@pytest.mark.parametrize("suffix", [INDEX, TIMEINDEX])
@pytest.mark.parametrize("found", ["other entries", "fewer"])
def test_segment_with_other_indexes_is_written(directory: Path, suffix: str, found: str) -> None:
    """A broker wrote them, by other rules than a cleaner (S1.6)."""
    path = directory / segment_file(0, suffix)
    data = path.read_bytes()
    size = {INDEX: 8, TIMEINDEX: 12}[suffix]
    path.write_bytes(data[:-size] if found == "fewer" else bytes([*data[:-1], data[-1] ^ 1]))
    group = rewritten(alone(directory), **KEEPS_ALL)
    assert not group.unchanged
    assert staged_log(group) == b"".join(SEGMENTS[0])
    assert Path(group.staged.paths[suffix]).read_bytes() == data


def test_segment_with_transaction_index_of_no_transaction_is_written(directory: Path) -> None:
    (directory / segment_file(0, TXNINDEX)).write_bytes(b"")
    group = rewritten(alone(directory), **KEEPS_ALL)
    assert not group.unchanged
    assert TXNINDEX not in group.staged.paths


@pytest.mark.parametrize("kept", [[0, 1, 2, 3], [0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [4, 5]])
@pytest.mark.parametrize("split_bytes", [1, 10**6])
def test_segment_that_loses_a_record_anywhere_is_written(
    directory: Path, monkeypatch: pytest.MonkeyPatch, kept: list[int], split_bytes: int
) -> None:
    monkeypatch.setattr(cut, "SPLIT_BYTES", split_bytes)
    monkeypatch.setattr(filter_module, "PLAIN_CHUNK_BYTES", 1)
    job = job_of(directory)
    splits = [n for n, split in enumerate(job.splits) if split.base_offset == 0]
    first = replace(job.groups[0], segments=job.groups[0].segments[:1], splits=tuple(splits))
    job = replace(job, groups=(first,))
    parts = [
        survivors(**{f"s{number}": [k - start for k in kept if start <= k < start + count]})[0]
        for number, (start, count) in enumerate([(0, 4), (4, 2)] if len(splits) > 1 else [(0, 6)])
    ]
    group = rewrite_group(GroupOutput(job, first, parts, now=NOW))()
    assert not group.unchanged
    assert [one.offset for one in records_in(staged_log(group))] == kept
    log = staged_log(group)
    assert {s: Path(group.staged.paths[s]).read_bytes() for s in (INDEX, TIMEINDEX)} == indexes(
        log, 0
    )


def test_segment_whose_tombstone_gets_a_horizon_is_written(tmp_path: Path) -> None:
    log = [SEGMENTS[0][0], batch(record(4), record(5, value=None))]
    directory = make_partition(tmp_path / "t-0", {0: log, 6: SEGMENTS[6]})
    job = alone(directory)
    group = rewritten(job, **KEEPS_ALL)
    assert not group.unchanged
    with_horizon = staged_log(group)
    assert with_horizon[: len(log[0])] == log[0]
    assert with_horizon != b"".join(log)
    # With its horizon it stays until then, and is dropped at it.
    again = alone(make_partition(tmp_path / "again" / "t-0", {0: [with_horizon], 6: SEGMENTS[6]}))
    group = rewritten(again, **KEEPS_ALL)
    assert_stays(group, again)
    later = rewrite_group(
        GroupOutput(
            again, again.groups[0], survivors(**KEEPS_ALL), now=NOW + again.delete_retention_ms
        )
    )()
    assert (later.unchanged, later.removed.tombstones) == (False, 1)


def test_segment_whose_indexes_a_broker_rebuilds_is_written(directory: Path) -> None:
    """A crash of the broker: those on the disk are not to be trusted (S8.2)."""
    job = alone(directory)
    source = replace(job.groups[0].segments[0], rebuilt=(8, 12))
    job = replace(job, groups=(replace(job.groups[0], segments=(source,)),))
    assert not rewritten(job, **KEEPS_ALL).unchanged


def test_damaged_segment_never_counts_as_unchanged(directory: Path) -> None:
    job = alone(directory)
    log = directory / segment_file(0, LOG)
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptLogError):
        rewritten(job, **KEEPS_ALL)


def test_mode_and_owner_of_first_source_and_mtime_of_last_are_kept(
    directory: Path,
) -> None:
    for path in directory.glob(f"{0:020d}.*"):
        path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(directory / segment_file(0, LOG), 1234, 4321)
    first = (directory / segment_file(0, LOG)).stat()
    for staged in rewritten(job_of(directory), s0=[0]).staged.paths.values():
        found = os.stat(staged)
        assert found.st_mode & 0o7777 == 0o640
        assert (found.st_uid, found.st_gid) == (first.st_uid, first.st_gid)
        # Rounded to ms, as Java does.
        assert found.st_mtime_ns == (MTIME_NS + HOUR) // 10**6 * 10**6


def test_task_that_runs_twice_leaves_both_results_intact(directory: Path) -> None:
    job = job_of(directory)
    one = rewritten(job, s0=[1], s1=[0])
    before = {path: Path(path).read_bytes() for path in one.staged.paths.values()}
    other = rewritten(job, s0=[1], s1=[0])
    assert not set(one.staged.paths.values()) & set(other.staged.paths.values())
    assert {path: Path(path).read_bytes() for path in before} == before
    assert staged_log(one) == staged_log(other)
    assert {os.path.dirname(path) for path in (*before, *other.staged.paths.values())} == {
        job.staging
    }


def test_sources_are_unchanged(directory: Path) -> None:
    def files() -> dict[str, tuple[bytes, int]]:
        return {
            path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.glob("0*")
        }

    before = files()
    rewritten(job_of(directory), s0=[1], s1=[0])
    assert files() == before


def test_source_changed_since_the_survey_is_refused(directory: Path) -> None:
    job = job_of(directory)
    log = directory / segment_file(6, LOG)
    data = bytearray(log.read_bytes())
    at = len(SEGMENTS[6][0])
    data[at + 8 : at + 12] = (1 << 30).to_bytes(4)
    log.write_bytes(bytes(data))
    with pytest.raises(CorruptLogError, match=f"{log} at byte {at}"):
        rewritten(job, s0=[1], s1=[0])


def test_staged_segment_that_reads_back_differently_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LyingDisk(SegmentWriter):
        def write(self, data: object) -> None:
            changed = bytearray(memoryview(data))  # type: ignore[arg-type]
            changed[-1:] = bytes([changed[-1] ^ 1]) if changed else b""
            super().write(bytes(changed))

    monkeypatch.setattr(staged_segment, "SegmentWriter", LyingDisk)
    with pytest.raises(VerificationError, match="CRC"):
        rewritten(job_of(directory), s0=[0, 1, 2, 3, 4, 5], s1=[0, 1, 2])


def test_task_without_its_staging_directory_writes_nothing(
    directory: Path,
) -> None:
    job = job_of(directory)
    Path(job.staging).rmdir()
    before = sorted(directory.iterdir())
    with pytest.raises(OSError, match=r"\.winnow-run"):
        rewritten(job, s0=[0])
    assert sorted(directory.iterdir()) == before


@pytest.mark.parametrize(
    ("number", "exit_code"), [(errno.ENOSPC, 6), (errno.EDQUOT, 6), (errno.EIO, 3)]
)
@pytest.mark.parametrize("suffix", [LOG, INDEX, TIMEINDEX])
def test_failed_write_names_the_file_and_leaves_no_staged_files(
    directory: Path, monkeypatch: pytest.MonkeyPatch, number: int, exit_code: int, suffix: str
) -> None:
    write = os.write

    def failing(fd: int, data: bytes) -> int:
        if f"{suffix}." in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(number, os.strerror(number))
        return write(fd, data)

    monkeypatch.setattr(os, "write", failing)
    with pytest.raises(OSError, match=os.strerror(number)) as failed:
        rewritten(job_of(directory), s0=[1, 5], s1=[0, 2])
    told = failure(failed.value)
    assert told.exit_code == exit_code
    assert f"{segment_file(0, suffix)}." in told.message
    assert list((directory / ".winnow-run").iterdir()) == []


def test_output_above_its_size_limit_is_refused(directory: Path) -> None:
    """A codec may compress the rest of a batch worse than the whole."""
    job = job_of(directory)
    needed = rewritten(job, s0=[1, 5], s1=[0, 2])
    enough, short = (
        replace(job, groups=(replace(job.groups[0], log_limit=needed.bytes_after - less),))
        for less in (0, 1)
    )
    assert rewritten(enough, s0=[1, 5], s1=[0, 2]).bytes_after == needed.bytes_after
    left = {path.name for path in (directory / ".winnow-run").iterdir()}
    with pytest.raises(NoSpaceError, match="--max-extra-space"):
        rewritten(short, s0=[1, 5], s1=[0, 2])
    assert {path.name for path in (directory / ".winnow-run").iterdir()} == left


def test_index_above_segment_index_bytes_is_refused_as_by_kafka(directory: Path) -> None:
    job = job_of(directory, segment_index_bytes=24, index_interval_bytes=0)
    with pytest.raises(CorruptLogError, match=r"segment\.index\.bytes"):
        rewritten(job, s0=[0, 1, 2, 3, 4, 5], s1=[0, 1, 2])
