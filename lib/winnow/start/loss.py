"""What a recovery deletes from a log besides a torn end: whole batches behind damage. A start of a
broker and `recover --truncate` delete the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from winnow.logdir.batches import Piece, bad_crcs, find_next, read_to_stop
from winnow.logdir.commit.truncation import LogCut, RemovedSegment
from winnow.logdir.names import LOG, MAX_LONG, segment_file
from winnow.start.loaded import LoadedLog
from winnow.storage.contract import Storage
from winnow.wire.batch import MAX_MAGIC, is_wrapper
from winnow.words import counted, size

_MOST_BYTES = 256 << 20
"""How far whole batches are counted, per log."""
_MOST_DAMAGES = 16
"""Each may be searched over 64 MiB for the next batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostBatches:
    """Whole batches in the bytes that go. `more`: they were not all counted."""

    batches: int = 0
    records: int = 0
    more: bool = False

    def __add__(self, other: LostBatches) -> LostBatches:
        return LostBatches(
            batches=self.batches + other.batches,
            records=self.records + other.records,
            more=self.more or other.more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    how: str
    """What is cut and removed, and why."""
    found: LostBatches
    bytes: int
    """Bytes of logs that go."""

    @property
    def amount(self) -> str:
        if not self.found.batches:
            return size(self.bytes)
        least = "at least " if self.found.more else ""
        records, many = counted(self.found.records, "record"), self.found.batches
        whole = "1 whole batch" if many == 1 else f"{many:,} whole batches"
        return f"{least}{records} in {whole}, {size(self.bytes)}"

    def __str__(self) -> str:
        return f"{self.how}: {self.amount}"


def loss_of(storage: Storage, directory: str, loaded: LoadedLog) -> Loss | None:
    """Return what a recovery with this outcome deletes, or None if it only cuts a torn end."""
    change = loaded.truncation
    return loss_in(
        storage,
        directory,
        cuts=change.cuts,
        removed=change.removed,
        new_start=None if change.created_segment is None else loaded.log_start_offset,
    )


def loss_in(
    storage: Storage,
    directory: str,
    *,
    cuts: Sequence[LogCut],
    removed: Sequence[RemovedSegment],
    new_start: int | None = None,
) -> Loss | None:
    """As `loss_of`. `new_start`: where an empty log begins in place of this one."""
    gone = [segment for segment in removed if segment.bytes]
    how = None
    if new_start is not None and gone:
        how = f"its log start offset is {new_start}, above its end: all is deleted"
    for cut in [] if how else cuts:
        name = segment_file(cut.base_offset, LOG)
        words = f"{name} is cut at offset {cut.next_offset} ({cut.why})"
        behind = None if gone else _next_batch(storage, directory, cut)
        if gone:
            how = f"{words}, and {counted(len(gone), 'later segment')} go"
        elif behind is not None:
            how = f"{words}, and whole batches from offset {behind} on go"
        if how:
            break
    if how is None and gone:
        how = f"{counted(len(gone), 'segment')} go"
    if how is None:
        return None
    parts = [
        *((cut.base_offset, cut.size, cut.before, cut.next_offset) for cut in cuts),
        *((segment.base_offset, 0, segment.bytes, segment.base_offset) for segment in gone),
    ]
    found, left = LostBatches(), _MOST_BYTES
    for base, start, end, least in parts:
        if left <= 0:
            found = replace(found, more=True)
            break
        path = f"{directory}/{segment_file(base, LOG)}"
        until = min(end, start + left)
        found += _count(storage, path, start, until, least)
        found = replace(found, more=found.more or until < end)
        left -= until - start
    total = sum(cut.bytes for cut in cuts) + sum(segment.bytes for segment in gone)
    return Loss(how=how, found=found, bytes=total)


def _next_batch(storage: Storage, directory: str, cut: LogCut) -> int | None:
    path = f"{directory}/{segment_file(cut.base_offset, LOG)}"
    found = find_next(storage, path, cut.size, cut.before, cut.next_offset, MAX_LONG)
    return None if found is None else found[1]


def _count(storage: Storage, path: str, start: int, end: int, least_offset: int) -> LostBatches:
    """Count the batches with the right CRC between two bytes of a log."""
    found = LostBatches()
    for _ in range(_MOST_DAMAGES):
        stop = start
        for piece in _pieces(storage, path, start, end, least_offset):
            found += _whole(piece)
            last = piece.rows[-1]
            stop = piece.start + int(last["position"]) + int(last["size"])
        following = None
        if stop < end:
            following = find_next(storage, path, stop, end, least_offset, MAX_LONG)
        if following is None:
            return found
        start = following[0]
    return replace(found, more=True)


def _pieces(
    storage: Storage, path: str, start: int, end: int, least_offset: int
) -> Iterator[Piece]:
    for item in read_to_stop(storage, path, size=end, start=start, least_offset=least_offset):
        if isinstance(item, Piece):
            yield item


def _whole(piece: Piece) -> LostBatches:
    is_sound = np.ones(len(piece.rows), bool)
    is_sound[list(bad_crcs(piece))] = False
    rows = piece.rows[is_sound]
    counts = np.where(rows["magic"] < MAX_MAGIC, 1, rows["record_count"])
    return LostBatches(
        batches=len(rows), records=int(counts.sum()), more=bool(is_wrapper(rows).any())
    )
