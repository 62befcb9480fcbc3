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

from winnow.errors import CorruptLogError
from winnow.state import ProducerEntry
from winnow.storage.contract import Storage
from winnow.wire.crc import crc32c_extended

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
    actual = crc32c_extended(0, data[_CRC_COVERS_FROM:])
    if crc != actual:
        raise _corrupt(f"CRC {actual:08x}", f"{crc:08x}", where)
    return tuple(ProducerEntry(*fields) for fields in ENTRY.iter_unpack(data[HEAD.size :]))


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [ENTRY.pack(*astuple(entry)) for entry in entries]
    covered = len(packed).to_bytes(4) + b"".join(packed)
    return VERSION.to_bytes(2) + crc32c_extended(0, covered).to_bytes(4) + covered


def _corrupt(expected: str, found: str, where: str) -> CorruptLogError:
    return CorruptLogError(
        "a damaged producer snapshot", expected=expected, found=found, where=where
    )
