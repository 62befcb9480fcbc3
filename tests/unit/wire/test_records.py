from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.records import scan_records_plain
from tests.twins.walk import decode_batch
from tests.unit.wire.logs import log, random_log, record
from winnow.errors import CorruptLogError
from winnow.wire.batch import HEADER_V2_SIZE, RECORD_COUNT_AT, Codec
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.inflate import inflate
from winnow.wire.plain import Record
from winnow.wire.records import RecordColumns, scan_records

SECRET = (2**64 - 1, 12345)
NAMES = ("hash", "offset", "null_key", "null_value", "batch")


def scanned(buf: Bytes, rows: Rows) -> RecordColumns | None:
    """Return what kernel and twin agree on, or None if both refuse."""
    try:
        blocks = inflate(buf, rows)
    except CorruptLogError:
        return None
    try:
        slow = scan_records_plain(blocks, SECRET)
    except CorruptLogError:
        with pytest.raises(CorruptLogError, match="batch at byte"):
            scan_records(blocks, SECRET)
        return None
    fast = scan_records(blocks, SECRET)
    for name in NAMES:
        assert np.array_equal(getattr(fast, name), getattr(slow, name)), name
    return fast


def test_columns_are_in_file_order() -> None:
    batches = [
        encode_batch([record(3, b"a"), record(5, b"b", None)], codec=Codec.ZSTD),
        encode_batch([], base_offset=6, last_offset=7),
        encode_batch([record(8, None), record(9, b"")]),
        encode_batch([record(10, b"a")]),
    ]
    columns = scanned(*log(batches))
    assert columns is not None
    assert columns.offset.tolist() == [3, 5, 8, 9, 10]
    assert columns.batch.tolist() == [0, 0, 2, 2, 3]
    assert columns.null_key.tolist() == [False, False, True, False, False]
    assert columns.null_value.tolist() == [False, True, False, False, False]
    assert columns.hash[2].tolist() == [0, 0]
    assert columns.hash[0].tolist() == columns.hash[4].tolist() != columns.hash[1].tolist()
    assert columns.hash[3].any()


@pytest.mark.parametrize(
    ("area", "count", "expected"),
    [
        ("0e000000010100", 1, "length that lies inside"),
        ("0c00000001010000", 1, "end of the batch"),
        ("0c000000080100", 1, "key length"),
        ("0c000000010600", 1, "value length"),
        ("0c000000010101", 1, "header count"),
        ("0c000000010102", 1, "header count"),
        ("10000000010102010000", 1, "headers"),
        ("0e00000001010000", 1, "fill the record's length"),
        ("0c00808080808080", 1, "timestamp delta"),
        ("1a00808080808080808080800100", 1, "timestamp delta"),
        ("1400008080808080010101", 1, "offset delta"),
        ("0c000000010100", 2, "room for"),
        ("0c0000000101000c000002010100", 1, "end of the batch"),
    ],
)
def test_malformed_record_is_refused_with_its_place(area: str, count: int, expected: str) -> None:
    good = encode_batch([record(0)])
    header = bytearray(encode_batch([record(1)])[:HEADER_V2_SIZE])
    raw = bytes.fromhex(area)
    header[8:12] = (HEADER_V2_SIZE - 12 + len(raw)).to_bytes(4, "big")
    header[RECORD_COUNT_AT:] = count.to_bytes(4, "big")
    buf, rows = log([good, bytes(header) + raw])
    assert scanned(buf, rows) is None
    with pytest.raises(CorruptLogError, match=expected) as raised:
        scan_records(inflate(buf, rows), SECRET)
    assert f"batch at byte {len(good)}" in str(raised.value)


def test_any_negative_length_is_null() -> None:
    header = bytearray(encode_batch([record(1)])[:HEADER_V2_SIZE])
    raw = bytes.fromhex("0c000000030300")
    header[8:12] = (HEADER_V2_SIZE - 12 + len(raw)).to_bytes(4, "big")
    columns = scanned(*log([bytes(header) + raw]))
    assert columns is not None
    assert (columns.null_key.tolist(), columns.null_value.tolist()) == ([True], [True])


def test_record_counts_at_its_offset_but_not_outside_of_its_batch() -> None:
    batch = encode_batch(
        [record(9), record(3), record(8), record(12)], base_offset=5, last_offset=8
    )
    columns = scanned(*log([batch]))
    assert columns is not None
    assert columns.offset.tolist() == [8, 5, 8, 8]


