"""What a broker keeps of the segments that it recovers after an unclean shutdown."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.unit.policy.states import segment
from winnow.errors import CorruptLogError
from winnow.logdir import unflushed
from winnow.logdir.indexes.txnindex import AbortedTransaction, encode_txn_index
from winnow.logdir.names import LOG, TXNINDEX, segment_file
from winnow.logdir.unflushed import SegmentRead, read_segment, recovered_end, unflushed_from
from winnow.state import Segment
from winnow.wire.buffers import as_bytes
from winnow.wire.crc import crc32c
from winnow.wire.plain import Record

BASE = 100


def batch(offset: int, *, records: int = 1, timestamp: int = 1_000) -> bytes:
    return encode_batch(
        [Record(at, timestamp + at, b"k", b"value" * 9) for at in range(offset, offset + records)]
    )


def read(directory: Path, data: bytes, *, interval: int = 4096) -> SegmentRead:
    (directory / segment_file(BASE, LOG)).write_bytes(data)
    return read_segment(str(directory), listed(BASE, len(data)), index_interval_bytes=interval)


def listed(base: int, size: int) -> Segment:
    return segment(base, size, last=-1)


def plain_read(data: bytes) -> tuple[int, int, int]:
    """Valid bytes, next offset and largest timestamp, batch by batch: the twin of `read_segment`
    for v2 batches.
    """
    at, following, largest = 0, BASE, -1
    while len(data) - at > 17:
        offset, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if length < 49 or end > len(data) or data[at + 16] != 2:
            break
        (stored,) = struct.unpack_from(">I", data, at + 17)
        if stored != int(crc32c(as_bytes(data), at + 21, end)):
            break
        (delta,) = struct.unpack_from(">i", data, at + 23)
        (newest,) = struct.unpack_from(">q", data, at + 35)
        following, largest, at = offset + delta + 1, max(largest, newest), end
    return at, following, largest


@pytest.mark.parametrize(
    ("recovery_point", "first"), [(0, 0), (5, 0), (10, 0), (19, 0), (20, 1), (25, 1), (10**9, 2)]
)
def test_recovery_begins_with_the_segment_of_the_recovery_point(
    recovery_point: int, first: int
) -> None:
    assert unflushed_from([10, 20, 30], recovery_point) == first


def test_whole_segment_is_read_to_its_end(tmp_path: Path) -> None:
    data = batch(100, records=3, timestamp=5_000) + batch(103) + batch(110)
    found = read(tmp_path, data, interval=0)
    assert (found.segment.log_bytes, found.next_offset, found.stopped) == (len(data), 111, None)
    assert found.segment.last_timeindex_timestamp == 5_102
    assert found.segment.first_batch_max_timestamp == 5_102
    # The first batch never has an entry; the time index has one more, for the newest record.
    assert found.segment.rebuilt == (16, 12)


def test_empty_segment_ends_at_its_base_offset(tmp_path: Path) -> None:
    found = read(tmp_path, b"")
    assert (found.segment.log_bytes, found.next_offset, found.stopped) == (0, BASE, None)
    assert (found.segment.last_timeindex_timestamp, found.segment.rebuilt) == (-1, (0, 0))


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (bytes(5_000), "zeros follow from byte"),
        (b"\x01", "is not whole"),
        (batch(102)[:-5], "is not whole"),
        (batch(102)[:40] + bytes(len(batch(102)) - 40), "the CRC of the batch"),
        (batch(102)[:8] + struct.pack(">i", 13) + batch(102)[12:], "has a size of 25 bytes"),
        (batch(102)[:8] + struct.pack(">i", -1) + batch(102)[12:], "has a size of 11 bytes"),
        (batch(102)[:16] + b"\x07" + batch(102)[18:] + b"\0", "the CRC of the batch"),
        # Of an earlier use of these disk blocks: offsets below the last one, and a wrong CRC.
        (batch(3)[:-2] + b"xx", "the CRC of the batch"),
    ],
)
def test_tail_that_is_no_batch_is_cut(tmp_path: Path, tail: bytes, words: str) -> None:
    whole = batch(100) + batch(101)
    for behind in (b"", batch(103)):
        found = read(tmp_path, whole + tail + behind)
        assert (found.segment.log_bytes, found.next_offset) == (len(whole), 102)
        assert found.stopped is not None
        assert words in found.stopped or (behind and "batch" in found.stopped)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (batch(100) + batch(99), "an offset of 101 or more"),
        (batch(100) + batch(BASE + 2**31), "too far from its segment's base offset"),
        (batch(50), "an offset of 100 or more"),
    ],
)
def test_valid_batches_that_a_broker_would_not_cut_are_refused(
    tmp_path: Path, data: bytes, words: str
) -> None:
    with pytest.raises(CorruptLogError, match=words) as error:
        read(tmp_path, data)
    assert segment_file(BASE, LOG) in str(error.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_change_is_read_as_by_the_plain_twin(tmp_path: Path, data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=8))
    parts, offset = [], BASE
    for count in counts:
        parts.append(batch(offset, records=count))
        offset += count
    whole = b"".join(parts)
    begin = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, 60))
    how = data.draw(st.sampled_from(("cut", "zeros", "noise", "padded")))
    changed = {
        "cut": whole[:begin],
        "zeros": whole[:begin] + bytes(length) + whole[begin + length :],
        "noise": whole[:begin] + data.draw(st.binary(max_size=60)),
        "padded": whole + bytes(length),
    }[how]
    window = data.draw(st.sampled_from((70, 130, 1000)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unflushed, "READ_AT_ONCE", window)
        try:
            found = read(tmp_path, changed)
        except CorruptLogError:
            # No CRC covers the base offset: such a batch is valid, and out of order.
            assert how in ("zeros", "noise")
            return
    left = found.segment
    assert (left.log_bytes, found.next_offset, left.last_timeindex_timestamp) == plain_read(changed)
    assert (found.stopped is None) == (left.log_bytes == len(changed))


def a_read(base: int, *, size: int = 100, valid: int = 100, end: int | None = None) -> SegmentRead:
    stopped = None if valid == size else "torn"
    return SegmentRead(listed(base, valid), size, base + 10 if end is None else end, stopped)


def test_first_cut_ends_the_log_and_later_segments_are_removed() -> None:
    reads = [a_read(0), a_read(10, valid=30, end=13), a_read(20, valid=0, end=20), a_read(30)]
    found = recovered_end(reads, "d")
    assert (found.end_offset, found.cut_segment, found.cut_position) == (13, 10, 30)
    assert (found.removed, found.lost_bytes, found.first_read) == ((20, 30), 270, 0)
    whole = recovered_end(reads[:1], "d")
    assert (whole.end_offset, whole.cut_segment, whole.removed, whole.lost_bytes) == (
        10,
        None,
        (),
        0,
    )


def test_cut_that_later_segments_survive_is_refused() -> None:
    """A broker makes it when it opens the segment, before its recovery begins."""
    damaged = replace(a_read(10, valid=30, end=13), opened="its offset index is missing")
    with pytest.raises(CorruptLogError, match="at offset 13 and keeps the later ones"):
        recovered_end([a_read(0), damaged, a_read(20)], "d")
    with pytest.raises(CorruptLogError, match="is damaged, and its offset index is missing"):
        recovered_end([a_read(0), damaged], "d", [listed(20, 100)])
    assert recovered_end([a_read(0), damaged], "d").end_offset == 13


@pytest.mark.parametrize(
    ("has_index", "markers", "why"),
    [
        (True, (), None),
        (True, (100, 105), None),
        (False, (100,), "its offset index is missing"),
        (True, (100, 99), "its transaction index is invalid"),
    ],
)
def test_segment_is_recovered_when_it_is_opened(
    *, has_index: bool, markers: tuple[int, ...], why: str | None, tmp_path: Path
) -> None:
    entries = encode_txn_index(AbortedTransaction(7, 90, at, at + 1) for at in markers)
    (tmp_path / segment_file(BASE, TXNINDEX)).write_bytes(entries)
    data = batch(BASE)
    (tmp_path / segment_file(BASE, LOG)).write_bytes(data)
    one = replace(
        listed(BASE, len(data)),
        index_bytes=0 if has_index else None,
        txnindex_bytes=len(entries),
    )
    assert read_segment(str(tmp_path), one, index_interval_bytes=4096).opened == why


def test_overlapping_segments_are_refused() -> None:
    with pytest.raises(CorruptLogError, match="two segments overlap"):
        recovered_end([a_read(0, end=12), a_read(10)], "d")


def test_reading_in_small_pieces_gives_the_same_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(
        batch(at, timestamp=int(t))
        for at, t in zip(
            range(100, 400), np.random.default_rng(1).integers(0, 10**6, 300), strict=True
        )
    )
    whole = read(tmp_path, data, interval=500)
    monkeypatch.setattr(unflushed, "READ_AT_ONCE", 777)
    assert read(tmp_path, data, interval=500) == whole
