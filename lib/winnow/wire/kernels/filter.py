"""The passes of filtering over the records of batches, jitted.

One pass decides on records and writes them. The records of a batch that keeps none are not read.
For compressed batches, codecs are called before `assemble` joins the output.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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


class Choice(NamedTuple):
    """The batches to filter, one item each, and what is decided about them. All is read-only."""

    rows: Rows
    begin: NDArray[np.int64]
    """Where the batch's records area begins in `raw` or `inflated`."""
    end: NDArray[np.int64]
    compressed: NDArray[np.bool_]
    """True if its records area is in `inflated`."""
    keep: NDArray[np.bool_]
    """One item per record over all batches: whether its key allows it to stay."""
    retention: NDArray[np.int8]
    """Values of `filtering.Retention`."""
    cause: NDArray[np.bool_]
    """True if the batch gets a delete horizon even without a tombstone."""
    now: int
    delete_retention_ms: int
    horizons: bool
    """False before Kafka 3.1: batches have no delete horizon, and get none."""
    drop_nulls: bool
    """Drop null values of data batches: what there is instead, without horizons."""


class Verdict(NamedTuple):
    """The outcome per batch, which the kernels fill in."""

    action: NDArray[np.int8]
    """DROP, COPY, REWRITE or EMPTY."""
    retained: NDArray[np.int32]
    tombstones: NDArray[np.int32]
    """Null values among the retained records."""
    horizon: NDArray[np.int64]
    """The delete horizon of a rewritten batch in ms, below 0 for none."""
    first_timestamp: NDArray[np.int64]
    """Of the retained records, as is the largest."""
    max_timestamp: NDArray[np.int64]


@kernel
def _expires(row: Any, choice: Choice) -> bool:
    """Return whether null values of this batch are dropped: it has a delete horizon, and that has
    passed (S5.5). Without horizons, its segment decides.
    """
    bits = int(row.attributes)
    if (bits & CONTROL) != 0:
        return False
    if not choice.horizons:
        return choice.drop_nulls
    return (bits & DELETE_HORIZON) != 0 and bool(choice.now >= row.base_timestamp)


@kernel
def _retain(  # noqa: C901, PLR0912, PLR0915 - one pass
    area: Bytes, i: int, row: Any, row_of: int, whole: bool, choice: Choice, out: Bytes, at: int
) -> tuple[int, int, int, int, int, int, int, int]:
    """Count the retained records of batch `i`, which is `row`, in one pass. Write them to `out`
    from `at` on, unless the batch is copied. The caller has checked its area.

    `row_of`: row in `keep` of the batch's first record. `whole`: `keep` holds for all records.
    Neighbouring records that don't change are copied together. Records are first written as if no
    tombstone sets a delete horizon. At the first one that does, the horizon becomes the base
    timestamp, and everything is written again.

    Returns (fault, position in the area, end in `out`, retained records, null values among them,
    their first, least - at most 0 - and largest timestamp).
    """
    bits = int(row.attributes)
    # Converted v0 and v1 records have their own timestamps, and those of v0 none.
    log_append = (bits & LOG_APPEND_TIME) != 0 and row.magic == MAX_MAGIC
    expired = _expires(row, choice)
    has_horizon = choice.horizons and (bits & DELETE_HORIZON) != 0
    horizon = -1 if has_horizon or not choice.horizons else choice.now + choice.delete_retention_ms
    base = row.base_timestamp if has_horizon else horizon
    base_known = (has_horizon or choice.cause[i]) and base >= 0
    # A batch that keeps everything is copied, unless it gets a horizon or would get one that
    # overflows.
    overflows = choice.horizons and base < 0
    write = expired or choice.cause[i] or overflows or not whole or row.magic < MAX_MAGIC
    old_base = row.base_timestamp
    last_delta = row.last_offset - row.base_offset
    same = not log_append and base == old_base
    begin = choice.begin[i]
    end = choice.end[i]
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
    fault = 0
    while r < row_of + int(row.record_count):
        prefetch(area, pos + AHEAD)
        prefetch(area, pos + AHEAD + 64)
        fault, after, timestamp_delta, delta, _, _, value_size, tail, canonical = parse_record(
            area, pos, end
        )
        if fault != 0:
            break
        if delta <= previous or delta > last_delta:
            fault = _ORDER
            break
        retain = choice.keep[r] and not (expired and value_size < 0)
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
        unchanged = retain and same and canonical
        if unchanged:
            if run < 0:
                run = pos
        elif run >= 0:
            if write:
                if pos - run > out.size - at:
                    fault = _CHANGED
                    break
                copy_bytes(out, at, area, run, pos - run)
                at += pos - run
            run = -1
        if retain and not unchanged and write:
            if after - pos + GROWTH > out.size - at:
                fault = _CHANGED
                break
            at = write_record(
                area, pos, tail, after, canonical, timestamp_delta, timestamp - base, delta, out, at
            )
        pos = after
    if fault == 0 and pos != end:
        fault = _LEFT_OVER
    if fault == 0 and run >= 0 and write:
        if pos - run > out.size - at:
            fault = _CHANGED
        else:
            copy_bytes(out, at, area, run, pos - run)
            at += pos - run
    return fault, pos, at, kept, nulls, first, least, largest


@kernel
def _outcome(row: Any, i: int, choice: Choice, kept: int, nulls: int) -> tuple[int, int]:
    """Return (outcome of batch `i`, its delete horizon if it is rewritten, below 0 for none)."""
    if kept == 0:
        return EMPTY if choice.retention[i] == _RETAIN_EMPTY else DROP, -1
    has_horizon = choice.horizons and (int(row.attributes) & DELETE_HORIZON) != 0
    needs_horizon = choice.horizons and not has_horizon and (nulls > 0 or choice.cause[i])
    if kept == int(row.record_count) and not needs_horizon and row.magic == MAX_MAGIC:
        return COPY, -1
    if needs_horizon:  # may wrap, as Java's does; then there is none
        return REWRITE, choice.now + choice.delete_retention_ms
    return REWRITE, row.base_timestamp if has_horizon else -1


