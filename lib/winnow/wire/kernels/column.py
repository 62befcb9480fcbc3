"""Locate keys, values and headers of records, and gather their bytes, in jitted code (S2.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import LOG_APPEND_TIME, MAX_MAGIC
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.kernels.memory import copy_bytes
from winnow.wire.kernels.record import AHEAD, check_area, kernel, parse_record, prefetch
from winnow.wire.kernels.varint import read_varint
from winnow.wire.record_faults import Fault

_ORDER, _LEFT_OVER = int(Fault.ORDER), int(Fault.LEFT_OVER)
_AREA, _HEADER = int(Fault.AREA), int(Fault.HEADER)


@kernel
def locate(
    raw: Bytes,
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    batches: Rows,
    batch_of: NDArray[np.int32],
    offsets: NDArray[np.int64],
    timestamps: NDArray[np.int64],
    key_at: NDArray[np.int64],
    key_sizes: NDArray[np.int32],
    value_at: NDArray[np.int64],
    value_sizes: NDArray[np.int32],
    headers_at: NDArray[np.int64],
    header_counts: NDArray[np.int32],
) -> tuple[int, int, int]:
    """Fill one item per record; positions count in the area's array. Return (fault, row of its
    batch, position).

    The arrays of keys, values and headers may be empty: then those parts are not stored. Everything
    is checked anyway.
    """
    n = 0
    keys, values, headers = key_at.size > 0, value_at.size > 0, headers_at.size > 0
    for i in range(batches.size):
        area = inflated if compressed[i] else raw
        count = int(batches[i].record_count)
        base = batches[i].base_offset
        last_delta = batches[i].last_offset - base
        appended = batches[i].attributes & LOG_APPEND_TIME != 0 and batches[i].magic == MAX_MAGIC
        base_timestamp = batches[i].max_timestamp if appended else batches[i].base_timestamp
        pos, stop = begin[i], end[i]
        fault = check_area(area, pos, stop, count)
        if fault != 0:
            return fault, i, pos
        if n + count > offsets.size:
            return _ORDER, i, pos
        previous = -1
        for _ in range(count):
            prefetch(area, pos + AHEAD)
            fault, after, timestamp_delta, delta, key, key_size, value_size, _, _ = parse_record(
                area, pos, stop
            )
            if fault != 0:
                return fault, i, pos
            if delta <= previous or delta > last_delta:
                return _ORDER, i, pos
            previous = delta
            batch_of[n] = i
            offsets[n] = base + delta
            timestamps[n] = base_timestamp if appended else base_timestamp + timestamp_delta
            if keys:
                key_at[n] = key
                key_sizes[n] = key_size
            if values or headers:
                # parse_record has read both numbers, so they exist.
                _, value = read_varint(area, key + max(key_size, 0), after)
                if values:
                    value_at[n] = value
                    value_sizes[n] = value_size
                if headers:
                    header_count, first_header = read_varint(
                        area, value + max(value_size, 0), after
                    )
                    headers_at[n] = first_header
                    header_counts[n] = header_count
            n += 1
            pos = after
        if pos != stop:
            return _LEFT_OVER, i, pos
    return 0, 0, 0


@kernel
def locate_headers(
    raw: Bytes,
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    batch_of: NDArray[np.int32],
    headers_at: NDArray[np.int64],
    header_counts: NDArray[np.int32],
    header_batch: NDArray[np.int32],
    key_at: NDArray[np.int64],
    key_sizes: NDArray[np.int32],
    value_at: NDArray[np.int64],
    value_sizes: NDArray[np.int32],
) -> int:
    """Fill one item per header of the records in columns of `locate`. Return a fault, or 0."""
    n = 0
    for i in range(batch_of.size):
        area = inflated if compressed[batch_of[i]] else raw
        at = headers_at[i]
        if header_counts[i] < 0 or n + header_counts[i] > header_batch.size:
            return _HEADER
        for _ in range(header_counts[i]):
            size, at = read_varint(area, at, area.size)
            if at < 0 or size < 0 or size > area.size - at:
                return _HEADER
            header_batch[n] = batch_of[i]
            key_at[n] = at
            key_sizes[n] = size
            size, at = read_varint(area, at + size, area.size)
            if at < 0 or size < -1 or size > area.size - at:
                return _HEADER
            value_at[n] = at
            value_sizes[n] = size
            at += max(size, 0)
            n += 1
    return 0


@kernel
def gather(
    raw: Bytes,
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    batch_of: NDArray[np.int32],
    at: NDArray[np.int64],
    sizes: NDArray[np.int32],
    ends: NDArray[np.int32],
    out: NDArray[np.uint8],
) -> int:
    """Join all items. `ends` (n + 1): where each begins and ends. Return a fault, or 0."""
    end = 0
    ends[0] = 0
    for i in range(batch_of.size):
        size = int(sizes[i])
        if size > 0:
            area = inflated if compressed[batch_of[i]] else raw
            if at[i] < 0 or at[i] > area.size - size or end > out.size - size:
                return _AREA
            copy_bytes(out, end, area, at[i], size)
            end += size
        ends[i + 1] = end
    return 0 if end == out.size else _AREA
