"""Parse and hash records: see `winnow.wire.records`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from winnow.wire.batch import ATTRIBUTES_AT, HEADER_V2_SIZE, MAX_MAGIC
from winnow.wire.kernels.compressed import Opening, open_batch
from winnow.wire.kernels.crc import crc32c
from winnow.wire.kernels.record import kernel, open_area, parse_record, prefetch
from winnow.wire.kernels.siphash import siphash
from winnow.wire.record_faults import Fault

if TYPE_CHECKING:
    from winnow.wire.buffers import RecordBlocks
    from winnow.wire.records import RecordColumns

WRONG_CRC = -1
_NO_HASH = (np.uint64(0), np.uint64(0))
_BATCH_AHEAD = 16_384
"""Bytes: the usual `batch.size` of a producer."""


@kernel
def scan(  # noqa: PLR0911 - one return per fault
    blocks: RecordBlocks,
    check_crc: bool,
    k0: np.uint64,
    k1: np.uint64,
    columns: RecordColumns,
    opening: Opening,
) -> tuple[tuple[int, int, int], int, int]:
    """Return ((fault, row of its batch, position in the area's array), finished batches, their
    records).
    """
    n = 0
    for i in range(blocks.rows.size):
        row = blocks.rows[i]
        opens = opening.codec != 0 and blocks.compressed[i]
        if check_crc and row.magic == MAX_MAGIC:
            start, size = row.position, row.size
            if start < 0 or size < HEADER_V2_SIZE or size > blocks.raw.size - start:
                return (Fault.AREA, i, blocks.begin[i]), i, n
            crc = crc32c(blocks.raw, start + ATTRIBUTES_AT, start + size)
            if np.int64(crc) != np.int64(row.crc):
                return (WRONG_CRC, i, 0), i, n
        if opens and not open_batch(blocks, i, opening):
            return (0, 0, 0), i, n
        fault, area, pos, stop = open_area(blocks, i)
        if fault != 0:
            return (fault, i, pos), i, n
        if n + row.record_count > columns.offset.size:
            return (Fault.CHANGED, i, pos), i, n
        span = row.last_offset - row.base_offset
        for _ in range(row.record_count):
            # The next batch, too: its checksum is computed first.
            prefetch(area, pos + _BATCH_AHEAD)
            prefetch(area, pos + _BATCH_AHEAD + 64)
            fault, pos, _, delta, key, key_size, value_size, _, _ = parse_record(area, pos, stop)
            if fault != 0:
                return (fault, i, pos), i, n
            columns.offset[n] = row.base_offset + min(max(delta, 0), span)
            columns.batch[n] = i
            columns.null_value[n] = value_size < 0
            columns.null_key[n] = key_size < 0
            first, second = siphash(area, key, key_size, k0, k1) if key_size >= 0 else _NO_HASH
            columns.hash[n, 0], columns.hash[n, 1] = first, second
            n += 1
        if pos != stop:
            return (Fault.LEFT_OVER, i, pos), i, n
    return (0, 0, 0), blocks.rows.size, n
