"""Compressed payloads as other clients write them: Winnow reads exactly what Kafka reads."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
import zstandard

from tests.kafka.judge.judge import Kafka, KafkaFailedError
from tests.twins.crc import crc32c_plain
from tests.twins.encoding import encode_batch
from tests.twins.walk import decode_batch
from winnow.errors import CorruptLogError
from winnow.wire.batch import ATTRIBUTES_AT, CRC_AT, FRAME_SIZE, HEADER_V2_SIZE, Codec
from winnow.wire.plain import Record

RECORDS = [Record(n, 1_700_000_000_000 + n, b"key-%d" % n, b"value" * 20) for n in range(50)]
PLAIN = encode_batch(RECORDS, leader_epoch=0)
AREA = PLAIN[HEADER_V2_SIZE:]
HALF = len(AREA) // 2


def _skippable(content: bytes, kind: int = 0) -> bytes:
    return struct.pack("<II", 0x184D2A50 + kind, len(content)) + content


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


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


@pytest.mark.parametrize("name", PAYLOADS)
def test_winnow_reads_the_same_payloads_as_kafka(name: str, kafka: Kafka, tmp_path: Path) -> None:
    batch = _batch(*PAYLOADS[name])
    directory = tmp_path / "t-0"
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
    assert ours == theirs
    assert theirs in (None, [record.offset for record in RECORDS])
