"""Write records, v2 headers and entries of v0 and v1 in jitted code (S2.1, S2.2). The callers have
checked the room.
"""

from __future__ import annotations

from typing import Any

from winnow.wire.batch import (
    ATTRIBUTES_AT,
    ATTRIBUTES_V0_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    CRC_V0_AT,
    FRAME_SIZE,
    KEY_V0_AT,
    KEY_V1_AT,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    TIMESTAMP_V1_AT,
)
from winnow.wire.buffers import Bytes
from winnow.wire.kernels.crc import crc32_part, crc32c
from winnow.wire.kernels.memory import copy_bytes, store_be16, store_be32, store_be64, store_byte
from winnow.wire.kernels.record import kernel
from winnow.wire.kernels.varint import read_varint, size_of_varint, write_varint

GROWTH = 13
"""Most bytes by which a rewritten record grows: 9 of its timestamp delta, 4 of its length."""

ENTRY_SIZE = KEY_V1_AT + 8
"""Most bytes of an entry besides its key and value."""


@kernel
def write_record(
    area: Bytes,
    pos: int,
    tail: int,
    after: int,
    canonical: bool,
    old_delta: int,
    timestamp_delta: int,
    offset_delta: int,
    shift: int,
    out: Bytes,
    at: int,
) -> int:
    """Write the record at pos..after with another timestamp delta, and an offset delta that is less
    by `shift` of 0 or more. Return its end in `out`, which has room for the record and GROWTH.
    """
    if canonical and shift == 0:
        # Computed from the back, because the length before it has no fixed size.
        delta_at = tail - size_of_varint(offset_delta) - size_of_varint(old_delta)
        if size_of_varint(timestamp_delta) == size_of_varint(old_delta):
            copy_bytes(out, at, area, pos, after - pos)
            write_varint(out, at + delta_at - pos, timestamp_delta)
            return at + after - pos
    offset_delta -= shift
    tail_size = after - tail if canonical else _tail_size(area, tail, after)
    size = 1 + size_of_varint(timestamp_delta) + size_of_varint(offset_delta) + tail_size
    at = write_varint(out, at, size)
    store_byte(out, at, 0)
    at = write_varint(out, at + 1, timestamp_delta)
    at = write_varint(out, at, offset_delta)
    if canonical:
        copy_bytes(out, at, area, tail, tail_size)
        return at + tail_size
    at, pos = _write_field(area, tail, after, out, at)
    at, pos = _write_field(area, pos, after, out, at)
    headers, pos = read_varint(area, pos, after)
    at = write_varint(out, at, headers)
    for _ in range(2 * headers):
        at, pos = _write_field(area, pos, after, out, at)
    return at


@kernel
def _write_field(area: Bytes, pos: int, after: int, out: Bytes, at: int) -> tuple[int, int]:
    """Write one length as Java does, and its bytes. Return (end in `out`, end in the area)."""
    size, start = read_varint(area, pos, after)
    at = write_varint(out, at, max(size, -1))
    size = max(size, 0)
    copy_bytes(out, at, area, start, size)
    return at + size, start + size


@kernel
def _tail_size(area: Bytes, tail: int, after: int) -> int:
    """Return the bytes from the key's length to the last header, as Java writes them."""
    pos = tail
    total = 0
    for _ in range(2):
        size, pos = read_varint(area, pos, after)
        total += size_of_varint(max(size, -1)) + max(size, 0)
        pos += max(size, 0)
    headers, pos = read_varint(area, pos, after)
    total += size_of_varint(headers)
    for _ in range(2 * headers):
        size, pos = read_varint(area, pos, after)
        total += size_of_varint(max(size, -1)) + max(size, 0)
        pos += max(size, 0)
    return total


@kernel
def write_header(out: Bytes, at: int, row: Any) -> None:
    """Write the v2 header of a batch whose records are there, and set its CRC, also in `row`."""
    store_be64(out, at, row.base_offset)
    store_be32(out, at + 8, row.size - FRAME_SIZE)
    store_be32(out, at + FRAME_SIZE, int(row.leader_epoch))
    store_byte(out, at + MAGIC_AT, MAX_MAGIC)
    store_be16(out, at + ATTRIBUTES_AT, int(row.attributes))
    store_be32(out, at + LAST_OFFSET_DELTA_AT, row.last_offset - row.base_offset)
    store_be64(out, at + BASE_TIMESTAMP_AT, row.base_timestamp)
    store_be64(out, at + MAX_TIMESTAMP_AT, row.max_timestamp)
    store_be64(out, at + PRODUCER_ID_AT, row.producer_id)
    store_be16(out, at + PRODUCER_EPOCH_AT, int(row.producer_epoch))
    store_be32(out, at + BASE_SEQUENCE_AT, int(row.base_sequence))
    store_be32(out, at + RECORD_COUNT_AT, int(row.record_count))
    row.crc = crc32c(out, at + ATTRIBUTES_AT, at + row.size)
    store_be32(out, at + CRC_AT, int(row.crc))


@kernel
def write_entry(
    out: Bytes,
    at: int,
    magic: int,
    attributes: int,
    offset: int,
    timestamp: int,
    area: Bytes,
    key_at: int,
    key_size: int,
    value_at: int,
    value_size: int,
) -> int:
    """Write an entry of v0, which has no timestamp, or of v1. Key and value are in `area`; a size
    of -1 is null. Return its end in `out`.
    """
    to = at + (KEY_V1_AT if magic == 1 else KEY_V0_AT)
    end = to + 8 + max(key_size, 0) + max(value_size, 0)
    store_be64(out, at, offset)
    store_be32(out, at + 8, end - at - FRAME_SIZE)
    store_byte(out, at + MAGIC_AT, magic)
    store_byte(out, at + ATTRIBUTES_V0_AT, attributes)
    if magic == 1:
        store_be64(out, at + TIMESTAMP_V1_AT, timestamp)
    store_be32(out, to, key_size)
    copy_bytes(out, to + 4, area, key_at, max(key_size, 0))
    to += 4 + max(key_size, 0)
    store_be32(out, to, value_size)
    copy_bytes(out, to + 4, area, value_at, max(value_size, 0))
    store_be32(out, at + CRC_V0_AT, int(crc32_part(out, at + MAGIC_AT, end)))
    return end
