"""Walk over the headers of batches, check the batches' checksums, and search for a batch: see the
functions of the same purpose in `winnow.wire.walk`, and the plain twins in `winnow.wire.plain`.
"""

from __future__ import annotations

import numpy as np

from winnow.compiled import njit
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    ATTRIBUTES_V0_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    BITS_V0,
    BITS_V1,
    CRC_AT,
    CRC_V0_AT,
    FRAME_SIZE,
    FRAME_TO_MAGIC,
    HEADER_V2_SIZE,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_OFFSET,
    MAX_TIMESTAMP_AT,
    MOST_SUMMED,
    NO_PRODUCER,
    NO_TIMESTAMP,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    RECORD_OVERHEAD_V0,
    SIZE_V0,
    SIZE_V1,
    TIMESTAMP_V1_AT,
    WalkStatus,
)
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.kernels.crc import crc32_part, crc32c
from winnow.wire.kernels.memory import load_be32, load_be64, load_byte, load_int16, load_int32
from winnow.wire.kernels.record import kernel, prefetch

_AHEAD = 16
"""Batches, if the next ones are as large as this one: with small batches, a walk mostly waits for
memory.
"""


@njit(cache=True, nogil=True)
def walk(buf: Bytes, start: int, least_offset: int, out: Rows) -> tuple[int, int, WalkStatus]:  # noqa: C901, PLR0911, PLR0912, PLR0915 - one walk
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
            if magic == 1 and size < SIZE_V1:
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
                BITS_V1 if magic == 1 else BITS_V0
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


@njit(cache=True, nogil=True)
def first_bad_crc(buf: Bytes, batches: Rows) -> int:
    for i in range(batches.size):
        row = batches[i]
        start, size = row.position, row.size
        least = HEADER_V2_SIZE if row.magic == MAX_MAGIC else SIZE_V0
        if start < 0 or size < least or size > buf.size or start > buf.size - size:
            return i
        if row.magic == MAX_MAGIC:
            crc = crc32c(buf, start + ATTRIBUTES_AT, start + size)
        else:
            crc = crc32_part(buf, start + MAGIC_AT, start + size)
        if np.int64(crc) != np.int64(row.crc):
            return i
    return -1


@kernel
def find_batch(buf: Bytes, start: int, least_offset: int, end_offset: int) -> int:
    budget = np.int64(MOST_SUMMED) * buf.size
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
        least = HEADER_V2_SIZE if magic == MAX_MAGIC else SIZE_V0
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
