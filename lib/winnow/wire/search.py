"""Find the next batch with a sound header and the right CRC after bytes that are not a batch."""

from __future__ import annotations

import numpy as np

from winnow.wire.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    MAX_MAGIC,
    RECORD_COUNT_AT,
    RECORD_OVERHEAD_V0,
)
from winnow.wire.buffers import Buffer, Bytes, as_bytes
from winnow.wire.crc import crc32_part, crc32c
from winnow.wire.kernels.memory import load_be32, load_be64, load_byte
from winnow.wire.kernels.record import kernel

_MOST_SUMMED = 32
"""Maximum bytes to checksum, as a multiple of the bytes searched: crafted bytes could require any
number of checksums.
"""


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
