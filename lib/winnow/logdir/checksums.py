"""The CRC-32C of a whole file, read a few MiB at a time."""

from __future__ import annotations

from winnow.storage.contract import Storage
from winnow.wire.crc import crc32c_extended

_READ_BYTES = 8 << 20


def file_crc32c(storage: Storage, path: str) -> int:
    """Return the CRC-32C of all bytes in the file."""
    checksum, at = 0, 0
    while piece := storage.read_range(path, at, _READ_BYTES):
        checksum = crc32c_extended(checksum, piece)
        at += len(piece)
    return checksum
