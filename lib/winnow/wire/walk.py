"""Walk from batch to batch through a log, reading only headers (S2), check the batches'
checksums, and find the next batch after bytes that are not one.

A walk never reads beyond the given bytes and never fails: it stops and says why. `describe` turns
the reason into an error for callers to whom it is one. A torn tail, for example, is not an error in
an active segment (S2).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from winnow.compiled import njit
from winnow.errors import CorruptLogError
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    ATTRIBUTES_V0_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CRC_AT,
    CRC_V0_AT,
    FRAME,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    LAST_OFFSET_DELTA_AT,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_TIMESTAMP_AT,
    NO_PRODUCER,
    NO_TIMESTAMP,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    RECORD_OVERHEAD_V0,
    RECORD_OVERHEAD_V1,
    TIMESTAMP_V1_AT,
)
from winnow.wire.buffers import Buffer, Bytes, Rows, as_bytes, as_rows
from winnow.wire.crc import crc32_part, crc32c
from winnow.wire.kernels.memory import load_be32, load_be64, load_byte, load_int16, load_int32
from winnow.wire.kernels.record import kernel, prefetch
from winnow.wire.record_faults import HINT


class WalkStatus(IntEnum):
    FULL = 0
    """No row left in `out`; continue at the next position."""
    END = 1
    """Exactly at the end of the bytes."""
    TORN = 2
    """Fewer bytes left than the size in the entry, or too few to hold a size."""
    BAD_SIZE = 3
    BAD_MAGIC = 4
    BAD_COUNT = 5
    """A negative record count or last offset delta."""
    OUT_OF_ORDER = 6
    """Offsets do not ascend, or are not valid offsets."""


FRAME_TO_MAGIC = MAGIC_AT + 1
MAX_OFFSET = 2**63 - 2
"""Largest offset of a record. The log then ends at 2^63-1. Kafka deletes a log that ends above."""

# Other bits mean nothing there (S2.1). They must not be read as those of v2.
_V0_BITS = CODEC_MASK
_V1_BITS = CODEC_MASK | LOG_APPEND_TIME
_SIZE_V0 = FRAME_SIZE + RECORD_OVERHEAD_V0
_SIZE_V1 = FRAME_SIZE + RECORD_OVERHEAD_V1
_AHEAD = 16
"""Batches, if the next ones are as large as this one: with small batches, a walk mostly waits for
memory.
"""
_MOST_SUMMED = 32
"""Maximum bytes to checksum per byte searched: hostile bytes could require any number."""


def walk_batches(
    buf: Buffer, start: int, least_offset: int, out: Rows
) -> tuple[int, int, WalkStatus]:
    """Fill `out` (BATCH rows) from byte `start` on. Return (rows filled, position of the next
    entry, why it stopped).

    `least_offset`: minimum for the first batch's base offset (v0, v1: offset). Each later batch
    must not begin below the next offset of the one before. If the status is neither FULL nor END,
    the position is that of the faulty entry.
    """
    return _walk(as_bytes(buf), start, least_offset, out)


@njit(cache=True, nogil=True)
def _walk(buf: Bytes, start: int, least_offset: int, out: Rows) -> tuple[int, int, WalkStatus]:  # noqa: C901, PLR0911, PLR0912, PLR0915 - one walk
    end = buf.size
    pos = start
    least = least_offset
    count = 0
    if start < 0:
        return count, pos, WalkStatus.TORN
    while count < out.size:
        left = end - pos
        if left <= 0:
            return count, pos, WalkStatus.END if left == 0 else WalkStatus.TORN
        if left <= FRAME_TO_MAGIC:
            return count, pos, WalkStatus.TORN
        offset = np.int64(load_be64(buf, pos))
        length = load_int32(buf, pos + 8)
        if length < RECORD_OVERHEAD_V0:
            return count, pos, WalkStatus.BAD_SIZE
        size = FRAME_SIZE + length
        if size > left:
            return count, pos, WalkStatus.TORN
        for line in range(3):
            prefetch(buf, pos + _AHEAD * size + 64 * line)
        magic = load_byte(buf, pos + MAGIC_AT)
        if magic > MAX_MAGIC:
            return count, pos, WalkStatus.BAD_MAGIC
        row = out[count]
        if magic == MAX_MAGIC:
            if size < HEADER_V2_SIZE:
                return count, pos, WalkStatus.BAD_SIZE
            delta = load_int32(buf, pos + LAST_OFFSET_DELTA_AT)
            records = load_int32(buf, pos + RECORD_COUNT_AT)
            if delta < 0 or records < 0:
                return count, pos, WalkStatus.BAD_COUNT
            if offset < least or offset < 0 or offset > MAX_OFFSET - delta:
                return count, pos, WalkStatus.OUT_OF_ORDER
            row.last_offset = offset + delta
            row.base_timestamp = np.int64(load_be64(buf, pos + BASE_TIMESTAMP_AT))
            row.max_timestamp = np.int64(load_be64(buf, pos + MAX_TIMESTAMP_AT))
            row.producer_id = np.int64(load_be64(buf, pos + PRODUCER_ID_AT))
            row.leader_epoch = load_int32(buf, pos + FRAME_SIZE)
            row.base_sequence = load_int32(buf, pos + BASE_SEQUENCE_AT)
            row.record_count = records
            row.crc = load_be32(buf, pos + CRC_AT)
            row.attributes = load_int16(buf, pos + ATTRIBUTES_AT)
            row.producer_epoch = load_int16(buf, pos + PRODUCER_EPOCH_AT)
        else:
            if magic == 1 and size < _SIZE_V1:
                return count, pos, WalkStatus.BAD_SIZE
            if offset < least or offset < 0 or offset > MAX_OFFSET:
                return count, pos, WalkStatus.OUT_OF_ORDER
            timestamp = np.int64(NO_TIMESTAMP)
            if magic == 1:
                timestamp = np.int64(load_be64(buf, pos + TIMESTAMP_V1_AT))
            row.last_offset = offset
            row.base_timestamp = timestamp
            row.max_timestamp = timestamp
            row.producer_id = NO_PRODUCER
            row.leader_epoch = -1
            row.base_sequence = -1
            row.record_count = -1
            row.crc = load_be32(buf, pos + CRC_V0_AT)
            row.attributes = load_byte(buf, pos + ATTRIBUTES_V0_AT) & (
                _V1_BITS if magic == 1 else _V0_BITS
            )
            row.producer_epoch = -1
        row.position = pos
        row.size = size
        row.base_offset = offset
        row.magic = magic
        least = row.last_offset + 1
        count += 1
        pos += size
    return count, pos, WalkStatus.FULL


def describe(
    status: WalkStatus, buf: Buffer, position: int, *, least_offset: int, file_name: str
) -> CorruptLogError:
    """Return the error for a walk's status other than FULL and END.

    `position`: where the walk stopped. `least_offset`: minimum of the entry's offset, i.e. the last
    offset of the last row + 1, or the argument of the walk. `file_name` is used only in the text.
    """
    data = as_bytes(buf)
    left = len(data) - position
    expected, found = {
        WalkStatus.TORN: ("a whole batch", f"{left} bytes up to the end"),
        WalkStatus.BAD_SIZE: (
            "a size that holds the header",
            _field(data, position + 8, 4, "size"),
        ),
        WalkStatus.BAD_MAGIC: (
            f"magic 0 to {MAX_MAGIC}",
            _field(data, position + MAGIC_AT, 1, "magic"),
        ),
        WalkStatus.BAD_COUNT: (
            "a record count and a last offset delta of 0 or more",
            " and ".join(
                (
                    _field(data, position + RECORD_COUNT_AT, 4, "count"),
                    _field(data, position + LAST_OFFSET_DELTA_AT, 4, "delta"),
                )
            ),
        ),
        WalkStatus.OUT_OF_ORDER: _out_of_order(data, position, least_offset),
    }[status]
    if status is WalkStatus.TORN and left >= FRAME_SIZE:
        expected += f" of {FRAME_SIZE + FRAME.unpack_from(data.data, position)[1]} bytes"
    return CorruptLogError(
        "batch can't be read",
        expected=expected,
        found=found,
        where=f"{file_name} at byte {position}",
        hint=HINT,
    )


def _out_of_order(data: Bytes, position: int, least_offset: int) -> tuple[str, str]:
    """Return the limit that is broken, and what was found."""
    first = last = int.from_bytes(data[position : position + 8].tobytes(), signed=True)
    if len(data) - position >= HEADER_V2_SIZE and data[position + MAGIC_AT] == MAX_MAGIC:
        at = position + LAST_OFFSET_DELTA_AT
        last += int.from_bytes(data[at : at + 4].tobytes(), signed=True)
    if first < least_offset:
        return f"an offset of {least_offset} or more", f"offset {first}"
    return f"offsets of {MAX_OFFSET} or less", f"offsets {first} to {last}"


def _field(data: Bytes, at: int, size: int, name: str) -> str:
    return f"{name} {int.from_bytes(bytes(data[at : at + size]), 'big', signed=True)}"


def first_bad_crc(buf: Buffer, batches: Rows) -> int:
    """Return the index of the first of `batches` that does not match its CRC, else -1 (S5.3)."""
    return int(_first_bad_crc(as_bytes(buf), as_rows(batches)))


@njit(cache=True, nogil=True)
def _first_bad_crc(buf: Bytes, batches: Rows) -> int:
    for i in range(batches.size):
        row = batches[i]
        start, size = row.position, row.size
        least = HEADER_V2_SIZE if row.magic == MAX_MAGIC else _SIZE_V0
        if start < 0 or size < least or size > buf.size or start > buf.size - size:
            return i
        if row.magic == MAX_MAGIC:
            crc = crc32c(buf, start + ATTRIBUTES_AT, start + size)
        else:
            crc = crc32_part(buf, start + MAGIC_AT, start + size)
        if np.int64(crc) != np.int64(row.crc):
            return i
    return -1


def find_batch(buf: Buffer, start: int, least_offset: int, end_offset: int) -> int:
    """Return the position of the first batch from `start` on that lies entirely in `buf` and
    matches its CRC; -1 for none.

    Its base offset (v0, v1: offset) is in [least_offset, end_offset). Without that bound, too many
    bytes look like a header.
    """
    return int(_find(as_bytes(buf), max(start, 0), max(least_offset, 0), end_offset))


@kernel
def _find(buf: Bytes, start: int, least_offset: int, end_offset: int) -> int:
    budget = np.int64(_MOST_SUMMED) * buf.size
    pos = start
    while pos <= buf.size - FRAME_SIZE - RECORD_OVERHEAD_V0:
        here = pos
        pos += 1
        magic = load_byte(buf, here + MAGIC_AT)
        if magic > MAX_MAGIC:
            continue
        offset = np.int64(load_be64(buf, here))
        if offset < least_offset or offset >= end_offset:
            continue
        size = load_be32(buf, here + 8) + FRAME_SIZE
        least = HEADER_V2_SIZE if magic == MAX_MAGIC else FRAME_SIZE + RECORD_OVERHEAD_V0
        if size < least or size > buf.size - here:
            continue
        if magic == MAX_MAGIC:
            signs = load_be32(buf, here + LAST_OFFSET_DELTA_AT) | load_be32(
                buf, here + RECORD_COUNT_AT
            )
            if signs & 0x80000000 != 0:
                continue
            found = np.int64(crc32c(buf, here + ATTRIBUTES_AT, here + size))
            stored = load_be32(buf, here + CRC_AT)
        else:
            found = np.int64(crc32_part(buf, here + MAGIC_AT, here + size))
            stored = load_be32(buf, here + FRAME_SIZE)
        if found == stored:
            return here
        budget -= size
        if budget < 0:
            return -1
    return -1
