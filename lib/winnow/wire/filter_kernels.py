"""The two passes over the records of batches that filtering makes, jitted: decide, then write.

Between them lies what Python has to do: sizing the output and calling the codecs. The second pass parses again
and checks again, since the first one's word is only as good as the bytes under a mapped file.
"""

# ruff: noqa: ANN401, FBT001, PLR0917 - a kernel takes its columns one by one, by position, and rows have no type
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    LAST_OFFSET_DELTA_AT,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    NO_TIMESTAMP,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    TRANSACTIONAL,
)
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.crc import crc32c
from winnow.wire.memory import copy_bytes, store_be16, store_be32, store_be64, store_byte
from winnow.wire.record_faults import Fault
from winnow.wire.record_kernels import check_area, kernel, parse_record
from winnow.wire.varint_kernels import read_varint, size_of_varint, write_varint

DROP, COPY, REWRITE, EMPTY = 0, 1, 2, 3
"""What becomes of a batch (S5.6)."""

GROWTH = 13
"""Most bytes by which a record grows when rewritten: its timestamp delta from 1 to 10 bytes, its length from 1 to 5."""

MAX_BATCH_SIZE = FRAME_SIZE + 2**31 - 1

_DELETE, _RETAIN_EMPTY = 0, 2  # of filtering.Retention
_ORDER, _LEFT_OVER, _TIMESTAMP = int(Fault.ORDER), int(Fault.LEFT_OVER), int(Fault.TIMESTAMP)
_SIZE, _CHANGED, _AREA = int(Fault.SIZE), int(Fault.CHANGED), int(Fault.AREA)
_KEPT_BITS = TRANSACTIONAL | CONTROL | LOG_APPEND_TIME


@kernel
def expires(row: Any, now: int) -> bool:
    """Whether null values of this batch go: it has a delete horizon and that has come (S5.5)."""
    bits = int(row.attributes)
    return (bits & DELETE_HORIZON) != 0 and (bits & CONTROL) == 0 and bool(now >= row.base_timestamp)


