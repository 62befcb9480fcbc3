"""Cut a segment into splits while its batch headers are read, and sum up each split's headers."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.errors import CorruptLogError
from winnow.pickling import pickled_by_fields
from winnow.runtime.spool import StoredKeys
from winnow.scan.cut_kernel import GUESSED, SUMMED_BYTES, gather_summed, sum_up
from winnow.wire.batch import BATCH, CODEC_MASK, HEADER_V2_SIZE
from winnow.wire.buffers import Rows, as_rows
from winnow.wire.kernels.headers import LEGACY
from winnow.wire.kernels.record import SMALLEST_RECORD

SPLIT_BYTES = 64 * 2**20
"""Log bytes of a scan task: many enough to make its fixed cost small, few enough to spread."""

SPLIT_RECORDS = 2**24
"""Records of a scan task: data compressed a thousandfold would otherwise exceed the memory."""

DENSEST = np.array([1, 1032, 32, 255, 2**17 // 3, 1, 1, 1])
"""Bytes to which one byte can expand, by codec (S2.4): an end of block of gzip, copies of snappy
and lz4, a run of zstd.
"""


def batches_checksum(rows: NDArray[Any], before: int = 0) -> int:
    """Return the CRC-32 over base offset (8 bytes), size (4) and CRC (4) of each batch of `rows`
    (dtype BATCH), big-endian. `before`: the checksum of the preceding batches.

    A batch's own CRC covers its records, and each has been checked.
    """
    summed = np.empty(SUMMED_BYTES * len(rows), np.uint8)
    gather_summed(as_rows(rows), summed)
    return zlib.crc32(summed.data, before)


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class Split:
    """A run of whole batches of one segment. Records are numbered from 0 inside it."""

    base_offset: int
    start: int
    end: int
    records: int
    """By `chunks.counted`: only a guess for some batches of v0 and v1."""
    least_offset: int
    """Lower bound of its offsets."""
    next_offset: int
    """The offset after its last batch."""
    plain: bool
    """Whether it has only v2 batches, no transactional data and no markers."""
    checksum: int
    """See `batches_checksum`: covers the segment up to `end`."""
    keys: StoredKeys | None = None
    """The keys that a scan would find, if the walk has found them already."""


class Cutter:
    """Receives the rows of a walk (dtype BATCH), piece by piece, in order."""

    def __init__(self, base_offset: int, path: str) -> None:
        self._base_offset = base_offset
        self._path = path
        self.ended: list[Split] = []
        self._start = self._in_split = 0
        self._plain = True
        self._end, self._next_offset = 0, base_offset
        self._checksum = 0
        self._flags = 0
        self.batches = 0
        self.records = 0
        """See `guessed`."""

    @property
    def legacy(self) -> bool:
        """Whether there are v0 or v1 batches."""
        return bool(self._flags & LEGACY)

    @property
    def guessed(self) -> bool:
        """Whether `records` is only a guess (see `chunks.counted`)."""
        return bool(self._flags & GUESSED)

    def add(self, rows: Rows) -> None:
        """Add rows, at least one. Raises CorruptLogError for a batch too small for its count."""
        cuts = np.empty((len(rows), 4), np.int64)
        wild, count, self._start, self._in_split, self._plain, records, flags = sum_up(
            as_rows(rows),
            DENSEST,
            SPLIT_BYTES,
            SPLIT_RECORDS,
            self._start,
            self._in_split,
            self._plain,
            cuts,
        )
        if wild >= 0:
            raise _wild_count(rows[wild], self._path)
        self.batches += len(rows)
        self.records += records
        self._flags |= flags
        done = 0
        for row, end, in_split, plain in cuts[:count].tolist():
            self._checksum = batches_checksum(rows[done : row + 1], self._checksum)
            done = row + 1
            self.ended.append(
                self._split(end, in_split, int(rows["last_offset"][row]) + 1, plain=bool(plain))
            )
        self._checksum = batches_checksum(rows[done:], self._checksum)
        self._end = int(rows["position"][-1] + rows["size"][-1])
        self._next_offset = int(rows["last_offset"][-1]) + 1

    def splits(self) -> tuple[Split, ...]:
        """Return the splits of everything that was added."""
        if self._end > self._start:
            return (
                *self.ended,
                self._split(self._end, self._in_split, self._next_offset, plain=self._plain),
            )
        return tuple(self.ended)

    def _split(self, end: int, records: int, next_offset: int, *, plain: bool) -> Split:
        start, least_offset = 0, self._base_offset
        if self.ended:
            start, least_offset = self.ended[-1].end, self.ended[-1].next_offset
        return Split(
            self._base_offset, start, end, records, least_offset, next_offset, plain, self._checksum
        )


def _most_records(row: np.void) -> int:
    """Return the maximal number of records that a v2 batch can hold."""
    densest = int(DENSEST[row["attributes"] & CODEC_MASK])
    return min(
        int(row["last_offset"] - row["base_offset"]) + 1,
        int(row["size"] - HEADER_V2_SIZE) * densest // SMALLEST_RECORD,
    )


def _wild_count(row: np.void, path: str) -> CorruptLogError:
    """Return the error for an impossible record count, on which memory and tasks depend."""
    return CorruptLogError(
        "a batch can't hold as many records as it says",
        expected=f"at most {_most_records(row)}",
        found=str(int(row["record_count"])),
        where=f"{path} at byte {int(row['position'])}",
        hint="Copy the partition from another replica.",
    )


def warm_up() -> None:
    """Compile the kernel for the types that a walk uses, into numba's cache."""
    Cutter(0, "").add(np.zeros(1, BATCH))
