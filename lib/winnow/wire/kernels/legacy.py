"""Convert records of message formats v0 and v1 to v2, in jitted code (S2.1).

Every length is checked against the end of its entry before use, and that against the end of its
container.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import (
    ATTRIBUTES_V0_AT,
    CODEC_MASK,
    CRC_V0_AT,
    FRAME_SIZE,
    KEY_V0_AT,
    KEY_V1_AT,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_OFFSET,
    MAX_OFFSET_SPAN,
    NO_TIMESTAMP,
    RECORD_OVERHEAD_V0,
    RECORD_OVERHEAD_V1,
    TIMESTAMP_V1_AT,
)
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.kernels.crc import crc32_part
from winnow.wire.kernels.memory import (
    copy_bytes,
    load_be32,
    load_be64,
    load_byte,
    load_int32,
    store_byte,
)
from winnow.wire.kernels.record import kernel
from winnow.wire.kernels.varint import size_of_varint, write_varint
from winnow.wire.record_faults import Fault


@kernel
def _signed64(value: np.uint64) -> int:
    return np.int64(value)  # type: ignore[return-value]


@kernel
def _hop(area: Bytes, begin: int, end: int) -> tuple[int, int, int, int]:
    """Walk from frame to frame. Return (fault, position, entries, stored offset of the last)."""
    pos = begin
    count = 0
    last = -1
    if begin < 0 or begin > end or end > area.size:
        return Fault.ENTRY_AREA, pos, count, last
    while pos < end:
        if end - pos < FRAME_SIZE + RECORD_OVERHEAD_V0:
            return Fault.ENTRY_SIZE, pos, count, last
        length = load_int32(area, pos + 8)
        if length < RECORD_OVERHEAD_V0 or length > end - pos - FRAME_SIZE:
            return Fault.ENTRY_SIZE, pos, count, last
        last = _signed64(load_be64(area, pos))
        if last < 0:
            return Fault.ENTRY_ORDER, pos, count, last
        count += 1
        pos += FRAME_SIZE + length
    return (Fault.NO_ENTRY if count == 0 else 0), pos, count, last


@kernel
def convert(  # noqa: C901, PLR0911, PLR0912, PLR0915 - one pass
    raw: Bytes,
    inner: Bytes,
    wrapped: NDArray[np.bool_],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    batches: Rows,
    out: NDArray[np.uint8],
    rows: Rows,
    starts: NDArray[np.int64],
    mixed: NDArray[np.bool_],
) -> tuple[int, int, int]:
    """Write the records of all v0 and v1 batches as v2 records into `out`, and their headers into
    `rows`.

    The entries of batch i lie at begin[i]..end[i]: in `inner` if it is a wrapper, else it is its
    own only entry, in `raw`. `out` has 5/4 of their total size. `starts` (n + 1): where each
    batch's records are in `out`. `rows` is a copy of `batches`. `mixed`: set where an entry is of
    another format than its wrapper. Returns (fault, row of its batch, position of the entry).
    """
    at = 0
    least = np.int64(0)
    for i in range(batches.size):
        starts[i] = at
        row = batches[i]
        if row.magic == MAX_MAGIC:
            if row.base_offset < least:
                return Fault.OVERLAP, i, begin[i]
            least = row.last_offset + 1
            continue
        area = inner if wrapped[i] else raw
        stop = end[i]
        fault, pos, count, last_inner = _hop(area, begin[i], stop)
        if fault != 0:
            return fault, i, pos
        log_append = (int(row.attributes) & LOG_APPEND_TIME) != 0
        shift = np.int64(0)
        # Some versions of librdkafka wrote a wrapper offset of 0. Then the inner offsets are
        # absolute.
        if wrapped[i] and row.magic == 1 and row.last_offset != 0:
            if row.last_offset < last_inner:
                return Fault.WRAPPER_OFFSET, i, begin[i]
            shift = row.last_offset - last_inner
        elif wrapped[i] and row.magic == 0 and row.last_offset < last_inner:
            return Fault.WRAPPER_OFFSET, i, begin[i]
        pos = begin[i]
        first = np.int64(0)
        first_timestamp = np.int64(0)
        previous = np.int64(-1)
        for n in range(count):
            if pos > stop - FRAME_SIZE - RECORD_OVERHEAD_V0:
                return Fault.ENTRY_SIZE, i, pos
            length = load_int32(area, pos + 8)
            if length < RECORD_OVERHEAD_V0 or length > stop - pos - FRAME_SIZE:
                return Fault.ENTRY_SIZE, i, pos
            after = pos + FRAME_SIZE + length
            magic = load_byte(area, pos + MAGIC_AT)
            if magic > 1 or (magic == 1 and length < RECORD_OVERHEAD_V1):
                return Fault.MAGIC, i, pos
            if magic != row.magic:
                mixed[i] = True
            if np.int64(crc32_part(area, pos + MAGIC_AT, after)) != np.int64(
                load_be32(area, pos + CRC_V0_AT)
            ):
                return Fault.ENTRY_CRC, i, pos
            if load_byte(area, pos + ATTRIBUTES_V0_AT) & CODEC_MASK != 0:
                return Fault.NESTED, i, pos
            offset = np.int64(load_be64(area, pos)) + shift
            if offset <= previous or offset > MAX_OFFSET:
                return Fault.ENTRY_ORDER, i, pos
            previous = offset
            # of v0 in a wrapper of v1, too, whatever the wrapper says
            timestamp = np.int64(NO_TIMESTAMP)
            if magic == 1:
                timestamp = (
                    row.max_timestamp
                    if log_append
                    else np.int64(load_be64(area, pos + TIMESTAMP_V1_AT))
                )
            if n == 0:
                first = offset
                first_timestamp = timestamp
            if offset - first > MAX_OFFSET_SPAN:
                return Fault.ENTRY_ORDER, i, pos
            key_at = pos + (KEY_V1_AT if magic == 1 else KEY_V0_AT)
            key_size = load_int32(area, key_at)
            key_at += 4
            if key_size < -1 or key_size > after - 4 - key_at:
                return Fault.KEY, i, pos
            value_at = key_at + max(key_size, 0)
            value_size = load_int32(area, value_at)
            value_at += 4
            if value_size < -1 or value_at + max(value_size, 0) != after:
                return Fault.ENTRY_VALUE, i, pos
            # Maximum size of a record: no entry is smaller than 26 bytes without its key and value.
            if out.size - at < 32 + max(key_size, 0) + max(value_size, 0):
                return Fault.ENTRY_AREA, i, pos
            at = _write(
                area,
                key_at,
                key_size,
                value_at,
                value_size,
                timestamp - first_timestamp,
                offset - first,
                out,
                at,
            )
            pos = after
        if first < least:
            return Fault.OVERLAP, i, begin[i]
        # A wrapper's own offset may be any higher one, but a v2 header has 32 bits for the
        # distance.
        if row.last_offset - first > MAX_OFFSET_SPAN:
            return Fault.WRAPPER_OFFSET, i, begin[i]
        target = rows[i]
        target.base_offset = first
        target.last_offset = max(row.last_offset, previous)
        target.base_timestamp = first_timestamp
        target.record_count = count
        least = target.last_offset + 1
    starts[batches.size] = at
    return 0, 0, 0


@kernel
def _write(
    area: Bytes,
    key_at: int,
    key_size: int,
    value_at: int,
    value_size: int,
    timestamp_delta: int,
    offset_delta: int,
    out: NDArray[np.uint8],
    at: int,
) -> int:
    """Write one v2 record without headers (S2.2). Return its end in `out`, which has room."""
    size = 2 + size_of_varint(timestamp_delta) + size_of_varint(offset_delta)
    size += (
        size_of_varint(key_size)
        + max(key_size, 0)
        + size_of_varint(value_size)
        + max(value_size, 0)
    )
    at = write_varint(out, at, size)
    store_byte(out, at, 0)
    at = write_varint(out, at + 1, timestamp_delta)
    at = write_varint(out, at, offset_delta)
    at = write_varint(out, at, key_size)
    copy_bytes(out, at, area, key_at, max(key_size, 0))
    at = write_varint(out, at + max(key_size, 0), value_size)
    copy_bytes(out, at, area, value_at, max(value_size, 0))
    at += max(value_size, 0)
    store_byte(out, at, 0)
    return at + 1
