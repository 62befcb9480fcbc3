"""Batches of all formats: walked, decompressed, scanned and filtered by kernels and by their plain
twins alike.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol

from fuzz.targets.base import LIMIT, Target, require
from fuzz.targets.properties import check_batches, walked
from tests.twins.encoding import encode_batch
from tests.twins.walk import decode_batch, find_batch_plain
from tests.unit.wire.legacy_logs import entry, random_legacy_log
from tests.unit.wire.logs import NOW, random_batch, random_log
from winnow.errors import CorruptLogError
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CRC_AT,
    FRAME,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    MAGIC_AT,
    MAX_MAGIC,
    RECORD_OVERHEAD_V0,
    Codec,
)
from winnow.wire.buffers import as_bytes
from winnow.wire.codecs import compress
from winnow.wire.crc import crc32c
from winnow.wire.plain import Record
from winnow.wire.walk import find_batch, first_bad_crc

_FEW = 2000
"""Bytes in which `find_batch` can't run out of its budget: no frame in them covers more, and few
begin in them.
"""


def check_log(data: bytes, *, twins: bool = True) -> None:
    """Byte 0: whether CRCs are made right first; the rest is a log of any formats."""
    buf = as_bytes(sealed(data[1:]) if data[:1] >= b"\x80" else data[1:])
    rows = walked(buf, twins=twins)
    bad = first_bad_crc(buf, rows)
    if bad >= 0:
        raise CorruptLogError("wrong CRC", found=str(bad))
    check_batches(buf, rows, random.Random(zlib.crc32(data)), twins=twins)


def check_walk(data: bytes, *, twins: bool = True) -> None:
    """Bytes 0-7: the least offset; then a log."""
    least = int.from_bytes(data[:8], "big", signed=True) if data[0:1] < b"\x40" else 0
    walked(as_bytes(data[8:]), least_offset=least, twins=twins)


def check_records(data: bytes, *, twins: bool = True) -> None:
    """Byte 0: a codec; 52 bytes: the header without length, magic and CRC; then records."""
    buf = as_bytes(v2_batch(data))
    rows = walked(buf, twins=twins)
    require(first_bad_crc(buf, rows) < 0, "a batch with its own CRC is refused")
    check_batches(buf, rows, random.Random(zlib.crc32(data)), twins=twins)


def check_wrapper(data: bytes, *, twins: bool = True) -> None:
    """Byte 0: codec and magic; 8 bytes: its offset; byte 9: whether the entries' CRCs are made
    right; then entries.
    """
    head = data[:1] or b"\x00"
    magic, codec, bits = head[0] >> 7, Codec(1 + (head[0] & 0x7F) % 3), (head[0] >> 2) & 0x08
    offset = int.from_bytes(data[1:9], "big", signed=True)
    entries = sealed(data[10:]) if data[9:10] >= b"\x40" else data[10:]
    payload = compress(codec, entries)
    if magic == 0 and codec == Codec.LZ4:
        payload = payload[:6] + bytes([payload[6] ^ 0xFF]) + payload[7:]
    buf = as_bytes(entry(offset, magic, None, payload, attributes=bits | codec))
    check_batches(buf, walked(buf, twins=twins), random.Random(zlib.crc32(data)), twins=twins)


def check_find(data: bytes, *, twins: bool = True) -> None:
    """As `check_log`: where the next batch begins. The kernel gives up where prepared bytes ask for
    too many sums.
    """
    buf = as_bytes(sealed(data[1:]) if data[:1] >= b"\x80" else data[1:])
    for start, least, end in ((0, 0, 2**62), (1, 5, 10**12 + 5000)):
        found = find_batch(buf, start, least, end)
        if found >= 0:
            after = found + FRAME_SIZE + FRAME.unpack_from(buf, found)[1]
            require(len(walked(buf[:after], found, least, twins=twins)) == 1, "no batch was found")
        if not twins:
            continue
        plain = find_batch_plain(buf, start, least, end)
        require(found in {plain, -1}, f"the next batch is at {found} and {plain}")
        require(found == plain or len(buf) > _FEW, f"the batch at {plain} was not found")


def check_decode(data: bytes) -> None:
    """One batch by the plain reader: byte 0 as in `check_log`."""
    decode_batch(sealed(data[1:]) if data[:1] >= b"\x80" else data[1:], 0, limit=LIMIT)


def v2_batch(data: bytes) -> bytes:
    """A batch with the right length and CRC, from the input of `check_records`."""
    codec = Codec((data[:1] or b"\x00")[0] % 5)
    base, epoch, rest = (
        data[1:9].ljust(8, b"\x00"),
        data[9:13].ljust(4, b"\x00"),
        data[13:53].ljust(40, b"\x00"),
    )
    payload = compress(codec, data[53:])
    rest = rest[:1] + bytes([rest[1] & ~CODEC_MASK | codec]) + rest[2:]
    length = struct.pack(">i", HEADER_V2_SIZE - FRAME_SIZE + len(payload))
    return sealed(base + length + epoch + bytes([MAX_MAGIC]) + bytes(4) + rest + payload)


def sealed(data: bytes) -> bytes:
    """The log with the right CRC for every batch that lies whole in it."""
    out = bytearray(data)
    at = 0
    while len(out) - at > MAGIC_AT:
        _, length = FRAME.unpack_from(out, at)
        end = at + FRAME_SIZE + length
        if length < RECORD_OVERHEAD_V0 or end > len(out):
            break
        if out[at + MAGIC_AT] == MAX_MAGIC and length >= HEADER_V2_SIZE - FRAME_SIZE:
            crc = int(crc32c(as_bytes(bytes(out)), at + ATTRIBUTES_AT, end))
            struct.pack_into(">I", out, at + CRC_AT, crc)
        elif out[at + MAGIC_AT] < MAX_MAGIC:
            struct.pack_into(">I", out, at + FRAME_SIZE, zlib.crc32(out[at + MAGIC_AT : end]))
        at = end
    return bytes(out)


def log_seeds() -> list[bytes]:
    logs = [b"".join(random_log(seed)) for seed in range(60)] + [
        b"".join(random_legacy_log(seed)) for seed in range(40)
    ]
    return [flag + log for log in logs if len(log) < 1500 for flag in (b"\x00", b"\x80")]


def walk_seeds() -> list[bytes]:
    return [bytes(8) + seed[1:] for seed in log_seeds()]


def records_seeds() -> list[bytes]:
    """Few records: the twins take their time for each."""
    rng = random.Random(1)
    batches = [random_batch(rng, rng.choice((0, 10**12)), Codec.NONE) for _ in range(200)]
    for size in (1, 3, 20):
        keys = [bytes([0, n % 4, 0, size]) + b"g" * size for n in range(4)]
        batches.append(encode_batch([Record(n, NOW, key, b"v") for n, key in enumerate(keys)]))
    return [
        bytes([n % 5]) + b[:8] + b[FRAME_SIZE:MAGIC_AT] + b[ATTRIBUTES_AT:]
        for n, b in enumerate(batches)
        if len(b) < 700
    ]


def wrapper_seeds() -> list[bytes]:
    rng = random.Random(2)
    seeds = []
    for n in range(120):
        magic, base = n % 2, rng.choice((0, 1, 10**6))
        entries = b"".join(
            entry(
                i if magic else base + i,
                magic,
                rng.choice((None, b"", b"key")),
                rng.choice((None, b"v" * n)),
            )
            for i in range(rng.randrange(1, 4))
        )
        offset = struct.pack(">q", rng.choice((base + 3, base + 3, 0)))
        seeds.append(bytes([magic << 7 | n % 3 | (n % 5 == 0) << 5]) + offset + b"\x80" + entries)
    return seeds


class _Check(Protocol):
    def __call__(self, data: bytes, *, twins: bool = True) -> None: ...


def _target(check: _Check, seeds: Callable[[], Sequence[bytes]]) -> Target:
    return Target(check=check, quick=lambda data: check(data, twins=False), seeds=seeds)


def _find_seeds() -> list[bytes]:
    return [b"junk" + seed for seed in log_seeds() if len(seed) < 300] + log_seeds()[:20]


TARGETS = {
    "log": _target(check_log, log_seeds),
    "find-batch": _target(check_find, _find_seeds),
    "walk": _target(check_walk, walk_seeds),
    "records": _target(check_records, records_seeds),
    "wrapper": _target(check_wrapper, wrapper_seeds),
    "decode-batch": Target(check=check_decode, seeds=log_seeds),
}
