"""The four codecs as Java Kafka writes and reads them (S2.4).

A batch is compressed with its own codec at the default level. For lz4 the default level is 9, which
Kafka takes to mean "the fast compressor" (`Lz4BlockOutputStream`), so Winnow does, too.
Decompression never returns more than the caller's limit, and never allocates much more, whatever
sizes the bytes claim.
"""

from __future__ import annotations

import struct
import threading
import zlib
from functools import lru_cache
from typing import Any, cast

import cramjam
import deflate
import lz4.block
import zstandard
from isal import isal_zlib

from winnow.errors import CorruptLogError
from winnow.wire.batch import Codec
from winnow.wire.buffers import Buffer, as_view
from winnow.wire.kernels.xxhash32 import xxhash32
from winnow.wire.sink import Sink

GZIP_LEVEL = 6
ZSTD_LEVEL = 3
SNAPPY_CHUNK = 32 * 1024
LZ4_BLOCK = 64 * 1024

_GZIP_WINDOW = 31  # zlib's code for "with a gzip header"
_GZIP_START = b"\x1f\x8b\x08"
_GZIP_FIXED = 10
_GZIP_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 0x02, 0x04, 0x08, 0x10
_GZIP_LEAST_MEMBER = 18
_PIECE = 1 << 20
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + struct.pack(">ii", 1, 1)
_SNAPPY_SIZE = 4
_SNAPPY_DENSEST = 32  # a copy of 64 bytes takes 3: no valid data expands further
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"  # version 1, independent blocks; 64 KiB; header checksum
_LZ4_STORED = 0x80000000
_LZ4_INDEPENDENT, _LZ4_BLOCK_SUM, _LZ4_SIZE, _LZ4_SUM, _LZ4_RESERVED = 0x20, 0x10, 0x08, 0x04, 0x03
_LZ4_SMALLEST_BLOCK_ID = 4
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK = 128 * 1024
_ZSTD_NO_ROOM = "did not decompress full frame"
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_RESERVED = 0, 1, 3
_SKIPPABLE = 0x184D2A50
_SKIPPABLE_HEADER = 8
_SKIPPABLE_MOST = 2**32 - _SKIPPABLE_HEADER

# its stub declares an instance, not the class
_GZIP_ERROR = cast("type[Exception]", isal_zlib.error)
_LIBRARY_ERRORS = (
    cramjam.DecompressionError,
    _GZIP_ERROR,
    lz4.block.LZ4BlockError,
    zstandard.ZstdError,
    OSError,
    ValueError,
)
_local = threading.local()  # zstd contexts are expensive to make and not thread-safe


def compress(codec: Codec, raw: Buffer) -> bytes:
    """Compress `raw` as the payload of a batch with that codec."""
    data = as_view(raw)
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return bytes(deflate.gzip_compress(data, GZIP_LEVEL))
    if codec == Codec.SNAPPY:
        return _compress_snappy(data)
    if codec == Codec.LZ4:
        return _compress_lz4(data)
    if not hasattr(_local, "compressor"):
        # Java writes a stream, so the frame has neither size nor checksum.
        _local.compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_content_size=False)
    compressed: bytes = _local.compressor.compress(data)
    return compressed


def _compress_snappy(data: memoryview) -> bytes:
    parts: list[Any] = [_SNAPPY_HEADER]  # and buffers of cramjam, which are joined as they are
    for at in range(0, len(data), SNAPPY_CHUNK):
        block = cramjam.snappy.compress_raw(data[at : at + SNAPPY_CHUNK])
        parts += struct.pack(">i", len(block)), block
    return b"".join(parts)


