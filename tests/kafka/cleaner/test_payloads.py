"""Compressed payloads as other clients write them: Winnow reads exactly what Kafka reads."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import cramjam
import pytest
import zstandard

from tests.kafka.judge.judge import Kafka, KafkaFailedError
from tests.twins.crc import crc32c_plain
from tests.twins.encoding import encode_batch
from tests.twins.walk import decode_batch
from winnow.errors import CorruptLogError
from winnow.wire.batch import ATTRIBUTES_AT, CRC_AT, FRAME_SIZE, HEADER_V2_SIZE, Codec
from winnow.wire.codecs import compress
from winnow.wire.kernels.xxhash32 import xxhash32
from winnow.wire.plain import Record

RECORDS = [Record(n, 1_700_000_000_000 + n, b"key-%d" % n, b"value" * 20) for n in range(50)]
PLAIN = encode_batch(RECORDS, leader_epoch=0)
AREA = PLAIN[HEADER_V2_SIZE:]
HALF = len(AREA) // 2
MANY = 150
"""Random payloads."""


def _skippable(content: bytes, kind: int = 0) -> bytes:
    return struct.pack("<II", 0x184D2A50 + kind, len(content)) + content


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _gzip_member(flags: int, extra: bytes = b"", *, wrong: int = 0) -> bytes:
    raw = gzip.compress(AREA)
    crc = (int.from_bytes(raw[-8:-4], "little") ^ wrong).to_bytes(4, "little")
    return raw[:3] + bytes([flags]) + raw[4:10] + extra + raw[10:-8] + crc + raw[-4:]


def _lz4(
    *blocks: bytes, flags: int = 0x60, size: int = 0x40, extra: bytes = b"", end: bytes = bytes(4)
) -> bytes:
    out = [b"\x04\x22\x4d\x18", bytes([flags, size]), extra]
    out.append(bytes([xxhash32(b"".join(out[1:])) >> 8 & 0xFF]))
    for block in blocks:
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        out += [struct.pack("<I", len(packed)), packed]
        if flags & 0x10:
            out.append(struct.pack("<I", xxhash32(packed)))
    return b"".join((*out, end))


def _chunk(data: bytes) -> bytes:
    packed = bytes(cramjam.snappy.compress_raw(data))
    return struct.pack(">i", len(packed)) + packed


def _snappy(version: int = 1, least: int = 1) -> bytes:
    return b"\x82SNAPPY\x00" + struct.pack(">ii", version, least)


SNAPPY = _snappy() + _chunk(AREA)
TWO = gzip.compress(AREA[:HALF]) + gzip.compress(AREA[HALF:])
ZSTD = _zstd(AREA)
PAYLOADS: dict[str, tuple[Codec, bytes]] = {
    "gzip": (Codec.GZIP, gzip.compress(AREA)),
    "gzip-two-members": (Codec.GZIP, TWO),
    "gzip-zeros": (Codec.GZIP, gzip.compress(AREA) + bytes(100)),
    "gzip-one-zero": (Codec.GZIP, gzip.compress(AREA) + bytes(1)),
    "gzip-many-zeros": (Codec.GZIP, gzip.compress(AREA) + bytes(20_000)),
    "gzip-zeros-between": (
        Codec.GZIP,
        gzip.compress(AREA[:HALF]) + bytes(100) + gzip.compress(AREA[HALF:]),
    ),
    "gzip-noise": (Codec.GZIP, gzip.compress(AREA) + b"\x1f\x8b\x07" + b"noise" * 10),
    "gzip-header-only": (Codec.GZIP, gzip.compress(AREA) + gzip.compress(b"")[:10]),
    "gzip-cut-member": (Codec.GZIP, TWO[:-9]),
    "gzip-broken-member": (
        Codec.GZIP,
        gzip.compress(AREA) + gzip.compress(b"")[:10] + b"\xff" * 40,
    ),
    "gzip-bad-header-crc": (Codec.GZIP, gzip.compress(AREA) + b"\x1f\x8b\x08\x02" + bytes(60)),
    "gzip-endless-name": (
        Codec.GZIP,
        gzip.compress(AREA) + b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * 40,
    ),
    "gzip-named-member": (
        Codec.GZIP,
        gzip.compress(AREA) + b"\x1f\x8b\x08\x08" + bytes(6) + b"name\0" + TWO[10:],
    ),
    "gzip-reserved-flags": (Codec.GZIP, _gzip_member(0xE0)),
    "gzip-bad-crc": (Codec.GZIP, _gzip_member(0, wrong=1)),
    "gzip-cut-trailer": (Codec.GZIP, gzip.compress(AREA)[:-3]),
    "lz4": (Codec.LZ4, _lz4(AREA)),
    "lz4-two-blocks": (Codec.LZ4, _lz4(AREA[:HALF], AREA[HALF:], size=0x70)),
    "lz4-noise": (Codec.LZ4, _lz4(AREA) + b"noise"),
    "lz4-one-zero": (Codec.LZ4, _lz4(AREA) + bytes(1)),
    "lz4-second-frame": (Codec.LZ4, _lz4(AREA) + _lz4(b"more")),
    "lz4-two-frames": (Codec.LZ4, _lz4(AREA[:HALF]) + _lz4(AREA[HALF:])),
    "lz4-stored-end": (Codec.LZ4, _lz4(AREA, end=b"\0\0\0\x80")),
    "lz4-no-end": (Codec.LZ4, _lz4(AREA, end=b"")),
    "lz4-cut-end": (Codec.LZ4, _lz4(AREA, end=bytes(2))),
    "lz4-block-sums": (Codec.LZ4, _lz4(AREA, flags=0x70)),
    "lz4-wrong-sum": (Codec.LZ4, _lz4(AREA, flags=0x64, end=bytes(4) + b"abcd")),
    "lz4-no-sum": (Codec.LZ4, _lz4(AREA, flags=0x64)),
    "lz4-cut-sum": (Codec.LZ4, _lz4(AREA, flags=0x64, end=bytes(6))),
    "lz4-wrong-size": (Codec.LZ4, _lz4(AREA, flags=0x68, extra=struct.pack("<Q", 5))),
    "lz4-dictionary": (Codec.LZ4, _lz4(AREA, flags=0x61, extra=bytes(4))),
    "lz4-reserved-size": (Codec.LZ4, _lz4(AREA, size=0x41)),
    "lz4-skippable-first": (Codec.LZ4, _skippable(b"abc") + _lz4(AREA)),
    "snappy": (Codec.SNAPPY, SNAPPY),
    "snappy-raw": (Codec.SNAPPY, _chunk(AREA)[4:]),
    "snappy-two-chunks": (Codec.SNAPPY, _snappy() + _chunk(AREA[:HALF]) + _chunk(AREA[HALF:])),
    **{f"snappy-{n}-zeros": (Codec.SNAPPY, SNAPPY + bytes(n)) for n in (1, 2, 3, 4, 8)},
    "snappy-noise": (Codec.SNAPPY, SNAPPY + b"xyz"),
    "snappy-negative-size": (Codec.SNAPPY, SNAPPY + struct.pack(">i", -5)),
    "snappy-cut-chunk": (Codec.SNAPPY, SNAPPY + struct.pack(">i", 50) + b"abc"),
    "snappy-empty-chunk": (Codec.SNAPPY, _snappy() + struct.pack(">i", 1) + b"\0" + SNAPPY[16:]),
    **{
        f"snappy-version-{version}-{least}": (Codec.SNAPPY, _snappy(version, least) + SNAPPY[16:])
        for version, least in ((0, 0), (2, 1), (2, 2), (1, 0), (-1, -1))
    },
    "snappy-two-streams": (
        Codec.SNAPPY,
        _snappy() + _chunk(AREA[:HALF]) + _snappy(9, 9) + _chunk(AREA[HALF:]),
    ),
    "snappy-second-version-0": (
        Codec.SNAPPY,
        _snappy() + _chunk(AREA[:HALF]) + _snappy(0, 0) + _chunk(AREA[HALF:]),
    ),
    "snappy-header-last": (Codec.SNAPPY, SNAPPY + _snappy()),
    "snappy-header-cut": (Codec.SNAPPY, SNAPPY + _snappy()[:12]),
    "snappy-half-magic": (Codec.SNAPPY, SNAPPY + b"\x82SNA" + bytes(12)),
    "snappy-half-magic-zeros": (Codec.SNAPPY, SNAPPY + b"\x82SNA" + bytes(20)),
    "snappy-half-magic-between": (
        Codec.SNAPPY,
        _snappy() + _chunk(AREA[:HALF]) + b"\x82SNA" + bytes(12) + _chunk(AREA[HALF:]),
    ),
    "snappy-half-magic-cut": (Codec.SNAPPY, SNAPPY + b"\x82SNA"),
    "snappy-header-alone": (Codec.SNAPPY, _snappy()),
    "zstd": (Codec.ZSTD, ZSTD),
    "zstd-skippable-first": (Codec.ZSTD, _skippable(b"made by") + ZSTD),
    "zstd-skippable-last": (Codec.ZSTD, ZSTD + _skippable(b"", 15)),
    "zstd-skippable-between": (
        Codec.ZSTD,
        _zstd(AREA[:HALF]) + _skippable(b"x" * 300, 7) + _zstd(AREA[HALF:]),
    ),
    "zstd-skippable-cut": (Codec.ZSTD, ZSTD + _skippable(b"abc")[:-1]),
    "zstd-skippable-head-cut": (Codec.ZSTD, ZSTD + _skippable(b"")[:6]),
    "zstd-magic-cut": (Codec.ZSTD, ZSTD + ZSTD[:3]),
    "zstd-one-byte-of-magic": (Codec.ZSTD, ZSTD + ZSTD[:1]),
    "zstd-frame-cut": (Codec.ZSTD, ZSTD + _zstd(b"")[:6]),
    "zstd-last-cut": (Codec.ZSTD, _zstd(AREA[:HALF]) + _zstd(AREA[HALF:])[:-1]),
    "zstd-empty-frame": (Codec.ZSTD, _zstd(b"") + ZSTD + _zstd(b"")),
    "zstd-skippable-frame-too-long": (Codec.ZSTD, ZSTD + struct.pack("<II", 0x184D2A50, 2**32 - 1)),
    "zstd-skippable-first-too-long": (Codec.ZSTD, struct.pack("<II", 0x184D2A50, 2**31) + ZSTD),
    "zstd-noise": (Codec.ZSTD, ZSTD + b"noise"),
    "zstd-zeros": (Codec.ZSTD, ZSTD + bytes(20)),
}


def _batch(codec: Codec, payload: bytes) -> bytes:
    data = bytearray(PLAIN[:HEADER_V2_SIZE] + payload)
    struct.pack_into(">i", data, 8, len(data) - FRAME_SIZE)
    struct.pack_into(">h", data, ATTRIBUTES_AT, int(codec))
    struct.pack_into(">I", data, CRC_AT, crc32c_plain(bytes(data[ATTRIBUTES_AT:])))
    return bytes(data)


def _read_by_both(
    batch: bytes, kafka: Kafka, directory: Path
) -> tuple[list[int] | None, list[int] | None]:
    """The offsets that Winnow and Kafka read, or None for a batch that they refuse."""
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(batch)
    try:
        lines = kafka.dump(directory, aux=False)
        theirs = [line["o"] for line in lines if line["t"] == "rec"]
    except KafkaFailedError:
        theirs = None
    try:
        ours = [record.offset for record in decode_batch(batch, 0)[1]]
    except CorruptLogError:
        ours = None
    return ours, theirs


@pytest.mark.parametrize("name", PAYLOADS)
def test_winnow_reads_the_same_payloads_as_kafka(name: str, kafka: Kafka, tmp_path: Path) -> None:
    ours, theirs = _read_by_both(_batch(*PAYLOADS[name]), kafka, tmp_path / "t-0")
    assert ours == theirs
    assert theirs in (None, [record.offset for record in RECORDS])


def test_kafka_fails_on_an_empty_lz4_block_and_winnow_does_not(
    kafka: Kafka, tmp_path: Path
) -> None:
    batch = _batch(Codec.LZ4, _lz4(b"", AREA))
    assert _read_by_both(batch, kafka, tmp_path / "t-0") == ([r.offset for r in RECORDS], None)


def test_winnow_reads_the_same_random_payloads_as_kafka(kafka: Kafka, tmp_path: Path) -> None:
    rng = random.Random(45)
    for n in range(MANY):
        codec = rng.choice((Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD))
        payload = _damaged(rng, codec)
        ours, theirs = _read_by_both(_batch(codec, payload), kafka, tmp_path / f"t-{n}")
        assert ours == theirs, (n, codec, payload.hex())


def _damaged(rng: random.Random, codec: Codec) -> bytes:
    payload = compress(codec, AREA)
    kind = rng.randrange(5)
    if kind == 0:
        return payload[: rng.randrange(len(payload))]
    if kind == 1:
        return payload + rng.randbytes(rng.randrange(1, 30))
    if kind == 2:
        again = compress(codec, AREA[HALF:])
        return compress(codec, AREA[:HALF]) + again[: rng.randrange(len(again) + 1)]
    damaged = bytearray(payload)
    near = min(len(damaged), 30) if kind == 3 else len(damaged)
    damaged[rng.randrange(near)] = rng.randrange(256)
    return bytes(damaged)
