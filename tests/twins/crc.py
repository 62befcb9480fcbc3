"""The plain twin of `winnow.wire.crc.crc32c`: one byte at a time."""

from __future__ import annotations

from winnow.wire.buffers import Buffer

_POLYNOMIAL = 0x82F63B78


def _entry(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc


_TABLE = [_entry(byte) for byte in range(256)]


def crc32c_plain(data: Buffer) -> int:
    crc = 0xFFFFFFFF
    for byte in bytes(data):
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
