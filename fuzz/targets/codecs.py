"""Compressed payloads: never more than the limit, and nothing but a refusal for what is damaged."""

from __future__ import annotations

import random
import struct

import numpy as np
import zstandard

from fuzz.targets.base import Target, require
from tests.twins.codecs import decompress
from winnow.wire.batch import Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.codecs import compress
from winnow.wire.kernels.codec import decompress_many
from winnow.wire.kernels.xxhash32 import xxhash32
from winnow.wire.plain import read_varint as plain_varint
from winnow.wire.plain import read_varlong as plain_varlong
from winnow.wire.sink import Sink

_LIMIT = 4096


def _check(codec: Codec, data: bytes, *, magic: int = 2) -> None:
    raw = decompress(codec, data, limit=_LIMIT, magic=magic)
    require(len(raw) <= _LIMIT, f"{len(raw)} bytes came out under a limit of {_LIMIT}")
    again = decompress(codec, compress(codec, raw), limit=_LIMIT)
    require(bytes(again) == bytes(raw), "what was decompressed does not come back")


def _check_kernel(codec: Codec, data: bytes) -> None:
    """What a kernel takes is what the Python functions make of it."""
    sink, begin, end = Sink(_LIMIT), np.zeros(1, np.int64), np.array([len(data)])
    done = decompress_many(
        sink,
        as_bytes(data),
        np.array([int(codec)]),
        begin,
        end,
        np.zeros(1, np.int64),
        limit=_LIMIT,
        enough=1,
    )
    if done:
        raw = decompress(codec, data, limit=_LIMIT)
        require(
            bytes(sink.data()[begin[0] : end[0]]) == bytes(raw),
            "a kernel made something else of it",
        )


def _gzip(data: bytes) -> None:
    _check(Codec.GZIP, data)


def _snappy(data: bytes) -> None:
    _check(Codec.SNAPPY, data)


def _lz4(data: bytes) -> None:
    """Byte 0: whether the header's checksum is made right first, and the magic of the batch."""
    magic, frame = (data[:1] or b"\x00")[0] & 1, bytearray(data[1:])
    if data[:1] >= b"\x80" and len(frame) > 14:
        after = 14 if frame[4] & 0x08 else 6
        frame[after] = xxhash32(bytes(frame[4:after])) >> 8 & 0xFF
    _check_kernel(Codec.LZ4, bytes(frame))
    _check(Codec.LZ4, bytes(frame), magic=magic)


def _zstd(data: bytes) -> None:
    _check_kernel(Codec.ZSTD, data)
    _check(Codec.ZSTD, data)


def _raws() -> list[bytes]:
    rng = random.Random(3)
    return [
        b"",
        b"a",
        b"abc" * 40,
        bytes(4096),
        bytes(4097),
        rng.randbytes(100),
        rng.randbytes(9) * 30,
        bytes(10**6),
    ]


def _seeds(codec: Codec) -> list[bytes]:
    return [sound for raw in _raws() if len(sound := compress(codec, raw)) < 4096]


def _zstd_seeds() -> list[bytes]:
    with_size = zstandard.ZstdCompressor(write_checksum=True)
    return _seeds(Codec.ZSTD) + [with_size.compress(raw) for raw in _raws()]


def _snappy_seeds() -> list[bytes]:
    """With Java's header and without: some clients wrote one bare block."""
    streams = _seeds(Codec.SNAPPY)
    return (
        streams
        + [stream[20:] for stream in streams if len(stream) > 20]
        + [a + b for a in streams for b in streams]
    )


def _lz4_seeds() -> list[bytes]:
    return [flag + frame for frame in _seeds(Codec.LZ4) for flag in (b"\x80", b"\x81", b"\x00")]


def _varint(data: bytes) -> None:
    """Byte 0: where the area ends; then a number. Kernels are in `records`; here the plain reader's
    own bounds.
    """
    end = (data[:1] or b"\x00")[0] % 16
    for read in (plain_varint, plain_varlong):
        value, after = read(data[1:], 0, min(end, len(data) - 1))
        require(0 < after <= end and -(2**63) <= value < 2**63, "a number beyond its bytes")


TARGETS = {
    "gzip": Target(
        check=_gzip, seeds=lambda: [a + b for a in _seeds(Codec.GZIP) for b in (b"", a)]
    ),
    "snappy": Target(check=_snappy, seeds=_snappy_seeds),
    "lz4": Target(check=_lz4, seeds=_lz4_seeds),
    "zstd": Target(check=_zstd, seeds=_zstd_seeds),
    "varint": Target(
        check=_varint, seeds=lambda: [b"\x0f" + struct.pack(">Q", 0x8080808080808001), b"\x05\x01"]
    ),
}
