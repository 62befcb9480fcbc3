"""Columns of keys and values to v2 batches, a gigabyte in seconds (S2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.batch_kernels import seal_batches, write_areas
from winnow.wire.batch import FRAME_SIZE, HEADER_V2_SIZE, MAX_MAGIC, NO_PRODUCER, Codec
from winnow.wire.buffers import Bytes, as_bytes
from winnow.wire.codecs import compress

_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_MOST_OVERHEAD = 32
"""Bytes of a record beside its key and its value: its attributes, the number of headers, and five
numbers at most.
"""
_SLACK = 10


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of byte strings: `size[i]` bytes of `data` from `begin[i]` on. They may overlap; -1
    is null.
    """

    data: Bytes
    begin: NDArray[np.int64]
    size: NDArray[np.int64]

    def __post_init__(self) -> None:
        fits = len(self.begin) == len(self.size)
        if fits:
            room = len(self.data) - np.maximum(self.size, 0)
            fits = bool(((self.size >= -1) & (self.begin >= 0) & (self.begin <= room)).all())
        if not fits:
            raise ValueError(f"cells that do not lie in their {len(self.data)} bytes of data")


def encode_batches(
    keys: Cells,
    values: Cells,
    timestamps: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    base_offset: int,
    codec: Codec = Codec.NONE,
) -> Bytes:
    """v2 batches of no producer and leader epoch 0, one after the other, with offsets from
    `base_offset` on, no gaps.

    `timestamps` in ms. `ends`: for each batch the number of the first record that is not in it any
    more, so that they ascend to the number of records. ValueError for columns that don't fit
    together.
    """
    _check(keys, values, timestamps, ends)
    if not len(ends):
        return as_bytes(b"")
    room = int(
        np.maximum(keys.size, 0).sum() + np.maximum(values.size, 0).sum()
    ) + _MOST_OVERHEAD * len(timestamps)
    areas = np.empty(room + _SLACK, np.uint8)
    bounds = np.zeros(len(ends) + 1, np.int64)
    write_areas(
        as_bytes(keys.data), keys.begin, keys.size, as_bytes(values.data), values.begin,
        values.size,
        timestamps, ends, areas, bounds,
    )  # fmt: skip
    if codec != Codec.NONE:
        pieces = [compress(codec, areas[begin:end]) for begin, end in pairwise(bounds.tolist())]
        areas = np.frombuffer(b"".join(pieces), np.uint8)
        bounds[1:] = np.cumsum([len(piece) for piece in pieces])
    headers = _headers(timestamps, ends, np.diff(bounds), base_offset, codec)
    out = np.empty(len(headers) + int(bounds[-1]), np.uint8)
    seal_batches(as_bytes(headers), as_bytes(areas), bounds, out)
    return as_bytes(out)


def _check(
    keys: Cells, values: Cells, timestamps: NDArray[np.int64], ends: NDArray[np.int64]
) -> None:
    total = int(ends[-1]) if len(ends) else 0
    if (
        not len(keys.size) == len(values.size) == len(timestamps) == total
        or (np.diff(ends, prepend=0) < 1).any()
    ):
        raise ValueError(
            f"batches of {total} records from {len(keys.size)} keys, {len(values.size)} "
            "values and as many times"
        )


def _headers(
    timestamps: NDArray[np.int64],
    ends: NDArray[np.int64],
    sizes: NDArray[np.int64],
    base_offset: int,
    codec: Codec,
) -> Bytes:
    """All of them but their CRCs, as uint8[HEADER_V2_SIZE * batches]."""
    begins = np.concatenate([[0], ends[:-1]])
    rows = np.zeros(len(ends), _HEADER)
    rows["base_offset"], rows["last_offset_delta"] = base_offset + begins, ends - begins - 1
    rows["length"], rows["record_count"] = HEADER_V2_SIZE - FRAME_SIZE + sizes, ends - begins
    rows["magic"], rows["attributes"] = MAX_MAGIC, int(codec)
    rows["base_timestamp"], rows["max_timestamp"] = (
        timestamps[begins],
        np.maximum.reduceat(timestamps, begins),
    )
    rows["producer_id"], rows["producer_epoch"], rows["base_sequence"] = NO_PRODUCER, -1, -1
    return rows.view(np.uint8)
