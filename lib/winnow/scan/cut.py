"""Cut a segment into splits while its batch headers are read, and sum up each split's headers."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.advice import COPY
from winnow.errors import CorruptLogError
from winnow.logdir.batches import bad_crcs, read_batches
from winnow.pickling import pickled_by_fields
from winnow.runtime.spool import StoredKeys
from winnow.scan import plain_cut
from winnow.small_work import is_small
from winnow.storage.contract import Storage
from winnow.wire.batch import BATCH
from winnow.wire.buffers import Rows, as_rows

SPLIT_BYTES = 64 * 2**20
"""Log bytes of a scan task: many enough to make its fixed cost small, few enough to spread."""

SPLIT_RECORDS = 2**24
"""Records of a scan task: data compressed a thousandfold would otherwise exceed the memory."""

DENSEST = np.array([1, 1032, 32, 255, 2**17 // 3, 1, 1, 1])
"""Bytes to which one byte can expand, by codec (S2.4): an end of block of gzip, copies of snappy
and lz4, a run of zstd.
"""
_SUMMED_NS, _ROW_NS = 10, 3_700
"""Time that the functions of `winnow.scan.plain_cut` take for a batch."""


def batches_checksum(rows: NDArray[Any], before: int = 0) -> int:
    """Return the CRC-32 over base offset (8 bytes), size (4) and CRC (4) of each batch of `rows`
    (dtype BATCH), big-endian. `before`: the checksum of the preceding batches.

    A batch's own CRC covers its records, and each has been checked.
    """
    if is_small(len(rows) * _SUMMED_NS):
        return zlib.crc32(plain_cut.summed(rows), before)
    from winnow.scan.cut_kernel import SUMMED_BYTES, gather_summed  # noqa: PLC0415 - with numba

    summed = np.empty(SUMMED_BYTES * len(rows), np.uint8)
    gather_summed(as_rows(rows), summed)
    return zlib.crc32(summed.data, before)


def sum_up(
    rows: Rows,
    split_bytes: int,
    split_records: int,
    unfinished: tuple[int, int, bool],
    cuts: NDArray[np.int64],
) -> tuple[int, int, int, int, bool, int, int]:
    """Sum up some batches, and find where splits end: see `cut_kernel.sum_up`. `unfinished`: its
    first byte, its records so far, and whether it is plain.
    """
    given = as_rows(rows), DENSEST, split_bytes, split_records, *unfinished, cuts
    if is_small(len(rows) * _ROW_NS):
        return plain_cut.sum_up(*given)
    from winnow.scan import cut_kernel  # noqa: PLC0415 - with numba

    return cut_kernel.sum_up(*given)  # type: ignore[no-any-return]


def checksum_of_log(storage: Storage, path: str, *, size: int, least_offset: int) -> int:
    """Return the `batches_checksum` of all batches of a file. Raises CorruptLogError for damage."""
    checksum = 0
    for piece in read_batches(storage, path, size=size, least_offset=least_offset):
        for bad in bad_crcs(piece):
            raise CorruptLogError("wrong CRC", where=f"{path} at byte {piece.position(bad)}")
        checksum = batches_checksum(piece.rows, checksum)
    return checksum


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class Split:
    """A run of whole batches of one segment. Records are numbered from 0 inside it."""

    base_offset: int
    start: int
    end: int
    records: int
    """By `cut_kernel.sum_up`: only a guess for some batches of v0 and v1."""
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


@dataclass(slots=True)
class Cutter:
    """Receives the rows of a walk (dtype BATCH), piece by piece, in order."""

    base_offset: int
    path: str
    ended: list[Split] = field(default_factory=list)
    flags: int = 0
    """LEGACY: there are batches of v0 or v1. GUESSED: `records` is only a guess (`sum_up`)."""
    batches: int = 0
    records: int = 0
    _unfinished: tuple[int, int, bool] = 0, 0, True
    """Of the split that has not ended: its first byte, its records, and whether it is plain."""
    _end: int = 0
    _next_offset: int = 0
    _checksum: int = 0

    def add(self, rows: Rows) -> None:
        """Add rows, at least one. Raises CorruptLogError for a batch too small for its count."""
        cuts = np.empty((len(rows), 3), np.int64)
        wild, count, start, open_records, is_plain, records, flags = sum_up(
            rows, SPLIT_BYTES, SPLIT_RECORDS, self._unfinished, cuts
        )
        if wild >= 0:
            # Memory and tasks depend on the count.
            raise CorruptLogError(
                "a batch can't hold as many records as it says",
                expected=f"at most {plain_cut.most_records(rows[wild], DENSEST)}",
                found=str(int(rows[wild]["record_count"])),
                where=f"{self.path} at byte {int(rows[wild]['position'])}",
                hint=COPY,
            )
        self.batches += len(rows)
        self.records += records
        self.flags |= flags
        done = 0
        for row, in_split, plain in cuts[:count].tolist():
            self._sum_up(rows[done : row + 1])
            done = row + 1
            self.ended.append(self._split(in_split, plain=bool(plain)))
        if done < len(rows):
            self._sum_up(rows[done:])
        self._unfinished = start, open_records, is_plain

    def splits(self) -> tuple[Split, ...]:
        """Return the splits of everything that was added."""
        start, records, plain = self._unfinished
        if self._end == start:
            return tuple(self.ended)
        return (*self.ended, self._split(records, plain=plain))

    def _sum_up(self, rows: Rows) -> None:
        self._checksum = batches_checksum(rows, self._checksum)
        self._end = int(rows["position"][-1] + rows["size"][-1])
        self._next_offset = int(rows["last_offset"][-1]) + 1

    def _split(self, records: int, *, plain: bool) -> Split:
        """End the split after the last batch that was added, and return it."""
        base, end, next_offset = self.base_offset, self._end, self._next_offset
        start, least_offset = 0, base
        if self.ended:
            start, least_offset = self.ended[-1].end, self.ended[-1].next_offset
        return Split(base, start, end, records, least_offset, next_offset, plain, self._checksum)


def warm_up() -> None:
    """Compile the kernel for the types that a walk uses, into numba's cache."""
    Cutter(0, "").add(np.zeros(1, BATCH))
