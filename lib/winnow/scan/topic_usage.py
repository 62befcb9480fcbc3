"""Count who uses Kafka's own topics: the groups and transactional ids whose records fill a segment.

The walk and the rewrite count while a segment's bytes are in memory, and the driver adds up. The
keys of other topics are never examined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from winnow.errors import CorruptLogError
from winnow.scan.chunks import slices_of
from winnow.scan.values import Holder
from winnow.storage.segment_io import Bytes, load
from winnow.wire.batch import CODEC_MASK
from winnow.wire.buffers import RecordBlocks, Rows
from winnow.wire.inflate import inflate_parts
from winnow.wire.names import count_names
from winnow.wire.records import check_crcs

SHOWN = 5
MOST_NAMES = 16_384
"""Names kept of one segment: those with the most bytes."""
_CHUNK_BYTES = 8 * 2**20
_MOST_BYTES = 32 * 2**20
"""Decompressed bytes of a batch, and of a part: no broker writes more to these topics."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """Records and bytes on disk by name, of one segment."""

    by_name: Mapping[bytes, tuple[int, int]]
    complete: bool = True
    """Whether no name was dropped."""


@dataclass(slots=True)
class HoldingsCounter:
    """Counts the names in a log, batch after batch, while a walk has its bytes in memory.

    It does not report damage: the cleaning reads the records again and refuses the partition.
    """

    buf: Bytes
    topic: str
    _sums: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    _complete: bool = True
    _damaged: bool = False

    def add(self, rows: Rows) -> None:
        """Count BATCH rows that follow those added before."""
        if self._damaged or not len(rows):
            return
        first, last = rows[0], rows[-1]
        load(self.buf, int(first["position"]), int(last["position"]) + int(last["size"]))
        try:
            check_crcs(self.buf, rows[(rows["attributes"] & CODEC_MASK) != 0])
            for some in slices_of(rows, _CHUNK_BYTES):
                for blocks in inflate_parts(
                    self.buf, rows[some], limit=_MOST_BYTES, enough=_MOST_BYTES
                ):
                    self.add_blocks(blocks)
        except CorruptLogError:
            self._damaged = True

    def add_blocks(self, blocks: RecordBlocks, hashes: NDArray[np.uint64] | None = None) -> None:
        """Count the rows of `blocks`. `hashes`: of scanned keys. Raises CorruptLogError."""
        counts, all_of_them = count_names(blocks, self.topic, most=MOST_NAMES, hashes=hashes)
        self._complete &= all_of_them
        figures = zip(counts.records.tolist(), counts.bytes.tolist(), strict=True)
        _add(self._sums, zip(counts.names, figures, strict=True))

    def add_all_of(self, other: HoldingsCounter) -> None:
        """Add the counts of another counter of the same topic."""
        self._complete &= other._complete
        self._damaged |= other._damaged
        _add(self._sums, other._sums.items())

    def holdings(self) -> Holdings | None:
        """Return the counts of everything added, or None if any of it is damaged."""
        if self._damaged:
            return None
        sums, complete = self._sums, self._complete
        if len(sums) > MOST_NAMES:
            complete = False
            sums = dict(sorted(sums.items(), key=lambda item: -item[1][1])[:MOST_NAMES])
        return Holdings(sums, complete)


def added(parts: Iterable[Holdings | None]) -> Holdings | None:
    """Return the sums of all parts. None if one is unknown."""
    sums: dict[bytes, tuple[int, int]] = {}
    complete = True
    for one in parts:
        if one is None:
            return None
        _add(sums, one.by_name.items())
        complete &= one.complete
    return Holdings(sums, complete)


def top_holders(
    before: Sequence[Holdings | None], after: Sequence[Holdings | None] | None
) -> tuple[tuple[Holder, ...], int | None]:
    """Return the names with the most bytes before, and the number of names. The number is None if
    unknown; so is everything if a part is unknown.

    `before` and `after`: of the segments before and after a run. `after` is None if nothing is
    known of it yet.
    """
    found = added(before)
    if found is None or not found.by_name:
        return (), None
    left = None if after is None else added(after)
    most = sorted(found.by_name.items(), key=lambda item: (-item[1][1], item[0]))[:SHOWN]
    holders = []
    for name, (records, size) in most:
        kept = (None, None) if left is None else left.by_name.get(name, (0, 0))
        holders.append(Holder(name.decode("utf-8", "backslashreplace"), records, size, *kept))
    return tuple(holders), len(found.by_name) if found.complete else None


def _add(
    sums: dict[bytes, tuple[int, int]], figures: Iterable[tuple[bytes, tuple[int, int]]]
) -> None:
    for name, (records, size) in figures:
        so_far = sums.get(name, (0, 0))
        sums[name] = (so_far[0] + records, so_far[1] + size)
