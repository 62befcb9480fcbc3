"""What may follow the first member or frame of a compressed payload, as Java reads it (S2.4)."""

from __future__ import annotations

import struct
import zlib

_GZIP_START = b"\x1f\x8b\x08"
_GZIP_FIXED = 10
_GZIP_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 0x02, 0x04, 0x08, 0x10
_GZIP_LEAST_MEMBER = 18
_SKIPPABLE = 0x184D2A50
_SKIPPABLE_HEADER = 8
_SKIPPABLE_MOST = 2**32 - _SKIPPABLE_HEADER


def another_gzip_member(data: memoryview) -> bool:
    """Return whether `data`, behind a gzip member, begins another one. Java ignores all else."""
    if len(data) <= _GZIP_LEAST_MEMBER or bytes(data[:3]) != _GZIP_START:
        return False
    flags, at = data[3], _GZIP_FIXED
    if flags & _GZIP_EXTRA:
        if at + 2 > len(data):
            return False
        at += 2 + struct.unpack_from("<H", data, at)[0]
    text = bytes(data[at:]) if flags & (_GZIP_NAME | _GZIP_COMMENT) else b""
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & flag:
            end = text.find(b"\0")
            if end < 0:
                return False
            at, text = at + end + 1, text[end + 1 :]
    if flags & _GZIP_CRC:
        if (
            at + 2 > len(data)
            or struct.unpack_from("<H", data, at)[0] != zlib.crc32(data[:at]) & 0xFFFF
        ):
            return False
        at += 2
    return at <= len(data)


def after_skippable_frames(data: memoryview, start: int) -> int:
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
