"""A task stays within its memory limits however far batches expand."""

from __future__ import annotations

import gzip
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.twins.encoding import encode_batch, write_varint
from tests.unit.cleaning.partitions import NOW, make_partition
from tests.unit.wire.legacy_logs import entry
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    RECORD_COUNT_AT,
    Codec,
)
from winnow.wire.buffers import as_bytes
from winnow.wire.codecs import compress
from winnow.wire.crc import crc32c
from winnow.wire.inflate import ENOUGH_BYTES
from winnow.wire.plain import Record

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="asks /proc for the largest size of a process"
)
MIB = 1 << 20
LOW_LIMIT, HIGH_LIMIT = 1, 16
"""MiB that a batch may have when decompressed."""
ROOT = Path(__file__).resolve().parents[3]


def batch(payload: bytes, codec: Codec, *, base: int = 0, count: int = 1) -> bytes:
    """Return a v2 batch of `count` offsets with the compressed `payload` as its records."""
    head = bytearray(
        encode_batch([Record(base, NOW, b"k", b"v")], last_offset=base + count - 1)[:HEADER_V2_SIZE]
    )
    struct.pack_into(">i", head, 8, HEADER_V2_SIZE - FRAME_SIZE + len(payload))
    struct.pack_into(">h", head, ATTRIBUTES_AT, codec)
    struct.pack_into(">i", head, RECORD_COUNT_AT, count)
    whole = bytes(head) + payload
    crc = int(crc32c(as_bytes(whole), ATTRIBUTES_AT, len(whole)))
    return whole[:CRC_AT] + crc.to_bytes(4) + whole[ATTRIBUTES_AT:]


def one_record(size: int) -> bytes:
    """Return one record of that many zeros."""
    body = b"\x00\x00\x00\x02k"
    value = bytearray()
    write_varint(value, size)
    record = bytearray()
    write_varint(record, len(body) + len(value) + size + 1)
    return bytes(record) + body + bytes(value) + bytes(size + 1)


def zstd_run(size: int) -> bytes:
    """Return zeros as a stream whose header does not state its size."""
    stream = zstandard.ZstdCompressor().compressobj()
    parts = [stream.compress(bytes(MIB)) for _ in range(size // MIB)]
    return b"".join((*parts, stream.flush()))


def tiny_records(count: int) -> bytes:
    """Return that many records of 7 bytes or a few more, without key and value."""
    area = bytearray()
    for delta in range(count):
        body = bytearray(b"\x00\x00")
        write_varint(body, delta)
        area += bytes([2 * (len(body) + 3)]) + body + b"\x01\x01\x00"
    return bytes(area)


def many(codec: Codec, payload: bytes, batches: int) -> list[bytes]:
    return [batch(payload, codec, base=base) for base in range(batches)]


def control(payload: bytes) -> bytes:
    whole = bytearray(batch(payload, Codec.GZIP))
    struct.pack_into(">h", whole, ATTRIBUTES_AT, Codec.GZIP | 0x30)
    crc = int(crc32c(as_bytes(bytes(whole)), ATTRIBUTES_AT, len(whole)))
    return bytes(whole[:CRC_AT]) + crc.to_bytes(4) + bytes(whole[ATTRIBUTES_AT:])


def v1_wrapper(payload: bytes, offset: int) -> bytes:
    return entry(offset, 1, None, payload, attributes=Codec.GZIP)


TEN_MIB = gzip.compress(one_record(10 * MIB), mtime=0)
"""Ten KiB, as is the next."""
TEN_MIB_V1 = gzip.compress(entry(0, 1, b"k", bytes(10 * MIB)), mtime=0)
TINY = 800_000
SNAPPY_CLAIM = b"\xff\xff\xff\xff\x07" + bytes(10_000)
SIZED = zstandard.ZstdCompressor().compress(bytes(MIB))
TOO_LARGE = "too large.*at most 1048576 bytes"
SLACK = 16
"""MiB that have nothing to do with what is decompressed: the log, its headers, what the allocator
keeps.
"""

REFUSED: dict[str, tuple[Callable[[], list[bytes]], str]] = {
    "gzip": (lambda: [batch(TEN_MIB, Codec.GZIP)], TOO_LARGE),
    "zstd": (lambda: [batch(zstd_run(256 * MIB), Codec.ZSTD)], TOO_LARGE),
    "zstd-claims": (
        lambda: [batch(SIZED[:4] + b"\xe0" + struct.pack("<Q", 2**40) + SIZED[9:], Codec.ZSTD)],
        "zstd",
    ),
    "lz4": (lambda: [batch(compress(Codec.LZ4, bytes(4 * MIB)), Codec.LZ4)], TOO_LARGE),
    "snappy": (lambda: [batch(compress(Codec.SNAPPY, bytes(4 * MIB)), Codec.SNAPPY)], TOO_LARGE),
    "snappy-claims": (
        lambda: [batch(SNAPPY_CLAIM, Codec.SNAPPY)],
        "a size that the block can hold",
    ),
    "v1-wrapper": (lambda: [v1_wrapper(TEN_MIB, 0)], TOO_LARGE),
    "control": (lambda: [control(TEN_MIB)], "too large"),
    "count": (lambda: [batch(TEN_MIB, Codec.GZIP, count=2**31 - 1)], "can't hold as many records"),
}
ACCEPTED: dict[str, Callable[[], list[bytes]]] = {
    "many-gzip": lambda: many(Codec.GZIP, TEN_MIB, 40),
    "many-v1": lambda: [v1_wrapper(TEN_MIB_V1, offset) for offset in range(40)],
    "tiny-records": lambda: [
        batch(compress(Codec.ZSTD, tiny_records(TINY)), Codec.ZSTD, count=TINY)
    ],
}
READ: dict[str, Callable[[], list[bytes]]] = {"read-gzip": ACCEPTED["many-gzip"]}
"""By a query, for which there is no limit but Kafka's largest."""


@pytest.fixture(scope="module")
def appetites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Return by name the MiB used beyond the start, and why it was refused."""
    home = tmp_path_factory.mktemp("partitions")
    made = {name: make for name, (make, _) in REFUSED.items()} | ACCEPTED | READ
    for name, make in made.items():
        make_partition(home / name / "t-0", {0: make()})
    how = (
        dict.fromkeys(REFUSED, LOW_LIMIT * MIB)
        | dict.fromkeys(ACCEPTED, HIGH_LIMIT * MIB)
        | dict.fromkeys(READ, "read")
    )
    command = [sys.executable, "-m", "tests.unit.cleaning.appetite"]
    command += [f"{how[name]}:{home / name / 't-0'}" for name in made]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    return dict(zip(made, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", REFUSED)
def test_batch_above_the_limit_is_refused_before_decompression(
    appetites: dict[str, tuple[int, str]], name: str
) -> None:
    mib, told = appetites[name]
    assert re.search(REFUSED[name][1], told)
    assert mib <= 4 * LOW_LIMIT + SLACK


@pytest.mark.parametrize("name", [*ACCEPTED, *READ])
def test_batches_below_the_limit_are_not_all_held_at_once(
    appetites: dict[str, tuple[int, str]], name: str
) -> None:
    mib, told = appetites[name]
    assert told == ""
    assert mib <= 4 * (ENOUGH_BYTES // MIB + HIGH_LIMIT) + SLACK
