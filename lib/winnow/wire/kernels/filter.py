"""The passes of filtering over the records of batches, jitted.

One pass decides on records and writes them. The records of a batch that keeps none are not read.
For compressed batches, codecs are called before `assemble` joins the output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    LOG_APPEND_TIME,
    MAX_MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
)
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.crc import crc32c
from winnow.wire.kernels.memory import copy_bytes, store_be32
from winnow.wire.kernels.record import AHEAD, check_area, inlined, kernel, parse_record, prefetch
from winnow.wire.kernels.writing import GROWTH, write_header, write_record
from winnow.wire.record_faults import Fault

DROP, COPY, REWRITE, EMPTY = 0, 1, 2, 3
"""Outcome of a batch (S5.6)."""

MAX_BATCH_SIZE = FRAME_SIZE + 2**31 - 1

_DELETE, _RETAIN_EMPTY = 0, 2  # of filtering.Retention
_ORDER, _LEFT_OVER, _TIMESTAMP = int(Fault.ORDER), int(Fault.LEFT_OVER), int(Fault.TIMESTAMP)
_SIZE, _CHANGED, _AREA = int(Fault.SIZE), int(Fault.CHANGED), int(Fault.AREA)
_KEPT_BITS = TRANSACTIONAL | CONTROL | LOG_APPEND_TIME


@kernel
def expires(row: Any, now: int) -> bool:
    """Return whether null values of this batch are dropped: it has a delete horizon, and that has
    passed (S5.5).
    """
    bits = int(row.attributes)
    return (
        (bits & DELETE_HORIZON) != 0 and (bits & CONTROL) == 0 and bool(now >= row.base_timestamp)
    )


@kernel
def _retain(  # noqa: C901, PLR0911, PLR0912, PLR0915 - one pass
    area: Bytes,
    begin: int,
    end: int,
    row: Any,
    keep: NDArray[np.bool_],
    row_of: int,
    now: int,
    write: bool,
    base_known: bool,
    base: int,
    horizon: int,
    out: Bytes,
    at: int,
) -> tuple[int, int, int, int, int, int, int, int]:
    """Count the retained records of one batch in one pass and, with `write`, write them to `out`
    from `at` on. The caller has checked its area.

    `row_of`: row in `keep` of the batch's first record. `base`: the base timestamp to write them
    with; that of the first one unless `base_known`. At the first null value it becomes `horizon`,
    unless that is below 0, and everything is written again. Neighbouring records that don't change
    are copied together.

    Returns (fault, position in the area, end in `out`, retained records, null values among them,
    their first, least - at most 0 - and largest timestamp).
    """
    bits = int(row.attributes)
    # Converted v0 and v1 records have their own timestamps, and those of v0 none.
    log_append = (bits & LOG_APPEND_TIME) != 0 and row.magic == MAX_MAGIC
    expired = expires(row, now)
    old_base = row.base_timestamp
    last_delta = row.last_offset - row.base_offset
    same = not log_append and base == old_base
    start = at
    first = NO_TIMESTAMP
    largest = NO_TIMESTAMP
    least = 0
    kept = 0
    nulls = 0
    previous = -1
    pos = begin
    run = -1
    r = row_of
    while r < row_of + int(row.record_count):
        prefetch(area, pos + AHEAD)
        prefetch(area, pos + AHEAD + 64)
        fault, after, timestamp_delta, delta, _, _, value_size, tail, canonical = parse_record(
            area, pos, end
        )
        if fault != 0:
            return fault, pos, at, kept, nulls, first, least, largest
        if delta <= previous or delta > last_delta:
            return _ORDER, pos, at, kept, nulls, first, least, largest
        retain = keep[r] and not (expired and value_size < 0)
        if retain and value_size < 0 and horizon >= 0:
            base_known, base, horizon = True, horizon, -1
            write = True
            same = not log_append and base == old_base
            at, pos, r, run = start, begin, row_of, -1
            first, largest, least, kept, nulls, previous = NO_TIMESTAMP, NO_TIMESTAMP, 0, 0, 0, -1
            continue
        previous = delta
        r += 1
        if retain:
            timestamp = row.max_timestamp if log_append else old_base + timestamp_delta
            if kept == 0:
                first = timestamp
                if not base_known:
                    base = first
                    same = not log_append and base == old_base
            kept += 1
            nulls += value_size < 0
            least = min(least, timestamp)
            largest = max(largest, timestamp)
        whole = retain and same and canonical
        if whole:
            if run < 0:
                run = pos
        elif run >= 0:
            if write:
                if pos - run > out.size - at:
                    return _CHANGED, pos, at, kept, nulls, first, least, largest
                copy_bytes(out, at, area, run, pos - run)
                at += pos - run
            run = -1
        if retain and not whole and write:
            if after - pos + GROWTH > out.size - at:
                return _CHANGED, pos, at, kept, nulls, first, least, largest
            at = write_record(
                area, pos, tail, after, canonical, timestamp_delta, timestamp - base, delta, out, at
            )
        pos = after
    if pos != end:
        return _LEFT_OVER, pos, at, kept, nulls, first, least, largest
    if run >= 0 and write:
        if pos - run > out.size - at:
            return _CHANGED, pos, at, kept, nulls, first, least, largest
        copy_bytes(out, at, area, run, pos - run)
        at += pos - run
    return 0, pos, at, kept, nulls, first, least, largest


@kernel
def _verdict(
    row: Any, retention: int, cause: bool, now: int, delete_retention_ms: int, kept: int, nulls: int
) -> tuple[int, int]:
    """Return (outcome of a batch, its delete horizon if it is rewritten, below 0 for none)."""
    if kept == 0:
        return EMPTY if retention == _RETAIN_EMPTY else DROP, -1
    has_horizon = (int(row.attributes) & DELETE_HORIZON) != 0
    needs_horizon = not has_horizon and (nulls > 0 or cause)
    if kept == int(row.record_count) and not needs_horizon and row.magic == MAX_MAGIC:
        return COPY, -1
    if needs_horizon:
        return REWRITE, now + delete_retention_ms  # may wrap, as Java's does; then there is none
    return REWRITE, row.base_timestamp if has_horizon else -1


@kernel
def _base_timestamp(horizon: int, first_timestamp: int) -> int:
    return horizon if horizon >= 0 else first_timestamp


@inlined
def _filter_records(
    area: Bytes,
    i: int,
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    row: Any,
    keep: NDArray[np.bool_],
    row_of: int,
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
    out: Bytes,
    at: int,
) -> tuple[int, int, int]:
    """Decide on batch `i`, which is `row`: set its items of the six arrays. If it is rewritten,
    write its records to `out` from `at` on. Return (fault, position in `area`, end in `out`).

    `row_of`: row in `keep` of its first record. Records are first written as if no tombstone sets a
    delete horizon; if one does, they are written again. `horizon`: the delete horizon of a
    rewritten batch, below 0 for none. `first_timestamp` and `max_timestamp`: over the retained
    records.
    """
    total = int(row.record_count)
    has_horizon = (int(row.attributes) & DELETE_HORIZON) != 0
    new_horizon = -1 if has_horizon else now + delete_retention_ms
    base = row.base_timestamp if has_horizon else new_horizon
    stays = _count(keep, row_of, row_of + total)
    # A batch that keeps everything is copied, unless it gets a horizon or would get one that
    # overflows.
    write = expires(row, now) or cause[i] or base < 0 or stays < total or row.magic < MAX_MAGIC
    written = at
    kept = nulls = least = 0
    first = largest = NO_TIMESTAMP
    if stays > 0 or total == 0:
        fault = check_area(area, begin[i], end[i], total)
        if fault != 0:
            return fault, begin[i], at
        fault, pos, written, kept, nulls, first, least, largest = _retain(
            area,
            begin[i],
            end[i],
            row,
            keep,
            row_of,
            now,
            write,
            (has_horizon or cause[i]) and base >= 0,
            base,
            new_horizon,
            out,
            at,
        )
        if fault != 0:
            return fault, pos, at
    action[i], horizon[i] = _verdict(
        row, retention[i], cause[i], now, delete_retention_ms, kept, nulls
    )
    retained[i] = kept
    tombstones[i] = nulls
    first_timestamp[i] = first
    max_timestamp[i] = largest
    if (
        action[i] == REWRITE and least < NO_TIMESTAMP
    ):  # Kafka can't write these either (MemoryRecordsBuilder)
        return _TIMESTAMP, begin[i], at
    return 0, begin[i], written


@kernel
def rewrite_compressed(
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
    out: Bytes,
    starts: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Decide on the compressed batches, and write the records of those that are rewritten, one
    batch after the other.

    The six arrays are those of `_filter_records`. `assemble` fills in those of uncompressed
    batches. For batches to delete, the first three remain DROP, 0 and 0. `starts` (n + 1) receives
    where each batch's records are in `out`. Returns (fault, row, position in `inflated`).
    """
    at = 0
    row_of = 0
    for i in range(batches.size):
        starts[i] = at
        if compressed[i] and retention[i] != _DELETE:  # a batch to delete is not read, S5.4
            fault, pos, written = _filter_records(
                inflated,
                i,
                begin,
                end,
                batches[i],
                keep,
                row_of,
                retention,
                cause,
                now,
                delete_retention_ms,
                action,
                retained,
                tombstones,
                horizon,
                first_timestamp,
                max_timestamp,
                out,
                at,
            )
            if fault != 0:
                return fault, i, pos
            if action[i] == REWRITE:
                at = written
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
    payloads: Bytes,
    payload_starts: NDArray[np.int64],
    out: Bytes,
    rows: Rows,
) -> tuple[int, int, int, int, int]:
    """Write all output batches into `out` and their headers into `rows`. Return (fault, row,
    position, batches, bytes).

    Compressed batches have their six arrays and payloads already; those of the others are computed
    here.
    """
    at = 0
    count = 0
    row_of = 0
    for i in range(batches.size):
        row = batches[i]
        first_row = row_of
        row_of += int(row.record_count)
        start = at
        written = 0
        if not compressed[i] and retention[i] != _DELETE:
            if out.size - at < HEADER_V2_SIZE:
                return _CHANGED, i, begin[i], count, at
            fault, pos, written = _filter_records(
                raw,
                i,
                begin,
                end,
                row,
                keep,
                first_row,
                retention,
                cause,
                now,
                delete_retention_ms,
                action,
                retained,
                tombstones,
                horizon,
                first_timestamp,
                max_timestamp,
                out,
                at + HEADER_V2_SIZE,
            )
            if fault != 0:
                return fault, i, pos, count, at
        what = action[i]
        if what == DROP:
            continue
        if count == rows.size:
            return _CHANGED, i, begin[i], count, at
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
                if compressed[i]:
                    size = payload_starts[i + 1] - payload_starts[i]
                    if size > out.size - at:
                        return _CHANGED, i, begin[i], count, at
                    copy_bytes(out, at, payloads, payload_starts[i], size)
                    at += size
                else:
                    at = written
                bits |= int(row.attributes) & CODEC_MASK
                if horizon[i] >= 0:
                    bits |= DELETE_HORIZON
                target.base_timestamp = _base_timestamp(horizon[i], first_timestamp[i])
                if int(row.attributes) & LOG_APPEND_TIME == 0:
                    target.max_timestamp = max_timestamp[i]
                target.record_count = retained[i]
            if at - start > MAX_BATCH_SIZE:
                return _SIZE, i, begin[i], count, at
            target.attributes = bits
            target.magic = MAX_MAGIC
            target.size = at - start
            write_header(out, start, target)
            crc = crc32c(out, start + ATTRIBUTES_AT, at)
            target.crc = crc
            store_be32(out, start + CRC_AT, int(crc))
        target.position = start
        count += 1
    return 0, 0, 0, count, at


@kernel
def _count(keep: NDArray[np.bool_], first: int, end: int) -> int:
    kept = 0
    for r in range(first, end):
        kept += keep[r]
    return kept