def _compress_lz4(data: memoryview) -> bytes:
    parts: list[Any] = [_LZ4_HEADER]
    for at in range(0, len(data), LZ4_BLOCK):
        chunk = data[at : at + LZ4_BLOCK]
        # `lz4`'s own function works differently from Java's
        block = cramjam.lz4.compress_block(chunk, store_size=False)
        if len(block) < len(chunk):
            parts += struct.pack("<I", len(block)), block
        else:
            parts += struct.pack("<I", len(chunk) | _LZ4_STORED), chunk
    return b"".join((*parts, bytes(4)))


def decompress_into(
    sink: Sink, codec: Codec, payload: Buffer, *, limit: int, magic: int = 2
) -> None:
    """Append the decompressed bytes of `payload` to `sink`, at most `limit` of them.

    `magic`: that of the batch. In v0 batches, lz4 header checksums are wrong by convention. Raises
    CorruptLogError if the payload is damaged, is of a kind that Kafka refuses, or holds more than
    `limit`.
    """
    data = as_view(payload)
    sink.begin(limit)
    try:
        if codec == Codec.GZIP:
            _gzip(sink, data)
        elif codec == Codec.SNAPPY:
            _snappy(sink, data)
        elif codec == Codec.LZ4:
            _lz4(sink, data, magic)
        elif codec == Codec.ZSTD:
            _zstd(sink, data)
        else:
            sink.write(data)
    except _LIBRARY_ERRORS as error:
        raise CorruptLogError(
            f"{codec.name.lower()} data can't be decompressed",
            found=f"{type(error).__name__}: {error}",
        ) from error


def _refuse(codec: Codec, expected: str, found: str) -> CorruptLogError:
    return CorruptLogError(
        f"{codec.name.lower()} data can't be decompressed", expected=expected, found=found
    )


def _gzip(sink: Sink, data: memoryview) -> None:
    left = data
    while True:  # one member after the other
        member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW)
        while not member.eof:
            most = min(_PIECE, sink.room + 1)
            piece = member.decompress(left, most)
            sink.write(piece)
            left = memoryview(member.unconsumed_tail)
            if not member.eof and not left and len(piece) < most:
                raise _refuse(Codec.GZIP, "a whole gzip member", "its end is missing")
        left = memoryview(member.unused_data)
        if not _another_gzip_member(left):
            return


def _another_gzip_member(data: memoryview) -> bool:
    """Return whether `data`, behind a gzip member, begins another one. Java ignores all else."""
    if len(data) <= _GZIP_LEAST_MEMBER or bytes(data[:3]) != _GZIP_START:
        return False
    flags, at = data[3], _GZIP_FIXED
    try:
        if flags & _GZIP_EXTRA:
            at += 2 + struct.unpack_from("<H", data, at)[0]
        for flag in (_GZIP_NAME, _GZIP_COMMENT):
            if flags & flag:
                at = bytes(data).index(b"\0", at) + 1
        if flags & _GZIP_CRC:
            (crc,) = struct.unpack_from("<H", data, at)
            return bool(crc == zlib.crc32(data[:at]) & 0xFFFF)
    except (struct.error, ValueError):  # the end of the data is inside of the header
        return False
    return at <= len(data)


def _snappy(sink: Sink, data: memoryview) -> None:
    at = len(_SNAPPY_HEADER)
    if len(data) < at or bytes(data[: len(_SNAPPY_MAGIC)]) != _SNAPPY_MAGIC:
        _snappy_block(sink, data)
        return
    # Java does not look at the versions in the first header, and ignores up to 3 bytes at the end.
    while len(data) - at >= _SNAPPY_SIZE:
        if bytes(data[at : at + _SNAPPY_SIZE]) == _SNAPPY_MAGIC[:_SNAPPY_SIZE]:
            _check_snappy_header(data[at : at + len(_SNAPPY_HEADER)])
            at += len(_SNAPPY_HEADER)
            continue
        (size,) = struct.unpack_from(">i", data, at)
        at += _SNAPPY_SIZE
        if not 0 <= size <= len(data) - at:
            raise _refuse(
                Codec.SNAPPY, f"a chunk of at most {len(data) - at} bytes", f"a size of {size}"
            )
        _snappy_block(sink, data[at : at + size])
        at += size


