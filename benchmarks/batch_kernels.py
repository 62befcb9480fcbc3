"""Writing the records and then the headers of many batches (S2.2). The callers have checked all
lengths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import ATTRIBUTES_AT, CRC_AT, HEADER_V2_SIZE
from winnow.wire.buffers import Bytes
from winnow.wire.kernels.crc import crc32c
from winnow.wire.kernels.memory import copy_bytes, store_be32, store_byte
from winnow.wire.kernels.record import inlined, kernel
from winnow.wire.kernels.varint import size_of_varint, write_varint


@inlined
def _size_of_cell(size: int) -> int:
    return size_of_varint(size) + max(size, 0)


@inlined
def _write_cell(out: Bytes, at: int, data: Bytes, begin: int, size: int) -> int:
    at = write_varint(out, at, size)
    if size > 0:
        copy_bytes(out, at, data, begin, size)
        at += size
    return at


@kernel
def write_areas(
    key_data: Bytes,
    key_begin: NDArray[np.int64],
    key_size: NDArray[np.int64],
    value_data: Bytes,
    value_begin: NDArray[np.int64],
    value_size: NDArray[np.int64],
    timestamps: NDArray[np.int64],
    ends: NDArray[np.int64],
    out: Bytes,
    bounds: NDArray[np.int64],
) -> None:
    """The records area of each batch, one after the other in `out`; that of batch b ends at
    `bounds[b + 1]`.
    """
    at = 0
    first = 0
    for b in range(ends.size):
        base_timestamp = timestamps[first]
        for i in range(first, ends[b]):
            timestamp, offset = timestamps[i] - base_timestamp, i - first
            size = 2 + size_of_varint(timestamp) + size_of_varint(offset)
            size += _size_of_cell(key_size[i]) + _size_of_cell(value_size[i])
            at = write_varint(out, at, size)
            store_byte(out, at, 0)  # attributes, unused
            at = write_varint(out, at + 1, timestamp)
            at = write_varint(out, at, offset)
            at = _write_cell(out, at, key_data, key_begin[i], key_size[i])
            at = _write_cell(out, at, value_data, value_begin[i], value_size[i])
            store_byte(out, at, 0)  # no headers
            at += 1
        first = ends[b]
        bounds[b + 1] = at


@kernel
def seal_batches(headers: Bytes, areas: Bytes, bounds: NDArray[np.int64], out: Bytes) -> None:
    """Header, records area and CRC of each batch, one after the other in `out`."""
    at = 0
    for b in range(bounds.size - 1):
        end = at + HEADER_V2_SIZE + bounds[b + 1] - bounds[b]
        copy_bytes(out, at, headers, b * HEADER_V2_SIZE, HEADER_V2_SIZE)
        copy_bytes(out, at + HEADER_V2_SIZE, areas, bounds[b], bounds[b + 1] - bounds[b])
        store_be32(out, at + CRC_AT, np.int64(crc32c(out, at + ATTRIBUTES_AT, end)))
        at = end
