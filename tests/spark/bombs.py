"""Small batches that decompress to a very large number of bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import zstandard

from tests.log_writer.dir_writer import LogDirWriter
from tests.twins.crc import crc32c_plain
from tests.twins.encoding import encode_batch, write_varint
from winnow.wire.batch import ATTRIBUTES_AT, CRC_AT, FRAME_SIZE, HEADER_V2_SIZE, Codec
from winnow.wire.plain import Record

_PIECE = bytes(1 << 20)


def bomb(offset: int, raw_bytes: int) -> bytes:
    """A zstd batch with one record, of key `bomb`, whose value is about so many zeros."""
    record = Record(offset, 1_700_000_000_000, b"bomb", b"")
    header = encode_batch([record], leader_epoch=0)[:HEADER_V2_SIZE]
    pieces = raw_bytes // len(_PIECE)
    before, size = bytearray(b"\0\0\0"), bytearray()  # attributes, timestamp delta, offset delta
    write_varint(before, 4)
    before += b"bomb"
    write_varint(before, pieces * len(_PIECE))
    write_varint(size, len(before) + pieces * len(_PIECE) + 1)
    compressor = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
    payload = compressor.compress(bytes(size + before))
    payload += b"".join(compressor.compress(_PIECE) for _ in range(pieces))
    payload += compressor.compress(b"\0") + compressor.flush()
    data = bytearray(header + payload)
    struct.pack_into(">i", data, 8, len(data) - FRAME_SIZE)
    struct.pack_into(">h", data, ATTRIBUTES_AT, int(Codec.ZSTD))
    struct.pack_into(">I", data, CRC_AT, crc32c_plain(bytes(data[ATTRIBUTES_AT:])))
    return bytes(data)


def log_dir_with_bomb(path: Path, *, raw_bytes: int, sound: int) -> None:
    """Partition `t-0` has the bomb; `sound` more have two values of a key each."""
    with LogDirWriter(path, clock=lambda: 1_700_000_000_000) as written:
        for number in range(sound + 1):
            log = written.partition("t", number)
            for _ in range(2):
                log.append_records([Record(0, 1_700_000_000_000, b"k", b"v" * 100)])
            if number == 0:
                log.append(bomb(log.log_end_offset, raw_bytes))
            log.roll()
            log.append_records([Record(0, 1_700_000_000_000, b"k", b"last")])