def _check_snappy_header(header: memoryview) -> None:
    """Check the header of another stream. With another second half of the magic, Java skips it."""
    if len(header) < len(_SNAPPY_HEADER):
        raise _refuse(Codec.SNAPPY, f"a header of {len(_SNAPPY_HEADER)} bytes", f"{len(header)}")
    (version,) = struct.unpack_from(">i", header, len(_SNAPPY_MAGIC))
    if version < 1 and bytes(header[: len(_SNAPPY_MAGIC)]) == _SNAPPY_MAGIC:
        raise _refuse(Codec.SNAPPY, "version 1 or more", f"version {version}")


def _snappy_block(sink: Sink, block: memoryview) -> None:
    raw = cramjam.snappy.decompress_raw_len(block)
    if raw > _SNAPPY_DENSEST * len(block):
        raise _refuse(
            Codec.SNAPPY, "a size that the block can hold", f"{raw} bytes in {len(block)}"
        )
    got = int(cramjam.snappy.decompress_raw_into(block, sink.reserve(raw)))
    if got != raw:
        raise _refuse(Codec.SNAPPY, f"{raw} bytes", f"{got}")
    sink.commit(got)


def _lz4(sink: Sink, data: memoryview, magic: int) -> None:
    if data[: len(_LZ4_HEADER)] == _LZ4_HEADER:  # Java's and Winnow's own
        at, block_size, block_sum, content_sum = len(_LZ4_HEADER), LZ4_BLOCK, 0, 0
    else:
        at, block_size, block_sum, content_sum = _lz4_header(data, magic)
    while True:
        if at + 4 > len(data):
            raise _refuse(Codec.LZ4, "an end mark", "the end of the data")
        word = struct.unpack_from("<I", data, at)[0]
        at += 4
        size = word & ~_LZ4_STORED
        if size == 0:
            break
        end = at + size
        if size > block_size or end + block_sum > len(data):
            raise _refuse(
                Codec.LZ4, f"a block of at most {min(block_size, len(data) - at)} bytes", f"{size}"
            )
        block = data[at:end]
        if block_sum and xxhash32(bytes(block)) != struct.unpack_from("<I", data, end)[0]:
            raise _refuse(Codec.LZ4, "a block that matches its checksum", "one that does not")
        if word & _LZ4_STORED:
            sink.write(block)
        else:
            # The room may be smaller than a block. Then the library refuses a block that does not
            # fit, as it should. Without a size it would read the block's first bytes as one.
            room = len(sink.reserve(min(block_size, sink.room), at_most=True))
            sink.write(lz4.block.decompress(block, uncompressed_size=room))
        at = end + block_sum
    # Java reads no further, and does not look at the value of this checksum.
    if at + content_sum > len(data):
        raise _refuse(Codec.LZ4, "a checksum after the end mark", "the end of the data")


def _lz4_header(data: memoryview, magic: int) -> tuple[int, int, int, int]:
    """Return the end of the header, the largest block, the sizes of block and content checksums."""
    if len(data) < len(_LZ4_HEADER) or bytes(data[:4]) != _LZ4_MAGIC:
        raise _refuse(Codec.LZ4, "a frame's magic", bytes(data[:4]).hex() or "nothing")
    flags, size_id = int(data[4]), int(data[5])
    after = 6 + (8 if flags & _LZ4_SIZE else 0)
    if (
        flags >> 6 != 1
        or flags & _LZ4_RESERVED
        or size_id & 0x8F
        or size_id >> 4 < _LZ4_SMALLEST_BLOCK_ID
    ):
        raise _refuse(Codec.LZ4, "flags of a frame of version 1", f"{flags:#04x}, {size_id:#04x}")
    if not flags & _LZ4_INDEPENDENT:
        raise _refuse(Codec.LZ4, "independent blocks", "linked blocks, which Kafka also refuses")
    if after >= len(data):
        raise _refuse(Codec.LZ4, "a header checksum", "the end of the data")
    if magic > 0 and _header_checksum(bytes(data[4:after])) != data[after]:
        raise _refuse(Codec.LZ4, "a header that matches its checksum", "one that does not")
    block_sum = 4 if flags & _LZ4_BLOCK_SUM else 0
    return after + 1, 1 << (8 + 2 * (size_id >> 4)), block_sum, 4 if flags & _LZ4_SUM else 0


