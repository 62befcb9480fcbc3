"""Batches of v0 and v1 are read as Kafka reads them, or refused (S2.1)."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.legacy import legacy_records
from tests.twins.walk import decode_batch
from tests.unit.wire.legacy_logs import (
    CODECS,
    entry,
    legacy_batch,
    legacy_log,
    random_legacy_log,
    wrapper,
)
from tests.unit.wire.logs import NOW, record
from winnow.errors import CorruptLogError
from winnow.wire.batch import BATCH, CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Codec
from winnow.wire.buffers import RecordBlocks, Rows, as_bytes
from winnow.wire.codecs import compress
from winnow.wire.inflate import inflate
from winnow.wire.plain import Record, read_records, walk_batches
from winnow.wire.walk import first_bad_crc

WRAPPED = CODECS[1:]


def read(*batches: bytes) -> tuple[RecordBlocks, list[Record]]:
    """Return what kernel and twin agree on."""
    buf, rows = legacy_log(batches)
    blocks = inflate(buf, rows)
    fast = [read_records(blocks.area(i), row) for i, row in enumerate(blocks.rows)]
    for i, row in enumerate(rows):
        if row["magic"] < 2:
            assert fast[i] == legacy_records(buf, row) == legacy_records(buf, blocks.rows[i])
    assert first_bad_crc(buf, rows) == -1
    return blocks, [record for records in fast for record in records]


def offsets(records: list[Record]) -> list[int]:
    return [r.offset for r in records]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6))
def test_kernel_agrees_with_twin(seed: int) -> None:
    read(*random_legacy_log(seed))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("key", [None, b"", b"k" * 70])
@pytest.mark.parametrize("value", [None, b"", b"v" * 9000])
def test_null_and_empty_differ_in_every_codec(
    magic: int, codec: Codec, key: bytes | None, value: bytes | None
) -> None:
    given_records = [Record(7, NOW, key, value), Record(8, NOW + 5, b"other", b"v")]
    blocks, records = read(legacy_batch(given_records, magic, codec))
    assert [(r.offset, r.key, r.value, r.headers) for r in records] == [
        (7, key, value, ()),
        (8, b"other", b"v", ()),
    ]
    assert [r.timestamp for r in records] == ([NOW, NOW + 5] if magic else [-1, -1])
    assert blocks.rows["record_count"].tolist() == ([1, 1] if codec == Codec.NONE else [2])
    assert blocks.rows["magic"].tolist() == [magic] * len(blocks.rows)


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_comes_from_the_v1_wrapper_only(codec: Codec) -> None:
    given_records = [record(7), record(8)]
    blocks, records = read(legacy_batch(given_records, 1, codec, log_append_time=NOW + 99))
    assert [r.timestamp for r in records] == [NOW + 99] * 2
    assert (blocks.rows["attributes"] & LOG_APPEND_TIME).all()
    bits = 0xF8  # v0 has none of these bits, and v1 only the lowest
    blocks, records = read(entry(1, 0, attributes=bits), entry(2, 1, attributes=bits))
    assert blocks.rows["attributes"].tolist() == [0, LOG_APPEND_TIME]
    assert not (blocks.rows["attributes"] & (CONTROL | TRANSACTIONAL)).any()
    assert [r.timestamp for r in records] == [-1, NOW]
    if codec != Codec.NONE:
        inside = [entry(0, 0), entry(1, 0)]
        _, records = read(
            wrapper(8, 1, inside, codec, timestamp=NOW + 99, attributes=LOG_APPEND_TIME)
        )
        assert [r.timestamp for r in records] == [-1, -1]


@pytest.mark.parametrize("codec", WRAPPED)
def test_offsets_in_a_wrapper_are_absolute_in_v0_and_relative_in_v1(codec: Codec) -> None:
    _, records = read(wrapper(31, 0, [entry(20, 0), entry(31, 0)], codec))
    assert offsets(records) == [20, 31]
    _, records = read(wrapper(31, 1, [entry(0, 1), entry(3, 1), entry(11, 1)], codec))
    assert offsets(records) == [20, 23, 31]


def test_compacted_wrapper_may_have_gaps_and_not_start_at_0() -> None:
    _, records = read(wrapper(31, 1, [entry(4, 1), entry(9, 1)], Codec.GZIP))
    assert offsets(records) == [26, 31]


def test_wrapper_with_offset_0_counts_from_0_as_in_librdkafka() -> None:
    blocks, records = read(
        wrapper(0, 1, [entry(i, 1) for i in range(4)], Codec.SNAPPY), entry(4, 1)
    )
    assert offsets(records) == [0, 1, 2, 3, 4]
    assert blocks.rows["last_offset"].tolist() == [3, 4]
    _, records = read(wrapper(0, 1, [entry(0, 1)], Codec.SNAPPY))
    assert offsets(records) == [0]


def test_v0_records_inside_a_v1_wrapper_are_read() -> None:
    _, records = read(wrapper(26, 1, [entry(0, 0), entry(1, 1)], Codec.GZIP))
    assert [(r.offset, r.timestamp) for r in records] == [(25, -1), (26, NOW)]


def test_normalised_rows_have_the_fields_of_a_v2_header() -> None:
    inner = [entry(0, 1, timestamp=NOW + 9), entry(5, 1, timestamp=NOW)]
    blocks, _ = read(wrapper(30, 1, inner, Codec.LZ4, timestamp=NOW + 9))
    row = blocks.rows[0]
    assert (row["base_offset"], row["last_offset"], row["record_count"]) == (25, 30, 2)
    assert (row["base_timestamp"], row["max_timestamp"], row["attributes"]) == (
        NOW + 9,
        NOW + 9,
        Codec.LZ4,
    )
    assert (
        row["producer_id"],
        row["producer_epoch"],
        row["base_sequence"],
        row["leader_epoch"],
    ) == (-1,) * 4
    assert not blocks.rows.flags.writeable


def test_wrong_lz4_header_checksum_is_accepted_only_in_v0() -> None:
    payload = bytearray(compress(Codec.LZ4, entry(3, 0)))
    payload[6] ^= 0xFF
    _, records = read(entry(3, 0, None, bytes(payload), attributes=Codec.LZ4))
    assert offsets(records) == [3]
    with pytest.raises(CorruptLogError, match="matches its checksum"):
        read(entry(3, 1, None, bytes(payload), attributes=Codec.LZ4))


def test_raw_snappy_and_several_gzip_members_are_read() -> None:
    both = entry(3, 0) + entry(4, 0)
    raw = bytes(cramjam.snappy.compress_raw(both))
    _, records = read(entry(4, 0, None, raw, attributes=Codec.SNAPPY))
    assert offsets(records) == [3, 4]
    parts = compress(Codec.GZIP, entry(3, 0)) + compress(Codec.GZIP, entry(4, 0))
    _, records = read(entry(4, 0, None, parts, attributes=Codec.GZIP))
    assert offsets(records) == [3, 4]


def test_key_of_a_wrapper_is_ignored() -> None:
    payload = compress(Codec.GZIP, entry(3, 0))
    assert offsets(read(entry(3, 0, b"key", payload, attributes=Codec.GZIP))[1]) == [3]


def test_decode_batch_reads_old_formats() -> None:
    header, records = decode_batch(wrapper(31, 1, [entry(0, 1), entry(3, 1)], Codec.GZIP), 0)
    assert offsets(records) == [28, 31]
    assert (int(header["base_offset"]), int(header["record_count"])) == (31, -1), "as it is stored"
    spoiled = bytearray(entry(3, 1))
    spoiled[-1] ^= 1
    with pytest.raises(CorruptLogError, match="wrong CRC"):
        decode_batch(bytes(spoiled), 0)


def resealed(data: bytes, change: Callable[[bytearray], None]) -> bytes:
    """Return a changed entry with its CRC corrected."""
    changed = bytearray(data)
    change(changed)
    changed[12:16] = zlib.crc32(changed[16:]).to_bytes(4, "big")
    return bytes(changed)


def put(at: int, value: int, size: int = 4) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at : at + size] = value.to_bytes(size, "big", signed=True)

    return change


ONE = entry(5, 1)
BAD_CRC = ONE[:-1] + b"x"
REFUSED = {
    "zstd": (entry(5, 1, None, b"x", attributes=Codec.ZSTD), "unknown codec"),
    "codec 7": (entry(5, 0, None, b"x", attributes=7), "unknown codec"),
    "null wrapper": (entry(5, 1, None, None, attributes=Codec.GZIP), "null"),
    "empty value": (entry(5, 1, None, b"", attributes=Codec.LZ4), "can't be decompressed"),
    "no records": (wrapper(5, 1, [], Codec.GZIP), "at least one record"),
    "garbage": (entry(5, 1, None, b"garbage", attributes=Codec.GZIP), "can't be decompressed"),
    "wrapper in a wrapper": (
        wrapper(5, 1, [wrapper(0, 1, [entry(0, 1)], Codec.GZIP)], Codec.GZIP),
        "not compressed themselves",
    ),
    "v2 in a wrapper": (
        wrapper(5, 1, [encode_batch([record(0)])], Codec.GZIP),
        "records of v0 or v1",
    ),
    "offset below its records'": (
        wrapper(5, 1, [entry(6, 1)], Codec.GZIP),
        "a wrapper whose offset",
    ),
    "v0 offset below its records'": (
        wrapper(5, 0, [entry(6, 0)], Codec.GZIP),
        "a wrapper whose offset",
    ),
    "offsets descend": (
        wrapper(5, 1, [entry(1, 1), entry(0, 1)], Codec.GZIP),
        "offsets that ascend",
    ),
    "offset twice": (wrapper(5, 1, [entry(1, 1), entry(1, 1)], Codec.GZIP), "offsets that ascend"),
    "negative offset": (wrapper(5, 1, [entry(-1, 1)], Codec.GZIP), "offsets that ascend"),
    "far apart": (
        wrapper(2**40, 1, [entry(0, 1), entry(2**31, 1)], Codec.GZIP),
        "offsets that ascend",
    ),
    "beyond all offsets": (wrapper(0, 1, [entry(2**63 - 1, 1)], Codec.GZIP), "offsets that ascend"),
    "wrong CRC inside": (wrapper(5, 1, [BAD_CRC], Codec.GZIP), "matches its CRC"),
    "wrong CRC": (BAD_CRC, "matches its CRC"),
    "cut off inside": (wrapper(5, 1, [ONE[:-1]], Codec.GZIP), "an entry whose size"),
    "bytes left over inside": (wrapper(5, 1, [ONE, b"\0"], Codec.GZIP), "an entry whose size"),
    "tiny entry": (
        wrapper(5, 1, [struct.pack(">qi", 0, 13) + bytes(30)], Codec.GZIP),
        "an entry whose size",
    ),
    "v1 of v0's size": (
        wrapper(5, 1, [resealed(entry(0, 0, b"", b""), put(16, 1, size=1))], Codec.GZIP),
        "records of v0 or v1",
    ),
    "key length": (resealed(ONE, put(26, -2)), "a key length"),
    "key too long": (resealed(ONE, put(26, 3)), "a key length"),
    "value length": (resealed(ONE, put(31, -2)), "a value length"),
    "value too long": (resealed(ONE, put(31, 2)), "a value length"),
    "value too short": (resealed(ONE, put(31, 0)), "a value length"),
    "wrapper's value too short": (
        resealed(wrapper(5, 1, [ONE], Codec.GZIP), lambda data: data.__setitem__(33, data[33] - 1)),
        "a value that ends with it",
    ),
    "wrapper's key too long": (
        resealed(wrapper(5, 1, [ONE], Codec.GZIP), put(26, 10**6)),
        "inside of it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_malformed_batch_is_refused_with_its_place(name: str) -> None:
    batch, why = REFUSED[name]
    good = entry(0, 0)
    buf, rows = legacy_log([good, batch]) if "all offsets" not in name else legacy_log([batch])
    with pytest.raises(CorruptLogError, match=why) as caught:
        inflate(buf, rows)
    assert f"batch at byte {rows['position'][-1]}, base offset {rows['base_offset'][-1]}" in str(
        caught.value
    )
    with pytest.raises(CorruptLogError):
        legacy_records(buf, rows[-1])


def test_wrapper_that_overlaps_another_batch_is_refused() -> None:
    before = wrapper(9, 0, [entry(3, 0), entry(9, 0)], Codec.GZIP)
    for batches in (
        [entry(4, 0), before],
        [
            encode_batch([record(0), record(1)]),
            wrapper(3, 1, [entry(0, 1), entry(2, 1)], Codec.GZIP),
        ],
        [wrapper(0, 1, [entry(0, 1), entry(4, 1)], Codec.GZIP), entry(4, 1)],
        [wrapper(0, 1, [entry(0, 1), entry(4, 1)], Codec.GZIP), encode_batch([record(4)])],
    ):
        with pytest.raises(CorruptLogError, match="above those of the batch before"):
            read(*batches)


def test_batch_above_the_limit_is_refused() -> None:
    buf, rows = legacy_log([wrapper(1, 1, [entry(1, 1, value=bytes(5000))], Codec.GZIP)])
    with pytest.raises(CorruptLogError, match="too large"):
        inflate(buf, rows, limit=4000)
    with pytest.raises(CorruptLogError, match="too large"):
        legacy_records(buf, rows[0], limit=4000)


def test_rows_of_another_buffer_are_refused() -> None:
    buf, rows = legacy_log([entry(0, 0)])
    with pytest.raises(ValueError, match="not those of this buffer"):
        inflate(buf[:-1], rows)


@pytest.mark.parametrize("magic", [0, 1])
def test_first_wrong_crc_among_mixed_formats_is_found(magic: int) -> None:
    batches = [entry(0, 0), encode_batch([record(1)]), entry(2, magic), entry(3, magic)]
    batches[2] = batches[2][:-1] + b"x"
    buf, rows = legacy_log(batches)
    assert first_bad_crc(buf, rows) == 2
    assert first_bad_crc(buf, rows[3:]) == -1
    assert first_bad_crc(buf[:-1], rows[3:]) == 0, "it does not fit"


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 2**32), st.booleans())
def test_kernel_agrees_with_twin_on_damage(
    seed: int,
    damage: int,
    seal: bool,  # noqa: FBT001
) -> None:
    """Entries have changed bytes and corrected CRCs, both alone and inside a wrapper."""
    rng = random.Random(damage)
    magic = seed % 2
    entries = [
        entry(
            i,
            rng.choice((magic, magic, 0)),
            *(rng.choice((None, b"", rng.randbytes(5))) for _ in range(2)),
        )
        for i in range(rng.randrange(1, 4))
    ]
    for i, one in enumerate(entries):
        if rng.random() < 0.7:
            spoiled = bytearray(one)
            at = rng.choice((rng.randrange(len(one)), 16, 17, rng.randrange(18, min(34, len(one)))))
            spoiled[at] = rng.choice((0, 1, 2, 3, 127, 128, 255, rng.randrange(256)))
            if seal:
                spoiled[12:16] = zlib.crc32(spoiled[16:]).to_bytes(4, "big")
            entries[i] = bytes(spoiled)
    accepted_alike(
        wrapper(rng.choice((0, 5, len(entries) - 1)), magic, entries, rng.choice(WRAPPED))
    )
    accepted_alike(entries[0])


def accepted_alike(batch: bytes) -> None:
    buf = as_bytes(batch)
    rows: Rows
    try:
        buf, rows = legacy_log([batch])
    except (AssertionError, IndexError):
        return  # not a batch to a walk
    if len(rows) != 1 or rows[0]["magic"] > 1:
        return
    twin = np.zeros(1, BATCH)
    walk_batches(buf, 0, 0, twin)
    assert rows[0].tolist() == twin[0].tolist()
    try:
        slow = legacy_records(buf, rows[0])
    except CorruptLogError:
        with pytest.raises(CorruptLogError):
            inflate(buf, rows)
        return
    blocks = inflate(buf, rows)
    assert read_records(blocks.area(0), blocks.rows[0]) == slow
    assert int(blocks.rows[0]["attributes"]) & CODEC_MASK == int(rows[0]["attributes"]) & CODEC_MASK


def test_deltas_of_full_width_are_read() -> None:
    """Conversion makes the largest record from the smallest entry, which is what the reserved room
    is based on.
    """
    inner = []
    for i in range(200):
        stamp = 2**63 - 1 if i % 2 else -(2**63)
        inner.append(entry(i * 10**7 if i else 0, 1, b"", b"", timestamp=stamp))
    _, records = read(wrapper(199 * 10**7, 1, inner, Codec.GZIP))
    assert [r.timestamp for r in records[:2]] == [-(2**63), 2**63 - 1]
    assert offsets(records) == [i * 10**7 for i in range(200)]
    mixed = [
        entry(0, 0, None, None),
        *(entry(i * 10**7, 1, None, None, timestamp=2**62) for i in range(1, 200)),
    ]
    _, records = read(wrapper(199 * 10**7, 1, mixed, Codec.GZIP))
    assert [r.timestamp for r in records[:2]] == [-1, 2**62]


def test_records_without_a_wrapper_are_one_batch_each() -> None:
    buf, rows = legacy_log([entry(i, i % 2) for i in range(1000)])
    blocks = inflate(buf, rows)
    assert blocks.compressed.all()
    assert np.array_equal(blocks.rows["base_offset"], np.arange(1000))
    assert np.array_equal(blocks.end[:-1], blocks.begin[1:])
