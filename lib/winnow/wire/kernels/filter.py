"""The passes of filtering over the records of batches, jitted.

One pass decides on records and writes them. The records of a batch that keeps none are not read.
For compressed batches, `filter_compressed` is called before `assemble` joins the output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    LOG_APPEND_TIME,
    MAX_MAGIC,
    NO_TIMESTAMP,
    SMALLEST_RECORD,
    TRANSACTIONAL,
)
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.choice import COPY, DROP, EMPTY, REWRITE, BatchActions, Choice, Retention
from winnow.wire.kernels.memory import copy_bytes
from winnow.wire.kernels.record import AHEAD, inlined, kernel, open_area, parse_record, prefetch
from winnow.wire.kernels.varint import read_varint
from winnow.wire.kernels.writing import (
    ENTRY_SIZE,
    GROWTH,
    write_entry,
    write_header,
    write_record,
)
from winnow.wire.record_faults import Fault

MAX_BATCH_SIZE = FRAME_SIZE + 2**31 - 1
MOST_GROWTH = ENTRY_SIZE - SMALLEST_RECORD
"""Most bytes by which a record grows, also if it becomes an entry of v0 or v1."""

_KEPT_BITS = TRANSACTIONAL | CONTROL | LOG_APPEND_TIME


@inlined
def _keeps_format(row: Any, choice: Choice) -> bool:
    """Return whether what remains of this batch keeps its old format."""
    return bool(row.magic < MAX_MAGIC) and not choice.era.converts


@kernel
def _expires(row: Any, choice: Choice) -> bool:
    """Return whether null values of this batch are dropped: it has a delete horizon, and that has
    passed (S5.5). In v0 and v1 and without horizons, its segment decides.
    """
    bits = int(row.attributes)
    if (bits & CONTROL) != 0:
        return False
    if row.magic < MAX_MAGIC or not choice.era.horizons:
        return not choice.era.keep_deletes
    return (bits & DELETE_HORIZON) != 0 and bool(choice.now >= row.base_timestamp)


@inlined
def _retain(  # noqa: C901, PLR0912, PLR0915 - one pass
    legacy: bool,
    i: int,
    row_of: int,
    whole: bool,
    choice: Choice,
    verdict: BatchActions,
    out: Bytes,
    at: int,
) -> tuple[int, int, int]:
    """Fill in what the verdict says of the retained records of batch `i` in one pass. Write them to
    `out` from `at` on, unless the batch is copied.

    `legacy`: the batch is of v0 or v1. It is a constant where this is inlined, so code for v2 has
    none of the branches for others. `row_of`: row in `keep` of the batch's first record. `whole`:
    `keep` holds for all records.

    Neighbouring records that don't change are copied together. Records are first written as if no
    tombstone sets a delete horizon. At the first one that does, the horizon becomes the base
    timestamp, and everything is written again.

    Returns (fault, position in the area, end in `out`).
    """
    row = choice.blocks.rows[i]
    bits = int(row.attributes)
    old = legacy and not choice.era.converts
    # Converted v0 and v1 records have their own timestamps, and those of v0 none.
    log_append = (bits & LOG_APPEND_TIME) != 0 and (old or not legacy)
    plain = not (log_append or old)
    expired = _expires(row, choice)
    has_horizon = choice.era.horizons and (bits & DELETE_HORIZON) != 0
    sets_horizon = choice.era.horizons and not (has_horizon or old)
    horizon = choice.now + choice.delete_retention_ms if sets_horizon else -1
    base = row.base_timestamp if has_horizon else horizon
    base_known = (has_horizon or choice.cause[i]) and base >= 0
    # A batch that keeps everything is copied, unless it is converted, holds entries of another
    # format than its own, gets a horizon, or would get one that overflows.
    overflows = choice.era.horizons and base < 0
    reason = choice.blocks.mixed[i] if old else legacy or choice.cause[i] or overflows
    write = reason or expired or not whole
    growth = MOST_GROWTH if old else GROWTH
    fault, area, begin, end = open_area(choice.blocks, i)
    count, old_base = int(row.record_count), row.base_timestamp
    start = at
    first = NO_TIMESTAMP
    largest = NO_TIMESTAMP
    kept = nulls = shift = last = 0
    pos = begin
    run = -1
    r = row_of
    while fault == 0 and r < row_of + count:
        prefetch(area, pos + AHEAD)
        prefetch(area, pos + AHEAD + 64)
        fault, after, timestamp_delta, delta, _, _, value_size, tail, canonical = parse_record(
            area, pos, end
        )
        if fault != 0:
            break
        retain = choice.keep[r] and not (expired and value_size < 0)
        if retain and value_size < 0 and horizon >= 0:
            write, base_known, base, horizon = True, True, horizon, -1
            at, pos, r, run = start, begin, row_of, -1
            first, largest, kept, nulls = NO_TIMESTAMP, NO_TIMESTAMP, 0, 0
            continue
        r += 1
        if retain:
            timestamp = row.max_timestamp if log_append else old_base + timestamp_delta
            if kept == 0:
                first = timestamp
                if legacy:
                    shift = delta
                if not base_known:
                    base = first
            last = delta
            kept += 1
            nulls += value_size < 0
            largest = max(largest, timestamp)
        if retain and canonical and plain and shift == 0 and base == old_base:
            if run < 0:
                run = pos
        elif write:
            if run >= 0:
                fault, at = _end_run(area, run, pos, out, at)
                run = -1
            if retain and after - pos + growth > out.size - at:
                fault = Fault.CHANGED
            if fault != 0:
                break
            if retain and old:
                offset = delta - shift if row.magic == 1 else row.base_offset + delta
                key_size, key = read_varint(area, tail, after)
                value = after - 1 - max(value_size, 0)  # a record of v0 or v1 has no headers
                at = write_entry(
                    *(out, at, row.magic, bits & LOG_APPEND_TIME, offset, timestamp),
                    *(area, key, key_size, value, value_size),
                )
            elif retain:
                at = write_record(
                    *(area, pos, tail, after, canonical, timestamp_delta),
                    *(timestamp - base, delta, shift, out, at),
                )
        pos = after
    if fault == 0 and run >= 0 and write:
        fault, at = _end_run(area, run, pos, out, at)
    if fault == 0 and pos != end:
        fault = Fault.LEFT_OVER
    verdict.retained[i] = kept
    verdict.tombstones[i] = nulls
    verdict.first_timestamp[i] = first
    verdict.max_timestamp[i] = largest
    if legacy:
        verdict.base_offset[i] = row.base_offset + shift
        verdict.last_offset[i] = row.base_offset + last
    return fault, pos, at


@kernel
def _retain_legacy(
    i: int, row_of: int, whole: bool, choice: Choice, verdict: BatchActions, out: Bytes, at: int
) -> tuple[int, int, int]:
    """Do as `_retain`, compiled once: few logs have batches of v0 or v1."""
    return _retain(True, i, row_of, whole, choice, verdict, out, at)  # type: ignore[no-any-return]


@inlined
def _end_run(area: Bytes, run: int, pos: int, out: Bytes, at: int) -> tuple[int, int]:
    """Copy the unchanged records from `run` to `pos`. Return (fault, end in `out`)."""
    if pos - run > out.size - at:
        return Fault.CHANGED, at
    copy_bytes(out, at, area, run, pos - run)
    return 0, at + pos - run


@kernel
def _outcome(row: Any, i: int, choice: Choice, kept: int, nulls: int) -> tuple[int, int]:
    """Return (outcome of batch `i`, its delete horizon if it is rewritten, below 0 for none)."""
    if kept == 0:
        return EMPTY if choice.retention[i] == Retention.RETAIN_EMPTY else DROP, -1
    loses_none = kept == int(row.record_count)
    if _keeps_format(row, choice):
        return COPY if loses_none and not choice.blocks.mixed[i] else REWRITE, -1
    has_horizon = choice.era.horizons and (int(row.attributes) & DELETE_HORIZON) != 0
    needs_horizon = choice.era.horizons and not has_horizon and (nulls > 0 or choice.cause[i])
    if loses_none and not needs_horizon and row.magic == MAX_MAGIC:
        return COPY, -1
    if needs_horizon:  # may wrap, as Java's does; then there is none
        return REWRITE, choice.now + choice.delete_retention_ms
    return REWRITE, row.base_timestamp if has_horizon else -1


@inlined
def filter_records(
    i: int, row_of: int, choice: Choice, verdict: BatchActions, out: Bytes, at: int
) -> tuple[int, int, int]:
    """Decide on batch `i`: set its items of the verdict. If it is rewritten, write its records to
    `out` from `at` on. Return (fault, position in its array, end in `out`).

    `row_of`: row in `keep` of its first record.
    """
    row = choice.blocks.rows[i]
    total = int(row.record_count)
    stays = count_kept(choice.keep, row_of, row_of + total)
    fault, pos, written = 0, choice.blocks.begin[i], at
    if stays > 0 or total == 0:
        whole = stays == total
        if row.magic < MAX_MAGIC:
            fault, pos, written = _retain_legacy(i, row_of, whole, choice, verdict, out, at)
        else:
            fault, pos, written = _retain(False, i, row_of, whole, choice, verdict, out, at)
        if fault != 0:
            return fault, pos, at
    verdict.action[i], verdict.horizon[i] = _outcome(
        row, i, choice, verdict.retained[i], verdict.tombstones[i]
    )
    return fault, pos, written


@kernel
def assemble(  # noqa: C901, PLR0911, PLR0912, PLR0915 - one pass
    choice: Choice,
    verdict: BatchActions,
    payloads: Bytes,
    payload_starts: NDArray[np.int64],
    out: Bytes,
    rows: Rows,
) -> tuple[tuple[int, int, int], int, int]:
    """Write all output batches into `out` and their headers into `rows`. Return ((fault, row,
    position), batches, bytes).

    Compressed batches have their verdict and payloads already; those of the others are computed
    here. The headers of batches that keep an old format are left to the caller.
    """
    blocks = choice.blocks
    at = 0
    count = 0
    row_of = 0
    for i in range(blocks.rows.size):
        row = blocks.rows[i]
        first_row = row_of
        row_of += int(row.record_count)
        start = at
        written = 0
        changed = (Fault.CHANGED, i, blocks.begin[i]), count, at
        if not blocks.compressed[i] and choice.retention[i] != Retention.DELETE:
            if out.size - at < HEADER_V2_SIZE:
                return changed
            fault, pos, written = filter_records(
                i, first_row, choice, verdict, out, at + HEADER_V2_SIZE
            )
            if fault != 0:
                return (fault, i, pos), count, at
        what = verdict.action[i]
        if what == DROP:
            continue
        if count == rows.size:
            return changed
        target = rows[count]
        rows[count] = row
        payload, size = payload_starts[i], payload_starts[i + 1] - payload_starts[i]
        if what == COPY:
            size = row.size
            if row.position < 0 or size < 0 or row.position > blocks.raw.size - size:
                return (Fault.AREA, i, blocks.begin[i]), count, at
            if size > out.size - at:
                return changed
            copy_bytes(out, at, blocks.raw, row.position, size)
            at += size
        elif what == REWRITE and _keeps_format(row, choice):
            if ENTRY_SIZE + size > min(out.size - at, MAX_BATCH_SIZE):
                return changed
            stamped = (int(row.attributes) & LOG_APPEND_TIME) != 0
            timestamp = row.max_timestamp if stamped else verdict.max_timestamp[i]
            bits = int(row.attributes) & (CODEC_MASK | LOG_APPEND_TIME)
            at = write_entry(
                *(out, at, row.magic, bits, verdict.last_offset[i], timestamp),
                *(payloads, 0, -1, payload, size),
            )
        else:
            if out.size - at < HEADER_V2_SIZE:
                return changed
            at += HEADER_V2_SIZE
            bits = int(row.attributes) & _KEPT_BITS
            if what == EMPTY:
                target.base_timestamp = NO_TIMESTAMP
                target.record_count = 0
            else:
                if blocks.compressed[i]:
                    if size > out.size - at:
                        return changed
                    copy_bytes(out, at, payloads, payload, size)
                    at += size
                else:
                    at = written
                bits |= int(row.attributes) & CODEC_MASK
                if row.magic < MAX_MAGIC:
                    target.base_offset = verdict.base_offset[i]
                    target.last_offset = verdict.last_offset[i]
                target.base_timestamp = verdict.first_timestamp[i]
                if verdict.horizon[i] >= 0:
                    bits |= DELETE_HORIZON
                    target.base_timestamp = verdict.horizon[i]
                if int(row.attributes) & LOG_APPEND_TIME == 0:
                    target.max_timestamp = verdict.max_timestamp[i]
                target.record_count = verdict.retained[i]
            if at - start > MAX_BATCH_SIZE:
                return (Fault.SIZE, i, blocks.begin[i]), count, at
            target.attributes = bits
            target.magic = MAX_MAGIC
            target.size = at - start
            write_header(out, start, target)
        target.position = start
        count += 1
    return (0, 0, 0), count, at


@kernel
def count_kept(keep: NDArray[np.bool_], first: int, end: int) -> int:
    kept = 0
    for r in range(first, end):
        kept += keep[r]
    return kept
