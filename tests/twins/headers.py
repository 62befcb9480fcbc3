"""What the passes over headers return, column by column."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import (
    CODEC_MASK,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    MAX_MAGIC,
    RECORD_OVERHEAD_V0,
)
from winnow.wire.buffers import Rows
from winnow.wire.kernels.headers import EMPTY, LEGACY
from winnow.wire.kernels.record import SMALLEST_RECORD


def bits_of_plain(rows: Rows) -> int:
    legacy = rows["magic"] < MAX_MAGIC
    bits = int(np.bitwise_or.reduce(rows["attributes"].view(np.uint16))) if len(rows) else 0
    bits |= LEGACY if legacy.any() else 0
    return bits | (EMPTY if (~legacy & (rows["record_count"] < 1)).any() else 0)


def summed_plain(rows: Rows) -> bytes:
    columns = (rows[name].tolist() for name in ("base_offset", "size", "crc"))
    return b"".join(struct.pack(">qiI", *row) for row in zip(*columns, strict=True))


def areas_plain(
    rows: Rows, skipped: NDArray[np.bool_], raw_size: int
) -> dict[str, NDArray[np.generic]] | None:
    """By name, one item per batch; None if a batch lies outside."""
    legacy = rows["magic"] < MAX_MAGIC
    overhead = np.where(legacy, FRAME_SIZE + RECORD_OVERHEAD_V0, HEADER_V2_SIZE)
    begin, end = rows["position"] + overhead, rows["position"] + rows["size"]
    if (rows["position"] < 0).any() or (begin > end).any() or (end > raw_size).any():
        return None
    codecs = (rows["attributes"] & CODEC_MASK).astype(np.int64)
    compressed = (codecs != 0) & ~legacy & ((rows["record_count"] > 0) | (end > begin))
    unread = compressed & skipped
    begin[unread] = end[unread] = 0
    return {
        "begin": begin,
        "end": end,
        "codecs": codecs,
        "legacy": legacy,
        "compressed": compressed,
        "unread": unread,
    }


def count_records_plain(
    rows: Rows, unread: NDArray[np.bool_], sizes: NDArray[np.int64]
) -> int | None:
    """None if an area is too small for its records."""
    counts = rows["record_count"].astype(np.int64)
    if ((counts < 0) | (~unread & (counts * SMALLEST_RECORD > sizes))).any():
        return None
    return int(counts.sum())


def extent_plain(rows: Rows, next_offset: int) -> tuple[bool, int, int]:
    ends = rows["position"] + rows["size"]
    steps = np.diff(np.concatenate([[next_offset - 1], rows["last_offset"]]))
    return bool((steps > 0).all()), int(rows["position"].min()), int(ends.max())
