from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.no_numba import without_numba
from tests.unit.wire.logs import log, random_log, record
from winnow.wire.batch import BATCH, HEADER_V2_SIZE, MAX_OFFSET, WalkStatus
from winnow.wire.buffers import Rows
from winnow.wire.walk import describe, first_bad_crc, walk_batches


def legacy(offset: int, magic: int, value: bytes = b"v", timestamp: int = 77) -> bytes:
    stamp = struct.pack(">q", timestamp) if magic else b""
    body = bytes([magic, 0]) + stamp + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def walk(
    data: bytes, *, start: int = 0, least: int = 0, room: int = 9
) -> tuple[Rows, int, WalkStatus]:
    fast, slow = np.zeros(room, BATCH), np.zeros(room, BATCH)
    result = walk_batches(data, start, least, fast)
    bad = first_bad_crc(data, fast[: result[0]])
    with without_numba():
        assert result == walk_batches(data, start, least, slow)
        assert bad == first_bad_crc(data, slow[: result[0]])
    assert fast.tolist() == slow.tolist()
    return fast[: result[0]], result[1], result[2]


def test_all_fields_of_a_v2_header_are_read() -> None:
    data = encode_batch(
        [record(5), record(9)],
        last_offset=11,
        leader_epoch=3,
        transactional=True,
        producer_id=7,
        producer_epoch=2,
        base_sequence=8,
    )
    rows, position, status = walk(data)
    assert (position, status) == (len(data), WalkStatus.END)
    row = rows[0]
    assert (row["base_offset"], row["last_offset"], row["record_count"], row["magic"]) == (
        5,
        11,
        2,
        2,
    )
    assert (
        row["leader_epoch"],
        row["producer_id"],
        row["producer_epoch"],
        row["base_sequence"],
    ) == (3, 7, 2, 8)
    assert (row["attributes"], row["size"], row["position"]) == (16, len(data), 0)


def test_v0_and_v1_rows_have_defaults_for_missing_fields() -> None:
    data = legacy(4, 0) + legacy(6, 1)
    rows, _, status = walk(data)
    assert status is WalkStatus.END
    assert rows["last_offset"].tolist() == rows["base_offset"].tolist() == [4, 6]
    assert rows["max_timestamp"].tolist() == [-1, 77]
    assert rows["record_count"].tolist() == rows["producer_id"].tolist() == [-1, -1]
    assert first_bad_crc(data, rows) == -1


def test_full_walk_continues_where_it_stopped() -> None:
    data = b"".join(encode_batch([record(i)]) for i in range(5))
    rows, position, status = walk(data, room=2)
    assert (len(rows), status) == (2, WalkStatus.FULL)
    rows, _, status = walk(data, start=position, least=2)
    assert (rows["base_offset"].tolist(), status) == ([2, 3, 4], WalkStatus.END)


@pytest.mark.parametrize("left", [1, 16, 17, 18, 60, 61, 69])
def test_torn_tail_differs_from_the_end(left: int) -> None:
    whole = encode_batch([record(0)])
    data = whole + encode_batch([record(1)])[:left]
    rows, position, status = walk(data)
    assert (len(rows), position, status) == (1, len(whole), WalkStatus.TORN)


@pytest.mark.parametrize(
    ("at", "field", "status"),
    [
        (8, b"\x00\x00\x00\x0d", WalkStatus.BAD_SIZE),
        (8, b"\xff\xff\xff\xff", WalkStatus.BAD_SIZE),
        (8, b"\x00\x00\x00\x30", WalkStatus.BAD_SIZE),  # 60 bytes: one less than a v2 header
        (8, b"\x7f\xff\xff\xff", WalkStatus.TORN),
        (16, b"\x03", WalkStatus.BAD_MAGIC),
        (16, b"\xff", WalkStatus.BAD_MAGIC),
        (23, b"\xff\xff\xff\xff", WalkStatus.BAD_COUNT),
        (57, b"\xff\xff\xff\xff", WalkStatus.BAD_COUNT),
        (0, b"\x00" * 8, WalkStatus.OUT_OF_ORDER),
        (0, b"\xff" * 8, WalkStatus.OUT_OF_ORDER),
        (0, b"\x7f" + b"\xff" * 7, WalkStatus.OUT_OF_ORDER),
    ],
)
def test_bad_header_stops_the_walk_and_is_described(
    at: int, field: bytes, status: WalkStatus
) -> None:
    first, second = encode_batch([record(5)]), bytearray(encode_batch([record(6)]))
    second[at : at + len(field)] = field
    rows, position, found = walk(first + bytes(second))
    assert (len(rows), position, found) == (1, len(first), status)
    error = describe(status, first + bytes(second), position, least_offset=6, file_name="0.log")
    assert f"0.log at byte {position}" in str(error)
    assert error.expected
    assert error.found


def test_overlapping_offsets_stop_the_walk() -> None:
    data = encode_batch([record(0)], last_offset=4) + encode_batch([record(4)])
    assert walk(data)[2] is WalkStatus.OUT_OF_ORDER
    assert walk(encode_batch([record(4)]), least=5)[2] is WalkStatus.OUT_OF_ORDER


@pytest.mark.parametrize("flipped", [21, HEADER_V2_SIZE, -1])
def test_first_bad_crc_names_the_batch(flipped: int) -> None:
    good = encode_batch([record(0)])
    bad = bytearray(encode_batch([record(1)]))
    bad[flipped] ^= 1
    buf, rows = log([good, bytes(bad), bytes(encode_batch([record(2)], crc=1))])
    assert first_bad_crc(buf, rows) == 1


def test_first_bad_crc_may_be_of_v1_before_v2() -> None:
    broken = bytearray(legacy(1, 1))
    broken[-1] ^= 1
    data = legacy(0, 0) + bytes(broken) + encode_batch([record(2)], crc=1)
    assert first_bad_crc(data, walk(data)[0]) == 1


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.data())
def test_kernel_agrees_with_twin_on_damaged_logs(seed: int, draw: st.DataObject) -> None:
    data = bytearray(b"".join(random_log(seed)) + legacy(10**13, seed % 2))
    for _ in range(draw.draw(st.integers(0, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    walk(bytes(data[: draw.draw(st.integers(0, len(data)))]))


def test_offset_that_is_too_high_is_named_with_the_highest() -> None:
    data = bytearray(encode_batch([record(0)], last_offset=3))
    for first, status in (
        (MAX_OFFSET - 3, WalkStatus.END),
        (MAX_OFFSET - 2, WalkStatus.OUT_OF_ORDER),
    ):
        data[:8] = first.to_bytes(8)
        assert walk(data)[2] is status
    error = describe(WalkStatus.OUT_OF_ORDER, bytes(data), 0, least_offset=5, file_name="0.log")
    assert f"expected offsets of {MAX_OFFSET} or less" in str(error)
    assert f"found offsets {MAX_OFFSET - 2} to {MAX_OFFSET + 1}" in str(error)


def test_offset_that_is_too_low_is_named_with_the_lowest() -> None:
    error = describe(
        WalkStatus.OUT_OF_ORDER, encode_batch([record(3)]), 0, least_offset=5, file_name="0.log"
    )
    assert "expected an offset of 5 or more, found offset 3" in str(error)
