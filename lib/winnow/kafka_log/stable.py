"""What a `read_committed` consumer needs to know of a log: the first offset of the first open
transaction, and which transactions aborted.

This follows a broker that loads the log (S8.4): take the newest sound producer snapshot, then
replay the batches after it. Aborted transactions come from the transaction indexes and from the
replay. A log that was not closed, or was copied without its index, may have them only in the
batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import Piece, TornLogError
from winnow.logdir.indexes.txnindex import AbortedTransaction, decode_txn_index
from winnow.logdir.lookup import Segments
from winnow.logdir.names import SNAPSHOT, TXNINDEX, base_offset_of, segment_file
from winnow.logdir.snapshots import read_snapshot
from winnow.policy.transactions import DATA
from winnow.survey.gather import aborted_rows, events_of
from winnow.wire.control import ControlType
from winnow.wire.walk import MAX_BASE_OFFSET

Array = np.ndarray[Any, np.dtype[Any]]
_ABORT = int(ControlType.ABORT)


@dataclass(frozen=True, slots=True)
class Stable:
    """`end`: the last stable offset; None: the log's end. `aborted`: dtype ABORTED, by marker."""

    end: int | None
    aborted: Array


def read_stable(segments: Segments) -> Stable:
    """Read the last stable offset and the aborted transactions.

    Raises CorruptLogError if the log after the snapshot, or an index, can't be read.
    """
    open_, aborts = _replayed(segments)
    for number, base in enumerate(segments.bases):
        path = segments.path(number, TXNINDEX)
        if segments.storage.exists(path):
            end = segments.following(number)
            data = segments.storage.read_bytes(path)
            aborts += decode_txn_index(data, path, base_offset=base, end_offset=end)
    known = {(entry.producer_id, entry.last_offset): entry for entry in aborts}
    aborted = aborted_rows(known.values())
    return Stable(
        min(open_.values(), default=None),
        aborted[np.argsort(aborted["last_offset"], kind="stable")],
    )


def _replayed(segments: Segments) -> tuple[dict[int, int], list[AbortedTransaction]]:
    """Return each producer's first offset of an open transaction, and aborts after the snapshot."""
    storage, directory = segments.storage, segments.directory
    names = [entry.name for entry in storage.list_dir(directory) if entry.name.endswith(SNAPSHOT)]
    for offset in sorted(map(base_offset_of, names), reverse=True):
        try:
            entries = read_snapshot(storage, f"{directory}/{segment_file(offset, SNAPSHOT)}")
        except CorruptLogError:
            continue  # a broker also takes the next older one
        if offset > segments.bases[-1] and offset > _readable_end(segments):
            continue  # the log was longer when this snapshot was written
        open_ = {
            e.producer_id: e.current_txn_first_offset
            for e in entries
            if e.current_txn_first_offset >= 0
        }
        return _replay(segments, offset, open_)
    return _replay(segments, segments.bases[0], {})


def _replay(
    segments: Segments, start: int, open_: dict[int, int]
) -> tuple[dict[int, int], list[AbortedTransaction]]:
    aborted = []
    for producer, offset, kind in _events(segments, start):
        if kind == DATA:
            open_.setdefault(producer, offset)
            continue
        first = open_.pop(producer, None)
        if kind == _ABORT and first is not None:
            stable = min(offset + 1, *open_.values()) if open_ else offset + 1
            aborted.append(AbortedTransaction(producer, first, offset, stable))
    return open_, aborted


def _events(segments: Segments, start: int) -> Iterator[tuple[int, int, int]]:
    """Yield (producer id, base offset, kind) of the relevant batches from `start` on."""
    for number, base in enumerate(segments.bases):
        following = segments.following(number)
        if following is not None and following <= start:
            continue
        for piece in _pieces(segments, number, max(start, base)):
            rows = piece.rows[piece.rows["base_offset"] >= start]
            events = events_of(piece.data, segments.path(number), rows)
            yield from events[["producer_id", "offset", "kind"]].tolist()


def _readable_end(segments: Segments) -> int:
    last = len(segments.bases) - 1
    pieces = _pieces(segments, last, MAX_BASE_OFFSET)
    return max(
        (int(piece.rows["last_offset"][-1]) + 1 for piece in pieces), default=segments.bases[last]
    )


def _pieces(segments: Segments, number: int, offset: int) -> Iterator[Piece]:
    """Yield the pieces of a segment that reach `offset`. The last one may end inside a batch."""
    try:
        yield from segments.pieces(number, segments.floor(number, offset))
    except TornLogError:
        if segments.following(number) is not None:
            raise