def test_huge_record_count_is_refused_at_once() -> None:
    batch = bytearray(encode_batch([record(0)]))
    batch[RECORD_COUNT_AT:HEADER_V2_SIZE] = b"\x7f\xff\xff\xff"
    assert scanned(*log([bytes(batch)])) is None


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_kernel_agrees_with_twin(seed: int) -> None:
    batches = random_log(seed)
    columns = scanned(*log(batches))
    assert columns is not None
    decoded = [r for batch in batches for r in decode_batch(batch, 0)[1]]
    assert columns.offset.tolist() == [r.offset for r in decoded]


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(0, 2**32))
def test_kernel_agrees_with_twin_on_damage(seed: int, damage: int) -> None:
    rng = random.Random(damage)
    buf, rows = log(random_log(seed, (Codec.NONE, Codec.NONE, Codec.SNAPPY)))
    spoiled = buf.copy()
    for _ in range(rng.randrange(1, 4)):
        row = rng.choice(rows)
        if row["size"] > HEADER_V2_SIZE:
            at = rng.randrange(
                int(row["position"]) + HEADER_V2_SIZE, int(row["position"] + row["size"])
            )
            spoiled[at] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
    scanned(spoiled, rows)


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_decoded_batch_encodes_to_the_same_bytes(seed: int) -> None:
    for batch in random_log(seed, (Codec.NONE,)):
        row, records = decode_batch(batch, 0)
        bits = int(row["attributes"])
        again = encode_batch(
            records,
            base_offset=int(row["base_offset"]),
            last_offset=int(row["last_offset"]),
            leader_epoch=int(row["leader_epoch"]),
            log_append_time=int(row["max_timestamp"]) if bits & 8 else None,
            transactional=bool(bits & 16),
            control=bool(bits & 32),
            delete_horizon=int(row["base_timestamp"]) if bits & 64 else None,
            producer_id=int(row["producer_id"]),
            producer_epoch=int(row["producer_epoch"]),
            base_sequence=int(row["base_sequence"]),
        )
        assert again == batch


# Written by Kafka 4.3.1 and dumped by its own classes.
MARKER = (
    "000000000000004600000042000000000260d5341e003000000000000001a1fba860e3000001a1fba860e3000000000000003a0001"
    "ffffffff000000012000000008000000000c00000000000000"
)
IN_LZ4 = (
    "00000000000009150000004c0000000002e30aef50000300000000000001a0d0793700000001a0d07937000000000000000010000000000220"
    "0000000104224d186040820c000080160000000a6d2d313032010000000000"
)
IN_GZIP = (
    "00000000000003050000004f000000000220108133000100000000000001a0c851d000000001a0c851d000000000000000000e0000000000c0"
    "000000011f8b08000000000000ff1362606060cbd5356064000070ca02180a000000"
)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (MARKER, Record(70, 1795223478499, bytes(4), bytes(6))),
        (IN_LZ4, Record(2325, 1790204000000, b"m-102", None)),
        (IN_GZIP, Record(773, 1790067200000, b"m-0", None)),
    ],
)
def test_batches_written_by_kafka_are_read(written: str, expected: Record) -> None:
    assert decode_batch(bytes.fromhex(written), 0)[1] == [expected]


def test_batches_are_encoded_as_by_kafka() -> None:
    marker = encode_batch(
        [Record(70, 1795223478499, bytes(4), bytes(6))],
        leader_epoch=0,
        transactional=True,
        control=True,
        producer_id=58,
        producer_epoch=1,
    )
    assert marker.hex() == MARKER
    in_lz4 = encode_batch(
        [Record(2325, 1790204000000, b"m-102", None)],
        leader_epoch=0,
        codec=Codec.LZ4,
        producer_id=16,
        producer_epoch=0,
        base_sequence=544,
    )
    assert in_lz4.hex() == IN_LZ4


def test_decoding_refuses_a_wrong_crc() -> None:
    with pytest.raises(CorruptLogError, match="wrong CRC"):
        decode_batch(encode_batch([record(0)], crc=5), 0)


def test_unknown_codec_and_oversized_batch_are_refused() -> None:
    buf, rows = log([encode_batch([record(0, b"k", bytes(5000))], codec=Codec.GZIP)])
    with pytest.raises(CorruptLogError, match="too large"):
        inflate(buf, rows, limit=4000)
    odd = rows.copy()
    odd["attributes"] = 5
    with pytest.raises(CorruptLogError, match="unknown codec"):
        inflate(buf, odd)
