"""The plain twins of the header walk, and of what is built on it."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from tests.twins.crc import crc32c_plain
from winnow.errors import CorruptLogError
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    ATTRIBUTES_V0_AT,
    BATCH,
    CRC_V0_AT,
    FRAME,
    FRAME_SIZE,
    HEADER_V2,
    HEADER_V2_SIZE,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    MAX_MAGIC,
    NO_TIMESTAMP,
    RECORD_COUNT_AT,
    RECORD_OVERHEAD_V0,
    TIMESTAMP_V1_AT,
)
from winnow.wire.buffers import Buffer, Bytes, Rows, as_bytes
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES, inflate
from winnow.wire.plain import Record, read_records
from winnow.wire.walk import (
    _SIZE_V0,
    _SIZE_V1,
    _V0_BITS,
    _V1_BITS,
    FRAME_TO_MAGIC,
    MAX_OFFSET,
    WalkStatus,
    describe,
    first_bad_crc,
)


def decode_batch(
    buf: Buffer, position: int, *, limit: int = MAX_DECOMPRESSED_BYTES
) -> tuple[Rows, list[Record]]:
    """Return the header of the batch at `position` as stored (one BATCH row, shape ()), and its
    records.

    Raises CorruptLogError if there is no sound batch there; this includes its CRC.
    """
    data = as_bytes(buf)
    rows = np.zeros(1, BATCH)
    count, _, status = walk_batches_plain(data, position, 0, rows)
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
    return read_header(data, position), read_records(blocks.area(0), blocks.rows[0])


def walk_batches_plain(
    buf: Buffer, start: int, least_offset: int, out: Rows
) -> tuple[int, int, WalkStatus]:
    """The plain twin of `walk_batches`."""
    data, pos, least = as_bytes(buf), start, least_offset
    for count in range(len(out)):
        status = _fault(data, pos, least)
        if status is not None:
            return count, pos, status
        out[count] = read_header(data, pos)
        least = int(out[count]["last_offset"]) + 1
        pos += int(out[count]["size"])
    return len(out), pos, WalkStatus.FULL


def _fault(data: Bytes, pos: int, least: int) -> WalkStatus | None:  # noqa: PLR0911 - one return per reason
    left = len(data) - pos
    if left == 0:
        return WalkStatus.END
    if pos < 0 or left <= FRAME_TO_MAGIC:
        return WalkStatus.TORN
    offset, length = FRAME.unpack_from(data.data, pos)
    if length < RECORD_OVERHEAD_V0:
        return WalkStatus.BAD_SIZE
    if FRAME_SIZE + length > left:
        return WalkStatus.TORN
    magic = data[pos + MAGIC_AT]
    if magic > MAX_MAGIC:
        return WalkStatus.BAD_MAGIC
    if FRAME_SIZE + length < (_SIZE_V0, _SIZE_V1, HEADER_V2_SIZE)[magic]:
        return WalkStatus.BAD_SIZE
    delta = 0
    if magic == MAX_MAGIC:
        (delta,) = struct.unpack_from(">i", data.data, pos + LAST_OFFSET_DELTA_AT)
        (count,) = struct.unpack_from(">i", data.data, pos + RECORD_COUNT_AT)
        if delta < 0 or count < 0:
            return WalkStatus.BAD_COUNT
    if not max(least, 0) <= offset <= offset + delta <= MAX_OFFSET:
        return WalkStatus.OUT_OF_ORDER
    return None


def read_header(data: Bytes, pos: int) -> Rows:
    """Return the header at `pos` as one BATCH row (shape ()). The caller knows that it exists and
    is sound.
    """
    row = np.zeros((), BATCH)
    offset, length = FRAME.unpack_from(data.data, pos)
    row["position"], row["size"], row["magic"] = pos, FRAME_SIZE + length, data[pos + MAGIC_AT]
    row["base_offset"] = row["last_offset"] = offset
    if data[pos + MAGIC_AT] == MAX_MAGIC:
        (_, _, epoch, _, crc, attributes, delta, base, largest, pid, pid_epoch, sequence, count) = (
            HEADER_V2.unpack_from(data.data, pos)
        )
        row["leader_epoch"], row["crc"], row["attributes"] = epoch, crc, attributes
        row["last_offset"] = offset + delta
        row["base_timestamp"], row["max_timestamp"] = base, largest
        row["producer_id"], row["producer_epoch"], row["base_sequence"] = pid, pid_epoch, sequence
        row["record_count"] = count
        return row
    row["crc"] = struct.unpack_from(">I", data.data, pos + CRC_V0_AT)[0]
    row["attributes"] = data[pos + ATTRIBUTES_V0_AT] & (_V1_BITS if row["magic"] == 1 else _V0_BITS)
    timestamp = (
        struct.unpack_from(">q", data.data, pos + TIMESTAMP_V1_AT)[0]
        if row["magic"] == 1
        else NO_TIMESTAMP
    )
    row["base_timestamp"] = row["max_timestamp"] = timestamp
    for name in ("producer_id", "leader_epoch", "base_sequence", "record_count", "producer_epoch"):
        row[name] = -1
    return row


def find_batch_plain(buf: Buffer, start: int, least_offset: int, end_offset: int) -> int:
    """The plain twin of `find_batch`: tries every byte."""
    data = as_bytes(buf)
    rows = np.zeros(1, BATCH)
    for pos in range(max(start, 0), len(data)):
        count, _, _ = walk_batches_plain(data, pos, least_offset, rows)
        if count and rows[0]["base_offset"] < end_offset and first_bad_crc(data, rows) < 0:
            return pos
    return -1