@lru_cache(maxsize=64)
def _header_checksum(descriptor: bytes) -> int:
    return xxhash32(descriptor) >> 8 & 0xFF


def _zstd(sink: Sink, data: memoryview) -> None:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    at, first = _after_skippable_frames(data, 0), True
    while first or at < len(data):
        try:
            end, most = _zstd_frame(data, at)
        except CorruptLogError:
            if first:
                raise
            _zstd_cut(sink, data[at:])
            return
        declared = zstandard.frame_content_size(data[at:end])
        if declared > most:
            raise _refuse(
                Codec.ZSTD,
                f"a content size of at most {most}, the limit of its blocks",
                f"{declared}",
            )
        if declared > sink.room:
            raise sink.overflow()
        # One byte above the limit is enough to know that it is exceeded.
        room = max(1, min(most, sink.room + 1))
        try:
            raw = _local.decompressor.decompress(data[at:end], max_output_size=room)
        except zstandard.ZstdError as error:
            if room < most and str(error).endswith(_ZSTD_NO_ROOM):
                raise sink.overflow() from None
            raise
        sink.write(raw)
        at, first = _after_skippable_frames(data, end), False


def _zstd_cut(sink: Sink, data: memoryview) -> None:
    """Append what there is of a cut later frame. Kafka's reader accepts this as the end."""
    with _local.decompressor.stream_reader(data) as reader:
        while piece := reader.read(min(_PIECE, sink.room + 1)):
            sink.write(piece)


def _zstd_frame(data: memoryview, start: int) -> tuple[int, int]:
    """Return (end, most raw bytes) of the frame at `start`, from its blocks' headers alone."""
    if bytes(data[start : start + 4]) != _ZSTD_MAGIC:
        raise _refuse(
            Codec.ZSTD, "a frame's magic", bytes(data[start : start + 4]).hex() or "nothing"
        )
    at = start + zstandard.frame_header_size(data[start : start + 18])
    checksum = 4 if data[start + 4] & 0x04 else 0
    most = 0
    while True:
        if at + 3 > len(data):
            raise _refuse(Codec.ZSTD, "a block", "the end of the data")
        header = int.from_bytes(bytes(data[at : at + 3]), "little")
        kind, size = header >> 1 & 3, header >> 3
        at += 3 + (1 if kind == _ZSTD_RLE else size)
        most += size if kind in (_ZSTD_RAW, _ZSTD_RLE) else _ZSTD_BLOCK
        if kind == _ZSTD_RESERVED or size > _ZSTD_BLOCK or at + checksum > len(data):
            raise _refuse(
                Codec.ZSTD, "a block inside the data", f"a {size}-byte block of kind {kind}"
            )
        if header & 1:
            return at + checksum, most


def _after_skippable_frames(data: memoryview, start: int) -> int:
    """Return the position after the skippable zstd frames at `start`; beyond the data if the last
    one is cut.

    Raises ValueError for a size that zstd refuses.
    """
    at = start
    while at + _SKIPPABLE_HEADER <= len(data):
        magic, size = struct.unpack_from("<II", data, at)
        if magic & ~0xF != _SKIPPABLE:
            break
        if size >= _SKIPPABLE_MOST:
            raise ValueError(f"a skippable frame of {size} bytes")
        at += _SKIPPABLE_HEADER + size
    return at
