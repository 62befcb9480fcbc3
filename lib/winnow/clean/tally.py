"""What is counted while a group is rewritten: why records went, and a checksum over batches."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.clean.result import TOMBSTONE_AGES_MS, RecordsRemoved
from winnow.wire.batch import CONTROL
from winnow.wire.buffers import Rows

_SUMMED = np.dtype([("base_offset", ">i8"), ("size", ">i4"), ("crc", ">u4")])


def removed_records(
    rows: NDArray[Any],
    stays: NDArray[np.bool_],
    discard: NDArray[np.bool_],
    *,
    records_in: int,
    records_out: int,
) -> RecordsRemoved:
    """Of some filtered batches, dtype BATCH.

    `stays`: per record, what its key or, of a marker, its transaction says; never true in a batch
    to `discard`. What goes in spite of it are null values whose time has come (S5.5).
    """
    counts = rows["record_count"].astype(np.int64)
    control = (rows["attributes"] & CONTROL) != 0
    aborted = int(counts[discard & ~control].sum())
    markers = int(counts[discard & control].sum())
    tombstones = int(stays.sum()) - records_out
    superseded = records_in - records_out - aborted - markers - tombstones
    return RecordsRemoved(
        superseded=superseded, tombstones=tombstones, aborted=aborted, markers=markers
    )


def batches_checksum(rows: NDArray[Any], before: int = 0) -> int:
    """CRC-32 over base offset (8 bytes), size (4) and CRC (4) of each batch of `rows` (dtype
    BATCH), big-endian, going on from that of the batches `before`. A batch's own CRC covers its
    records, and each of these has been checked.
    """
    summed = np.empty(len(rows), _SUMMED)
    for name in _SUMMED.names or ():
        summed[name] = rows[name]
    return zlib.crc32(summed.tobytes(), before)


_LIMITS = np.array(TOMBSTONE_AGES_MS, np.int64)


def none_of_any_age() -> NDArray[np.int64]:
    return np.zeros(len(_LIMITS) + 1, np.int64)


def by_age(batches: Rows, tombstones: NDArray[np.integer[Any]], now: int) -> NDArray[np.int64]:
    """`tombstones` of each batch, or their bytes, added up as `PartitionResult.tombstones` has
    them.

    A batch is as old as its newest record; without a timestamp it is of the oldest.
    """
    ages = now - np.maximum(batches["max_timestamp"], 0)
    counts = none_of_any_age()
    np.add.at(counts, np.searchsorted(_LIMITS, ages, side="right"), tombstones)
    return counts
