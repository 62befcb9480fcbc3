"""Batches of v0 and v1, made by hand: nothing in the library writes them."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from tests.unit.wire.logs import NOW, random_batch
from winnow.wire.batch import BATCH, LOG_APPEND_TIME, Codec, WalkStatus
from winnow.wire.buffers import Bytes, Rows, as_bytes
from winnow.wire.codecs import compress
from winnow.wire.plain import Record
from winnow.wire.walk import walk_batches

CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def entry(
    offset: int,
    magic: int,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    timestamp: int = NOW,
    attributes: int = 0,
) -> bytes:
    """Return one v0 or v1 record with a correct CRC."""

    def sized(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    stamp = struct.pack(">q", timestamp) if magic else b""
    body = bytes([magic, attributes]) + stamp + sized(key) + sized(value)
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(
    offset: int,
    magic: int,
    entries: Sequence[bytes],
    codec: Codec,
    *,
    timestamp: int = NOW,
    attributes: int = 0,
) -> bytes:
    """Return entries in a wrapper of that offset. In v0 its lz4 frame has the customary wrong
    header checksum.
    """
    payload = compress(codec, b"".join(entries))
    if magic == 0 and codec == Codec.LZ4:
        payload = payload[:6] + bytes([payload[6] ^ 0xFF]) + payload[7:]
    return entry(offset, magic, None, payload, timestamp=timestamp, attributes=attributes | codec)


def legacy_batch(
    records: Sequence[Record],
    magic: int,
    codec: Codec = Codec.NONE,
    *,
    log_append_time: int | None = None,
) -> bytes:
    """Return records as an old producer wrote them and a broker stored them. Several need a
    codec.
    """
    bits = 0 if log_append_time is None or magic == 0 else LOG_APPEND_TIME
    last = records[-1]
    largest = max(r.timestamp for r in records) if log_append_time is None else log_append_time
    if codec == Codec.NONE:
        return b"".join(
            entry(
                r.offset,
                magic,
                r.key,
                r.value,
                timestamp=r.timestamp if log_append_time is None else log_append_time,
                attributes=bits,
            )
            for r in records
        )
    base = records[0].offset if magic else 0
    inner = [entry(r.offset - base, magic, r.key, r.value, timestamp=r.timestamp) for r in records]
    return wrapper(last.offset, magic, inner, codec, timestamp=largest, attributes=bits)


def legacy_log(batches: Sequence[bytes]) -> tuple[Bytes, Rows]:
    """Return the bytes of all batches, and their rows. Batches of v2 may be among them."""
    buf = as_bytes(b"".join(batches))
    out = np.zeros(len(buf) // 26 + 1, BATCH)
    count, position, status = walk_batches(buf, 0, 0, out)
    assert (position, status) == (len(buf), WalkStatus.END)
    return buf, out[:count]


def random_legacy_batch(
    rng: random.Random, base: int, *, magics: Sequence[int] = (0, 1)
) -> list[bytes]:
    """Return one wrapper, or some records without a wrapper, with everything that S2.1 allows."""

    def some(longest: int) -> bytes | None:
        return (
            None
            if rng.random() < 0.15
            else rng.randbytes(rng.choice((0, 1, 7, 8, 63, 64, longest)))
        )

    records, offset = [], base
    for _ in range(rng.randrange(1, 6)):
        offset += rng.choice((0, 0, 1, 200))
        timestamp = NOW + rng.choice((-(10**6), -1, 0, 1, 63, 64, 10**9))
        records.append(Record(offset, timestamp, some(200), some(300)))
        offset += 1
    return [
        legacy_batch(
            records,
            rng.choice(magics),
            rng.choice(CODECS),
            log_append_time=rng.choice((None, None, NOW + 5)),
        )
    ]


def random_legacy_log(seed: int) -> list[bytes]:
    """Return batches of v0, v1 and v2, as if a broker was upgraded between them."""
    rng = random.Random(seed)
    batches: list[bytes] = []
    base = rng.choice((0, 1, 10**12))
    for magic in sorted(rng.choices((0, 1, 2), k=rng.randrange(1, 7))):
        if magic == 2:
            batches.append(random_batch(rng, base, rng.choice(tuple(Codec))))
        else:
            batches += random_legacy_batch(rng, base, magics=(magic,))
        base += 3000
    return batches
