"""What the passes over headers return, column by column."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import (
    EMPTY,
    LEGACY,
    MAX_MAGIC,
    SMALLEST_RECORD,
)
from winnow.wire.buffers import Rows


def bits_of_plain(rows: Rows) -> int:
    bits = 0
    for row in rows:
        bits |= int(row["attributes"]) & 0xFFFF
        if row["magic"] < MAX_MAGIC:
            bits |= LEGACY
        elif row["record_count"] < 1:
            bits |= EMPTY
    return bits


def summed_plain(rows: Rows) -> bytes:
    columns = (rows[name].tolist() for name in ("base_offset", "size", "crc"))
    return b"".join(struct.pack(">qiI", *row) for row in zip(*columns, strict=True))


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
