"""Write records as entries of v0 and v1 again, and join batches, in jitted code (S5.7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import (
    FRAME_SIZE,
    LOG_APPEND_TIME,
    MAGIC_AT,
    RECORD_OVERHEAD_V0,
    RECORD_OVERHEAD_V1,
)
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.crc import crc32_part
from winnow.wire.kernels.legacy import ATTRIBUTES_V0_AT, CRC_V0_AT, TIMESTAMP_V1_AT
from winnow.wire.kernels.memory import copy_bytes, store_be32, store_be64, store_byte
from winnow.wire.kernels.record import check_area, kernel, parse_record
from winnow.wire.record_faults import Fault

_LEFT_OVER, _CHANGED = int(Fault.LEFT_OVER), int(Fault.CHANGED)


@kernel
def write_entries(
    inflated: Bytes,
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    rows: Rows,
    chosen: NDArray[np.bool_],
    rebuilt: NDArray[np.bool_],
    out: NDArray[np.uint8],
    starts: NDArray[np.int64],
    nulls: NDArray[np.int32],
    newest: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Count the null values of `chosen` batches, and write the records of `rebuilt` ones as
    entries.

    The records are v2 records, as `convert` writes them. In v1 the offsets of entries count from
    the batch's first record. `starts` (n + 1): where each batch's entries are in `out`; `newest`:
    its largest timestamp. Returns (fault, row, position in `inflated`).
    """
    at = 0
    for i in range(rows.size):
        starts[i] = at
        nulls[i] = 0
        newest[i] = -1
        if not chosen[i]:
            continue
        row = rows[i]
        pos = begin[i]
        stop = end[i]
        fault = check_area(inflated, pos, stop, int(row.record_count))
        if fault != 0:
            return fault, i, pos
        log_append = (int(row.attributes) & LOG_APPEND_TIME) != 0
        for _ in range(int(row.record_count)):
            fault, after, timestamp_delta, delta, key_at, key_size, value_size, _, _ = parse_record(
                inflated, pos, stop
            )
            if fault != 0:
                return fault, i, pos
            nulls[i] += value_size < 0
            timestamp = row.max_timestamp if log_append else row.base_timestamp + timestamp_delta
            newest[i] = max(newest[i], timestamp)
            if rebuilt[i]:
                size = RECORD_OVERHEAD_V1 if row.magic == 1 else RECORD_OVERHEAD_V0
                size += max(key_size, 0) + max(value_size, 0)
                if size + FRAME_SIZE > out.size - at:
                    return _CHANGED, i, pos
                store_be64(out, at, np.uint64(delta if row.magic == 1 else row.base_offset + delta))
                store_be32(out, at + 8, size)
                store_byte(out, at + MAGIC_AT, row.magic)
                bits = LOG_APPEND_TIME if log_append and row.magic == 1 else 0
                store_byte(out, at + ATTRIBUTES_V0_AT, bits)
                to = at + ATTRIBUTES_V0_AT + 1
                if row.magic == 1:
                    store_be64(out, at + TIMESTAMP_V1_AT, np.uint64(timestamp))
                    to += 8
                store_be32(out, to, key_size)
                copy_bytes(out, to + 4, inflated, key_at, max(key_size, 0))
                to += 4 + max(key_size, 0)
                store_be32(out, to, value_size)
                value_at = after - 1 - max(value_size, 0)  # a record of v0 or v1 has no headers
                copy_bytes(out, to + 4, inflated, value_at, max(value_size, 0))
                end_of = at + FRAME_SIZE + size
                crc = crc32_part(out, at + MAGIC_AT, end_of)
                store_be32(out, at + CRC_V0_AT, np.int64(crc))
                at = end_of
            pos = after
        if pos != stop:
            return _LEFT_OVER, i, pos
    starts[rows.size] = at
    return 0, 0, 0


@kernel
def join(
    raw: Bytes,
    positions: NDArray[np.int64],
    sizes: NDArray[np.int64],
    made: Bytes,
    made_starts: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> bool:
    """Write batches one after the other: those with a position from `raw`, the others from `made`.
    Return whether all fit.
    """
    at = 0
    for i in range(positions.size):
        size = sizes[i]
        if size < 0 or size > out.size - at:
            return False
        if positions[i] >= 0:
            if size > raw.size - positions[i]:
                return False
            copy_bytes(out, at, raw, positions[i], size)
        else:
            if size > made.size - made_starts[i]:
                return False
            copy_bytes(out, at, made, made_starts[i], size)
        at += size
    return at == out.size
