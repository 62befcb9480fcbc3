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
from winnow.logdir.batches import Piece, TornLogError, read_batches
from winnow.logdir.indexes.txnindex import AbortedTransaction, read_txn_index
from winnow.logdir.lookup import Segments
from winnow.logdir.names import SNAPSHOT, TXNINDEX, base_offset_of, segment_file
from winnow.logdir.snapshots import read_snapshot
from winnow.policy.transactions import ABORTED, DATA
from winnow.storage.contract import Storage
from winnow.survey.gather import Gatherer, aborted_rows
from winnow.wire.control import ControlType
from winnow.wire.walk import MAX_BASE_OFFSET

Array = np.ndarray[Any, np.dtype[Any]]
_ABORT = int(ControlType.ABORT)


@dataclass(frozen=True, slots=True)
class Stable:
    """`end`: the last stable offset; None: the log's end. `aborted`: dtype ABORTED, by marker."""

    end: int | None
    aborted: Array


def read_stable(storage: Storage, segments: Segments) -> Stable:
    """Read the last stable offset and the aborted transactions.

    Raises CorruptLogError if the log after the snapshot, or an index, can't be read.
    """
    open_, replayed = _replayed(storage, segments)
    known = {(entry.producer_id, entry.last_offset): entry for entry in replayed}
    for number, base in enumerate(segments.bases):
        path = segments.path(number, TXNINDEX)
        if storage.exists(path):
            following = segments.bases[number + 1] if number + 1 < len(segments.bases) else None
            entries = read_txn_index(storage, path, base_offset=base, end_offset=following)
            known |= {(entry.producer_id, entry.last_offset): entry for entry in entries}
    aborted = aborted_rows(known.values()) if known else np.empty(0, ABORTED)
    return Stable(
        min(open_.values(), default=None),
        aborted[np.argsort(aborted["last_offset"], kind="stable")],
    )


def _replayed(
    storage: Storage, segments: Segments
) -> tuple[dict[int, int], list[AbortedTransaction]]:
    """Return each producer's first offset of an open transaction, and aborts after the snapshot."""
    names = [
        entry.name
        for entry in storage.list_dir(segments.directory)
        if entry.name.endswith(SNAPSHOT)
    ]
    for offset in sorted(map(base_offset_of, names), reverse=True):
        try:
            entries = read_snapshot(
                storage, f"{segments.directory}/{segment_file(offset, SNAPSHOT)}"
            )
        except CorruptLogError:
            continue  # a broker also takes the next older one
        if offset > segments.bases[-1] and offset > _readable_end(storage, segments):
            continue  # the log was longer when this snapshot was written
        open_ = {
            e.producer_id: e.current_txn_first_offset
            for e in entries
            if e.current_txn_first_offset >= 0
        }
        return _replay(storage, segments, offset, open_)
    return _replay(storage, segments, segments.bases[0], {})


def _replay(
    storage: Storage, segments: Segments, start: int, open_: dict[int, int]
) -> tuple[dict[int, int], list[AbortedTransaction]]:
    aborted = []
    for producer, offset, kind in _events(storage, segments, start):
        if kind == DATA:
            open_.setdefault(producer, offset)
            continue
        first = open_.pop(producer, None)
        if kind == _ABORT and first is not None:
            stable = min(offset + 1, *open_.values()) if open_ else offset + 1
            aborted.append(AbortedTransaction(producer, first, offset, stable))
    return open_, aborted


def _events(storage: Storage, segments: Segments, start: int) -> list[tuple[int, int, int]]:
    """Return (producer id, base offset, kind) of the relevant batches from `start` on."""
    found: list[tuple[int, int, int]] = []
    for number, base in enumerate(segments.bases):
        following = segments.bases[number + 1] if number + 1 < len(segments.bases) else None
        if following is None or following > start:
            for piece in _pieces(storage, segments, number, max(start, base)):
                gatherer = Gatherer(
                    piece.data, segments.path(number), producers_from=None, log_start_offset=0
                )
                gatherer.add(piece.rows[piece.rows["base_offset"] >= start])
                found += gatherer.events()[["producer_id", "offset", "kind"]].tolist()
    return found


def _readable_end(storage: Storage, segments: Segments) -> int:
    last = len(segments.bases) - 1
    pieces = _pieces(storage, segments, last, MAX_BASE_OFFSET)
    return max(
        (int(piece.rows["last_offset"][-1]) + 1 for piece in pieces), default=segments.bases[last]
    )


def _pieces(storage: Storage, segments: Segments, number: int, offset: int) -> Iterator[Piece]:
    """Yield the pieces of a segment that reach `offset`. The last one may end inside a batch."""
    path, start, size = (
        segments.path(number),
        segments.floor(number, offset),
        segments.log_bytes(number),
    )
    try:
        yield from read_batches(
            storage, path, size=size, start=start, least_offset=segments.bases[number]
        )
    except TornLogError:
        if number + 1 < len(segments.bases):
            raise