@kernel
def decide(  # noqa: C901, PLR0912, PLR0915 - one pass
    raw: Bytes,
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    batches: Rows,
    keep: NDArray[np.bool_],
    retention: NDArray[np.int8],
    cause: NDArray[np.bool_],
    now: int,
    delete_retention_ms: int,
    action: NDArray[np.int8],
    retained: NDArray[np.int32],
    tombstones: NDArray[np.int32],
    horizon: NDArray[np.int64],
    first_timestamp: NDArray[np.int64],
    max_timestamp: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Fill the last six arrays, one item per batch; (fault, row, position in the area's array).

    `horizon`: the delete horizon of a rewritten batch, below 0 for none. `first_timestamp` and `max_timestamp`: over
    the retained records.
    """
    row_of = 0
    for i in range(batches.size):
        row = batches[i]
        count = int(row.record_count)
        action[i] = DROP
        retained[i] = 0
        tombstones[i] = 0
        horizon[i] = -1
        first_timestamp[i] = NO_TIMESTAMP
        max_timestamp[i] = NO_TIMESTAMP
        if retention[i] == _DELETE:  # its records are not looked at, S5.4
            row_of += count
            continue
        area = inflated if compressed[i] else raw
        pos, stop = begin[i], end[i]
        fault = check_area(area, pos, stop, count)
        if fault != 0:
            return fault, i, pos
        bits = int(row.attributes)
        has_horizon = (bits & DELETE_HORIZON) != 0
        log_append = (bits & LOG_APPEND_TIME) != 0
        expired = expires(row, now)
        last_delta = row.last_offset - row.base_offset
        previous = -1
        kept = 0
        nulls = 0
        least = 0
        largest = NO_TIMESTAMP
        for r in range(row_of, row_of + count):
            fault, after, timestamp_delta, delta, _, _, value_size, _, _ = parse_record(area, pos, stop)
            if fault != 0:
                return fault, i, pos
            if delta <= previous or delta > last_delta:
                return _ORDER, i, pos
            previous = delta
            pos = after
            if keep[r] and not (expired and value_size < 0):
                timestamp = row.max_timestamp if log_append else row.base_timestamp + timestamp_delta
                if kept == 0:
                    first_timestamp[i] = timestamp
                kept += 1
                nulls += value_size < 0
                least = min(least, timestamp)
                largest = max(largest, timestamp)
        if pos != stop:
            return _LEFT_OVER, i, pos
        row_of += count
        if kept == 0:
            action[i] = EMPTY if retention[i] == _RETAIN_EMPTY else DROP
            continue
        retained[i] = kept
        tombstones[i] = nulls
        max_timestamp[i] = row.max_timestamp if log_append else largest
        needs_horizon = not has_horizon and (nulls > 0 or cause[i])
        if kept == count and not needs_horizon:
            action[i] = COPY
            continue
        if least < NO_TIMESTAMP:  # Kafka can't write these either (MemoryRecordsBuilder)
            return _TIMESTAMP, i, begin[i]
        action[i] = REWRITE
        if needs_horizon:
            horizon[i] = now + delete_retention_ms  # may wrap, as Java's does; then there is none
        elif has_horizon:
            horizon[i] = row.base_timestamp
    return 0, 0, 0


@kernel
def write_records(
    area: Bytes,
    begin: int,
    end: int,
    row: Any,
    keep: NDArray[np.bool_],
    row_of: int,
    now: int,
    base_timestamp: int,
    out: Bytes,
    at: int,
) -> tuple[int, int, int]:
    """Write the retained records of one batch to `out` from `at` on: (fault, position in the area, end in `out`).

    `row_of`: row in `keep` of the batch's first record. Neighbours that come out as they went in are copied together.
    """
    bits = int(row.attributes)
    log_append = (bits & LOG_APPEND_TIME) != 0
    same = base_timestamp == row.base_timestamp and not log_append
    expired = expires(row, now)
    pos = begin
    run = -1
    for r in range(row_of, row_of + int(row.record_count)):
        fault, after, timestamp_delta, delta, _, _, value_size, tail, canonical = parse_record(area, pos, end)
        if fault != 0:
            return fault, pos, at
        retain = keep[r] and not (expired and value_size < 0)
        whole = retain and same and canonical
        if whole:
            if run < 0:
                run = pos
        elif run >= 0:
            if pos - run > out.size - at:
                return _CHANGED, pos, at
            copy_bytes(out, at, area, run, pos - run)
            at += pos - run
            run = -1
        if retain and not whole:
            if after - pos + GROWTH > out.size - at:
                return _CHANGED, pos, at
            timestamp = row.max_timestamp if log_append else row.base_timestamp + timestamp_delta
            at = _write_record(area, tail, after, canonical, timestamp - base_timestamp, delta, out, at)
        pos = after
    if run >= 0:
        if pos - run > out.size - at:
            return _CHANGED, pos, at
        copy_bytes(out, at, area, run, pos - run)
        at += pos - run
    return 0, pos, at


@kernel
def _write_record(
    area: Bytes,
    tail: int,
    after: int,
    canonical: bool,
    timestamp_delta: int,
    offset_delta: int,
    out: Bytes,
    at: int,
) -> int:
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
def _write_field(
    area: Bytes,
    pos: int,
    after: int,
    out: Bytes,
    at: int,
) -> tuple[int, int]:
    """One length and its bytes, the length in its shortest form: (end in `out`, end in the area)."""
    size, start = read_varint(area, pos, after)
    at = write_varint(out, at, size)
    size = max(size, 0)
    copy_bytes(out, at, area, start, size)
    return at + size, start + size


@kernel
def _tail_size(
    area: Bytes,
    tail: int,
    after: int,
) -> int:
    """Bytes from the key's length to the last header, once every number has its shortest form."""
    pos = tail
    total = 0
    for _ in range(2):
        size, pos = read_varint(area, pos, after)
        total += size_of_varint(size) + max(size, 0)
        pos += max(size, 0)
    headers, pos = read_varint(area, pos, after)
    total += size_of_varint(headers)
    for _ in range(2 * headers):
        size, pos = read_varint(area, pos, after)
        total += size_of_varint(size) + max(size, 0)
        pos += max(size, 0)
    return total


@kernel
def _base_timestamp(horizon: int, first_timestamp: int) -> int:
    return horizon if horizon >= 0 else first_timestamp


@kernel
def rewrite_compressed(
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    batches: Rows,
    keep: NDArray[np.bool_],
    now: int,
    action: NDArray[np.int8],
    horizon: NDArray[np.int64],
    first_timestamp: NDArray[np.int64],
    out: Bytes,
    starts: NDArray[np.int64],
) -> tuple[int, int, int]:
    """The retained records of all compressed batches to be rewritten, one after the other.

    `starts` (n + 1) receives where each batch's lie in `out`; (fault, row, position).
    """
    at = 0
    row_of = 0
    for i in range(batches.size):
        starts[i] = at
        if action[i] == REWRITE and compressed[i]:
            base = _base_timestamp(horizon[i], first_timestamp[i])
            fault, pos, at = write_records(inflated, begin[i], end[i], batches[i], keep, row_of, now, base, out, at)
            if fault != 0:
                return fault, i, pos
        row_of += int(batches[i].record_count)
    starts[batches.size] = at
    return 0, 0, 0


@kernel
def assemble(  # noqa: C901, PLR0911, PLR0912, PLR0915 - one pass
    raw: Bytes,
    compressed: NDArray[np.bool_],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    batches: Rows,
    keep: NDArray[np.bool_],
    now: int,
    action: NDArray[np.int8],
    retained: NDArray[np.int32],
    horizon: NDArray[np.int64],
    first_timestamp: NDArray[np.int64],
    max_timestamp: NDArray[np.int64],
    payloads: Bytes,
    payload_starts: NDArray[np.int64],
    out: Bytes,
    rows: Rows,
) -> tuple[int, int, int, int, int]:
    """All output batches into `out`, their headers into `rows`: (fault, row, position, batches, bytes)."""
    at = 0
    count = 0
    row_of = 0
    for i in range(batches.size):
        row = batches[i]
        first_row = row_of
        row_of += int(row.record_count)
        what = action[i]
        if what == DROP:
            continue
        start = at
        target = rows[count]
        rows[count] = row
        if what == COPY:
            size = row.size
            if row.position < 0 or size < HEADER_V2_SIZE or row.position > raw.size - size:
                return _AREA, i, begin[i], count, at
            if size > out.size - at:
                return _CHANGED, i, begin[i], count, at
            copy_bytes(out, at, raw, row.position, size)
            at += size
        else:
            if out.size - at < HEADER_V2_SIZE:
                return _CHANGED, i, begin[i], count, at
            at += HEADER_V2_SIZE
            bits = int(row.attributes) & _KEPT_BITS
            if what == EMPTY:
                target.base_timestamp = NO_TIMESTAMP
                target.record_count = 0
            else:
                base = _base_timestamp(horizon[i], first_timestamp[i])
                if compressed[i]:
                    size = payload_starts[i + 1] - payload_starts[i]
                    if size > out.size - at:
                        return _CHANGED, i, begin[i], count, at
                    copy_bytes(out, at, payloads, payload_starts[i], size)
                    at += size
                else:
                    fault, pos, at = write_records(raw, begin[i], end[i], row, keep, first_row, now, base, out, at)
                    if fault != 0:
                        return fault, i, pos, count, at
                bits |= int(row.attributes) & CODEC_MASK
                if horizon[i] >= 0:
                    bits |= DELETE_HORIZON
                target.base_timestamp = base
                target.max_timestamp = max_timestamp[i]
                target.record_count = retained[i]
            if at - start > MAX_BATCH_SIZE:
                return _SIZE, i, begin[i], count, at
            target.attributes = bits
            target.size = at - start
            _write_header(out, start, target)
            crc = crc32c(out, start + ATTRIBUTES_AT, at)
            target.crc = crc
            store_be32(out, start + CRC_AT, int(crc))
        target.position = start
        count += 1
    return 0, 0, 0, count, at


@kernel
def _write_header(out: Bytes, at: int, row: Any) -> None:
    """All of a v2 header but its CRC."""
    store_be64(out, at, row.base_offset)
    store_be32(out, at + 8, row.size - FRAME_SIZE)
    store_be32(out, at + FRAME_SIZE, int(row.leader_epoch))
    store_byte(out, at + MAGIC_AT, 2)
    store_be16(out, at + ATTRIBUTES_AT, int(row.attributes))
    store_be32(out, at + LAST_OFFSET_DELTA_AT, row.last_offset - row.base_offset)
    store_be64(out, at + BASE_TIMESTAMP_AT, row.base_timestamp)
    store_be64(out, at + MAX_TIMESTAMP_AT, row.max_timestamp)
    store_be64(out, at + PRODUCER_ID_AT, row.producer_id)
    store_be16(out, at + PRODUCER_EPOCH_AT, int(row.producer_epoch))
    store_be32(out, at + BASE_SEQUENCE_AT, int(row.base_sequence))
    store_be32(out, at + RECORD_COUNT_AT, int(row.record_count))
