"""Producer snapshots: the state of a log's producers as of an offset (S1.9).

version   int16   1
crc       uint32  CRC-32C of all bytes from here on
count     int32
entries   count of the 46 bytes of `ENTRY`
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import astuple
from functools import cache

from winnow.errors import CorruptLogError
from winnow.state import ProducerEntry
from winnow.storage.contract import Storage

HEAD = struct.Struct(">hIi")
"""version, crc, count"""
ENTRY = struct.Struct(">qhiqiqiq")
"""The fields of `ProducerEntry`, in its order."""

VERSION = 1
_CRC_COVERS_FROM = 6


def read_snapshot(storage: Storage, path: str) -> tuple[ProducerEntry, ...]:
    """Read a snapshot. Raises CorruptLogError where a broker uses the next older one."""
    return decode_snapshot(storage.read_bytes(path), where=path)


def decode_snapshot(data: bytes, *, where: str) -> tuple[ProducerEntry, ...]:
    if len(data) < HEAD.size:
        raise _corrupt(f"at least {HEAD.size} bytes", f"{len(data)}", where)
    version, crc, count = HEAD.unpack_from(data)
    if version != VERSION:
        raise _corrupt(f"version {VERSION}", str(version), where)
    if count < 0 or HEAD.size + count * ENTRY.size != len(data):
        raise _corrupt(
            f"{HEAD.size} bytes and {ENTRY.size} for each producer",
            f"{len(data)} for {count}",
            where,
        )
    actual = _crc32c(data[_CRC_COVERS_FROM:])
    if crc != actual:
        raise _corrupt(f"CRC {actual:08x}", f"{crc:08x}", where)
    return tuple(ProducerEntry(*fields) for fields in ENTRY.iter_unpack(data[HEAD.size :]))


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [ENTRY.pack(*astuple(entry)) for entry in entries]
    covered = len(packed).to_bytes(4) + b"".join(packed)
    return VERSION.to_bytes(2) + _crc32c(covered).to_bytes(4) + covered


def _corrupt(expected: str, found: str, where: str) -> CorruptLogError:
    return CorruptLogError(
        "a damaged producer snapshot", expected=expected, found=found, where=where
    )


def _crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    table = _table()
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    """CRC-32C (Castagnoli), reflected. Snapshots are small: a kernel costs more to start."""
    table = []
    for index in range(256):
        value = index
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)
