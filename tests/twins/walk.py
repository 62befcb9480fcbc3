"""Plain twins of what is built on the header walk, whose own is `winnow.wire.plain`."""

from __future__ import annotations

import zlib

import numpy as np

from tests.twins.crc import crc32c_plain
from winnow.errors import CorruptLogError
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    BATCH,
    MAGIC_AT,
    MAX_MAGIC,
    WalkStatus,
)
from winnow.wire.buffers import Buffer, Rows, as_bytes
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES, inflate
from winnow.wire.plain import Record, read_records, walk_batches
from winnow.wire.walk import describe, first_bad_crc


def decode_batch(
    buf: Buffer, position: int, *, limit: int = MAX_DECOMPRESSED_BYTES
) -> tuple[Rows, list[Record]]:
    """Return the header of the batch at `position` as stored (one BATCH row, shape ()), and its
    records.

    Raises CorruptLogError if there is no sound batch there; this includes its CRC.
    """
    data = as_bytes(buf)
    rows = np.zeros(1, BATCH)
    count, _, status = walk_batches(data, position, 0, rows)
    if count == 0:
        if status is WalkStatus.END:
            status = WalkStatus.TORN
        raise describe(status, data, position, least_offset=0, file_name="buffer")
    row = rows[0]
    legacy = row["magic"] < MAX_MAGIC
    covered = data[position + (MAGIC_AT if legacy else ATTRIBUTES_AT) : position + int(row["size"])]
    crc = zlib.crc32(covered.data) if legacy else crc32c_plain(covered)
    if crc != row["crc"]:
        raise CorruptLogError(
            "wrong CRC", expected=str(row["crc"]), found=str(crc), where=f"at byte {position}"
        )
    blocks = inflate(data, rows, limit=limit)
    return rows[0], read_records(blocks.area(0), blocks.rows[0])


def find_batch_plain(buf: Buffer, start: int, least_offset: int, end_offset: int) -> int:
    """The plain twin of `find_batch`: tries every byte."""
    data = as_bytes(buf)
    rows = np.zeros(1, BATCH)
    for pos in range(max(start, 0), len(data)):
        count, _, _ = walk_batches(data, pos, least_offset, rows)
        if count and rows[0]["base_offset"] < end_offset and first_bad_crc(data, rows) < 0:
            return pos
    return -1