@inlined
def _filter_records(
    area: Bytes, i: int, row_of: int, choice: Choice, verdict: Verdict, out: Bytes, at: int
) -> tuple[int, int, int]:
    """Decide on batch `i`: set its items of the verdict. If it is rewritten, write its records to
    `out` from `at` on. Return (fault, position in `area`, end in `out`).

    `row_of`: row in `keep` of its first record.
    """
    row = choice.rows[i]
    begin = choice.begin[i]
    total = int(row.record_count)
    stays = _count(choice.keep, row_of, row_of + total)
    written = at
    kept = nulls = least = 0
    first = largest = NO_TIMESTAMP
    if stays > 0 or total == 0:
        fault = check_area(area, begin, choice.end[i], total)
        if fault != 0:
            return fault, begin, at
        fault, pos, written, kept, nulls, first, least, largest = _retain(
            area, i, row, row_of, stays == total, choice, out, at
        )
        if fault != 0:
            return fault, pos, at
    action, verdict.horizon[i] = _outcome(row, i, choice, kept, nulls)
    verdict.action[i] = action
    verdict.retained[i] = kept
    verdict.tombstones[i] = nulls
    verdict.first_timestamp[i] = first
    verdict.max_timestamp[i] = largest
    if action == REWRITE and least < NO_TIMESTAMP:
        return _TIMESTAMP, begin, at  # Kafka can't write these either (MemoryRecordsBuilder)
    return 0, begin, written


@kernel
def rewrite_compressed(
    inflated: Bytes, choice: Choice, verdict: Verdict, out: Bytes, starts: NDArray[np.int64]
) -> tuple[int, int, int]:
    """Decide on the compressed batches, and write the records of those that are rewritten, one
    batch after the other.

    `assemble` fills in the verdict on uncompressed batches. For batches to delete, its first three
    arrays remain DROP, 0 and 0. `starts` (n + 1) receives where each batch's records are in `out`.
    Returns (fault, row, position in `inflated`).
    """
    at = 0
    row_of = 0
    for i in range(choice.rows.size):
        starts[i] = at
        # A batch to delete is not read, S5.4.
        if choice.compressed[i] and choice.retention[i] != _DELETE:
            fault, pos, written = _filter_records(inflated, i, row_of, choice, verdict, out, at)
            if fault != 0:
                return fault, i, pos
            if verdict.action[i] == REWRITE:
                at = written
        row_of += int(choice.rows[i].record_count)
    starts[choice.rows.size] = at
    return 0, 0, 0


@kernel
def assemble(  # noqa: C901, PLR0911, PLR0912, PLR0915 - one pass
    raw: Bytes,
    choice: Choice,
    verdict: Verdict,
    payloads: Bytes,
    payload_starts: NDArray[np.int64],
    out: Bytes,
    rows: Rows,
) -> tuple[int, int, int, int, int]:
    """Write all output batches into `out` and their headers into `rows`. Return (fault, row,
    position, batches, bytes).

    Compressed batches have their verdict and payloads already; those of the others are computed
    here.
    """
    at = 0
    count = 0
    row_of = 0
    for i in range(choice.rows.size):
        row = choice.rows[i]
        first_row = row_of
        row_of += int(row.record_count)
        start = at
        written = 0
        if not choice.compressed[i] and choice.retention[i] != _DELETE:
            if out.size - at < HEADER_V2_SIZE:
                return _CHANGED, i, choice.begin[i], count, at
            fault, pos, written = _filter_records(
                raw, i, first_row, choice, verdict, out, at + HEADER_V2_SIZE
            )
            if fault != 0:
                return fault, i, pos, count, at
        what = verdict.action[i]
        if what == DROP:
            continue
        if count == rows.size:
            return _CHANGED, i, choice.begin[i], count, at
        target = rows[count]
        rows[count] = row
        if what == COPY:
            size = row.size
            if row.position < 0 or size < HEADER_V2_SIZE or row.position > raw.size - size:
                return _AREA, i, choice.begin[i], count, at
            if size > out.size - at:
                return _CHANGED, i, choice.begin[i], count, at
            copy_bytes(out, at, raw, row.position, size)
            at += size
        else:
            if out.size - at < HEADER_V2_SIZE:
                return _CHANGED, i, choice.begin[i], count, at
            at += HEADER_V2_SIZE
            bits = int(row.attributes) & _KEPT_BITS
            if what == EMPTY:
                target.base_timestamp = NO_TIMESTAMP
                target.record_count = 0
            else:
                if choice.compressed[i]:
                    size = payload_starts[i + 1] - payload_starts[i]
                    if size > out.size - at:
                        return _CHANGED, i, choice.begin[i], count, at
                    copy_bytes(out, at, payloads, payload_starts[i], size)
                    at += size
                else:
                    at = written
                bits |= int(row.attributes) & CODEC_MASK
                target.base_timestamp = verdict.first_timestamp[i]
                if verdict.horizon[i] >= 0:
                    bits |= DELETE_HORIZON
                    target.base_timestamp = verdict.horizon[i]
                if int(row.attributes) & LOG_APPEND_TIME == 0:
                    target.max_timestamp = verdict.max_timestamp[i]
                target.record_count = verdict.retained[i]
            if at - start > MAX_BATCH_SIZE:
                return _SIZE, i, choice.begin[i], count, at
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
