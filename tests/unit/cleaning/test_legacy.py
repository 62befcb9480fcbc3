"""Clean segments of message formats v0 and v1, from the walk to the staged segment."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.legacy import legacy_records
from tests.twins.walk import decode_batch
from tests.unit.cleaning.partitions import (
    MTIME_NS,
    NOW,
    SECRET,
    files_of,
    job_of,
    make_partition,
    records_in,
)
from tests.unit.wire.legacy_logs import entry, legacy_log, random_legacy_log, wrapper
from tests.unit.wire.logs import record
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.rewrite.rewrite import rewrite_group
from winnow.errors import CorruptLogError
from winnow.logdir.names import INDEX, LOG, segment_file
from winnow.scan import chunks as chunks_module
from winnow.scan import cut
from winnow.scan.job import PartitionJob
from winnow.scan.resolve import resolve_bucket
from winnow.scan.scan import scan_split
from winnow.survey.walk import walk_segment
from winnow.wire.batch import Codec
from winnow.wire.plain import Record

MTIME_MS = MTIME_NS // 10**6
HOUR_MS = 3_600_000


def compacted(job: PartitionJob) -> CleanedGroup:
    """Run all three stages."""
    blobs = [
        blob for number in range(len(job.splits)) for _, blob in scan_split(job, number, SECRET)
    ]
    return rewrite_group(GroupOutput(job, job.groups[0], resolve_bucket(blobs), now=NOW))()


def left_in(directory: Path, group: CleanedGroup) -> list[Record]:
    return records_in(Path(files_of(directory, group)[LOG]).read_bytes())


def test_walk_counts_records_and_estimates_wrappers(tmp_path: Path) -> None:
    plain = [entry(0, 0), entry(1, 1), encode_batch([record(2), record(3)])]
    directory = str(make_partition(tmp_path / "p-0", {0: plain}))
    walk = walk_segment(directory, 0, sum(map(len, plain)), check_index=True)
    assert (walk.records, walk.guessed, walk.legacy, walk.next_offset) == (4, False, True, 4)
    wrapped = [wrapper(7, 1, [entry(0, 1), entry(7, 1)], Codec.GZIP)]
    directory = str(make_partition(tmp_path / "w-0", {0: wrapped}))
    walk = walk_segment(directory, 0, len(wrapped[0]), check_index=True)
    assert (walk.guessed, walk.legacy, walk.next_offset) == (True, True, 8)


def test_v2_attribute_bits_are_ignored_in_old_formats(tmp_path: Path) -> None:
    log = [entry(0, 0, attributes=0xF8), entry(1, 1, attributes=0xF0)]
    directory = str(make_partition(tmp_path / "t-0", {0: log}))
    walk = walk_segment(directory, 0, sum(map(len, log)), producers_from=0)
    assert len(walk.last_batches) == 0


@pytest.mark.parametrize(
    ("named", "accepted"), [(3, False), (4, True), (6, True), (9, True), (10, True), (11, False)]
)
def test_index_may_name_the_first_offset_of_a_wrapper(
    tmp_path: Path, named: int, *, accepted: bool
) -> None:
    first = wrapper(3, 0, [entry(i, 0) for i in range(4)], Codec.GZIP)
    log = [first, wrapper(9, 0, [entry(i, 0) for i in range(4, 10)], Codec.GZIP), entry(10, 0)]
    directory = make_partition(tmp_path / "t-0", {0: log})
    (directory / segment_file(0, INDEX)).write_bytes(struct.pack(">ii", named, len(first)))
    size = sum(map(len, log))
    if accepted:  # 10 is the last offset of a later batch of the same append
        assert walk_segment(str(directory), 0, size, check_index=True).next_offset == 11
    else:
        with pytest.raises(CorruptLogError, match=r"\.index at byte 0"):
            walk_segment(str(directory), 0, size, check_index=True)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), split_bytes=st.integers(1, 2000), chunk_bytes=st.integers(1, 2000)
)
def test_record_numbers_agree_in_scan_and_rewrite_at_any_split_size(
    tmp_path_factory: pytest.TempPathFactory, seed: int, split_bytes: int, chunk_bytes: int
) -> None:
    batches = [batch for batch in random_legacy_log(seed) if not _is_control(batch)]
    base = int.from_bytes(batches[0][:8], "big") if batches else 0
    segment = base // 3000 * 3000 if base < 10**11 else 10**12
    directory = make_partition(tmp_path_factory.mktemp("legacy") / "t-0", {segment: batches})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "SPLIT_BYTES", split_bytes)
        patch.setattr(chunks_module, "_CHUNK_BYTES", chunk_bytes)
        job = job_of(directory, end_offset=2 * 10**12)
        group = compacted(job)
    before = [r for batch in batches for p in _starts(batch) for r in decode_batch(batch, p)[1]]
    last = {r.key: r.offset for r in before}
    gone = _expired_tombstones(batches)
    wanted = [
        r for r in before if r.key is not None and last[r.key] == r.offset and r.offset not in gone
    ]
    assert [(r.offset, r.key, r.value) for r in left_in(directory, group)] == [
        (r.offset, r.key, r.value) for r in wanted
    ]
    assert (group.records_before, group.records_after) == (len(before), len(wanted))


def _starts(data: bytes) -> list[int]:
    starts = [0]
    while (
        after := starts[-1] + 12 + int.from_bytes(data[starts[-1] + 8 : starts[-1] + 12], "big")
    ) < len(data):
        starts.append(after)
    return starts


def _is_control(batch: bytes) -> bool:
    return batch[16] == 2 and bool(batch[22] & 0x20)


def _expired_tombstones(batches: list[bytes]) -> set[int]:
    """Return tombstones of v2 batches whose horizon has passed."""
    gone: set[int] = set()
    for batch in batches:
        header, records = decode_batch(batch, 0)
        if (
            header["magic"] == 2
            and int(header["attributes"]) & 0x40
            and header["base_timestamp"] <= NOW
        ):
            gone |= {r.offset for r in records if r.value is None}
    return gone


@pytest.mark.parametrize(
    ("horizon", "left"), [(MTIME_MS - 1, [1, 2, 4]), (MTIME_MS, [2, 4]), (MTIME_MS + HOUR_MS, [2])]
)
def test_tombstones_are_kept_in_segments_newer_than_the_horizon(
    tmp_path: Path, horizon: int, left: list[int]
) -> None:
    """The first segment's file is an hour older than the second one's (S5.1, S5.3)."""
    segments = {
        0: [entry(0, 0, b"k", b"v"), entry(1, 0, b"gone", None), entry(2, 0, b"stays")],
        3: [wrapper(4, 1, [entry(0, 1, b"k", b"v"), entry(1, 1, b"k", None)], Codec.LZ4)],
    }
    directory = make_partition(tmp_path / "t-0", segments)
    group = compacted(job_of(directory, legacy_delete_horizon_ms=horizon))
    assert [r.offset for r in left_in(directory, group)] == left
    assert (group.records_before, group.records_after) == (5, len(left))


@pytest.mark.parametrize(
    ("horizon", "left"), [(MTIME_MS - 1, [1, 2, 4]), (MTIME_MS, [2, 4]), (MTIME_MS + HOUR_MS, [2])]
)
def test_before_kafka_4_segments_keep_their_formats(
    tmp_path: Path, horizon: int, left: list[int]
) -> None:
    segments = {
        0: [entry(0, 0, b"k", b"v"), entry(1, 0, b"gone", None), entry(2, 0, b"stays")],
        3: [wrapper(4, 1, [entry(0, 1, b"k", b"v"), entry(1, 1, b"k", None)], Codec.LZ4)],
    }
    directory = make_partition(tmp_path / "t-0", segments)
    group = compacted(job_of(directory, legacy_delete_horizon_ms=horizon, converts=False))
    log = Path(files_of(directory, group)[LOG]).read_bytes()
    buf, rows = legacy_log([log])
    assert rows["magic"].tolist() == [1 if offset > 2 else 0 for offset in left]
    assert [r.offset for row in rows for r in legacy_records(buf, row)] == left
    assert (group.records_before, group.records_after) == (5, len(left))


def test_wrapper_crc_is_checked_before_decompression(tmp_path: Path) -> None:
    spoiled = bytearray(wrapper(3, 1, [entry(3, 1)], Codec.GZIP))
    spoiled[-1] ^= 1
    job = job_of(make_partition(tmp_path / "t-0", {0: [entry(0, 1), bytes(spoiled)]}))
    with pytest.raises(
        CorruptLogError, match=rf"CRC: base offset 3 .*{segment_file(0, LOG)}, batch at byte 36"
    ):
        list(scan_split(job, 0, SECRET))


def test_split_of_minimal_records_is_read_completely(tmp_path: Path) -> None:
    rng = random.Random(1)
    keys = [rng.choice((b"", b"k")) for _ in range(500)]
    job = job_of(
        make_partition(tmp_path / "t-0", {0: [entry(i, 0, key, b"") for i, key in enumerate(keys)]})
    )
    last = sorted({key: i for i, key in enumerate(keys)}.values())
    assert [r.offset for r in left_in(Path(job.directory), compacted(job))] == last
