"""Batches that no ordinary client writes, with each field of each record as the caller wants it."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, replace

from tests.twins.crc import crc32c_plain
from tests.twins.encoding import write_varint
from winnow.wire.batch import ATTRIBUTES_AT, CRC_AT, FRAME_SIZE, HEADER_V2, HEADER_V2_SIZE, Codec
from winnow.wire.codecs import compress

LEAST_INT, LEAST_LONG = -(2**31), -(2**63)


def number(value: int, size: int = 0) -> bytes:
    """A varint, made longer than it needs to be up to `size` bytes."""
    out = bytearray()
    write_varint(out, value)
    while len(out) < size:
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """A record, field by field as bytes. The defaults are an ordinary record."""

    attributes: int = 0
    timestamp: bytes = b"\0"
    offset: bytes = b"\0"
    key: bytes = b"\2a"
    value: bytes = b"\2v"
    headers: bytes = b"\0"
    tail: bytes = b""
    size: bytes | None = None

    def encoded(self) -> bytes:
        body = bytes([self.attributes]) + self.timestamp + self.offset
        body += self.key + self.value + self.headers + self.tail
        return (number(len(body)) if self.size is None else self.size) + body

    def at(self, delta: int) -> Odd:
        return replace(self, offset=number(delta))


def sized(data: bytes, size: int = 0) -> bytes:
    """`data` behind its length."""
    return number(len(data), size) + data


def batch(
    payload: bytes,
    count: int,
    *,
    now: int,
    attributes: int = 0,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """A batch at offset 0 of a producer without an id. `attributes`: with the bits of the codec."""
    base = now if base_timestamp is None else base_timestamp
    header = HEADER_V2.pack(
        *(0, HEADER_V2_SIZE + len(payload) - FRAME_SIZE, 0, 2, 0, attributes, count - 1),
        *(base, base if max_timestamp is None else max_timestamp, -1, -1, -1, count),
    )
    data = bytearray(header + payload)
    struct.pack_into(">I", data, CRC_AT, crc32c_plain(bytes(data[ATTRIBUTES_AT:])))
    return bytes(data)


def drawn(rng: random.Random, now: int) -> bytes:
    """A batch of 3 records of the keys a, b and c, with a few fields as no Java client writes them,
    in any codec. Sometimes a byte of the records is any other.
    """
    records = [Odd(key=sized(key)).at(n) for n, key in enumerate((b"a", b"b", b"c"))]
    for _ in range(rng.randrange(1, 4)):
        n = rng.randrange(len(records))
        records[n] = replace(records[n], **_field(rng, records[n], n, now))
    area = bytearray(b"".join(record.encoded() for record in records))
    if rng.random() < 0.2:
        area[rng.randrange(len(area))] = rng.randrange(256)
    codec = Codec(rng.randrange(5))
    return batch(compress(codec, bytes(area)), len(records), now=now, attributes=int(codec))


def _field(rng: random.Random, record: Odd, n: int, now: int) -> dict[str, object]:
    null = number(rng.choice((-1, -2, -3, -64, -65, -9999, LEAST_INT)), rng.choice((0, 5)))
    chosen: list[dict[str, object]] = [
        {"attributes": rng.randrange(256)},
        {"timestamp": number(rng.choice((1, -1, -now, -now - 1, 70_000)), rng.choice((0, 9, 10)))},
        {"timestamp": number(rng.choice((-now - 2, LEAST_LONG, 2**63 - 1)))},
        {"offset": number(n, rng.choice((0, 5)))},
        {"key": null},
        {"value": null},
        {"value": b"\x81\x80\x80\x80\x7f"},
        {"key": number(1, 5) + b"a", "value": sized(b"w" * 70, 5)},
        {"headers": number(1) + sized(b"h", 3) + null},
        {"headers": number(2, 3) + sized(b"") + sized(b"x") + sized(b"h") + null},
        {"headers": number(rng.choice((-1, 1, 2, 2**31 - 1)))},
        {"headers": number(1) + number(-1) + number(-1)},
        {"tail": bytes(rng.randrange(1, 3))},
        {"size": number(len(record.encoded()) + rng.randrange(-3, 3))},
    ]
    return rng.choice(chosen)
