"""What a `read_committed` consumer needs to know of a log: the first offset of the first open
transaction, and which transactions aborted.

This follows a broker that loads the log (S8.4): take the newest sound producer snapshot, then
replay the batches after it. Aborted transactions come from the transaction indexes and from the
replay. A log that was not closed, or was copied without its index, may have them only in the
batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import Piece, TornLogError
from winnow.logdir.lookup import Segments
from winnow.logdir.names import SNAPSHOT, TXNINDEX, base_offset_of, segment_file
from winnow.logdir.snapshots import read_snapshot
from winnow.policy.transaction_runs import EVENT
from winnow.policy.transactions import ABORTED, DATA, sequence
from winnow.survey.gather import decode_aborted, events_of
from winnow.wire.batch import MAX_OFFSET
from winnow.wire.buffers import Array
from winnow.wire.control import ControlType


def read_stable(segments: Segments) -> tuple[int | None, Array]:
    """Return the last stable offset, None for the log's end, and the aborted transactions, dtype
    ABORTED.

    Raises CorruptLogError if the log after the snapshot, or an index, can't be read.
    """
    start, opened = _at_snapshot(segments)
    events = np.concatenate([opened, *_events(segments, start)])
    seen = sequence(events["kind"], events["producer_id"], events["offset"])
    first = seen.first()
    aborts = seen.end & (first >= 0) & (events["kind"][seen.rows] == int(ControlType.ABORT))
    replayed = np.zeros(np.count_nonzero(aborts), ABORTED)
    replayed["producer_id"] = seen.producer_id[aborts]
    replayed["first_offset"] = first[aborts]
    replayed["last_offset"] = seen.offset[aborts]
    still_open = first[seen.last & ~seen.end].tolist()
    aborted = np.concatenate([*_indexed(segments), replayed])
    # Of two entries for one marker the first one counts: that of the index.
    _, chosen = np.unique(aborted[["producer_id", "last_offset"]], return_index=True)
    return min(still_open, default=None), aborted[chosen]


def _at_snapshot(segments: Segments) -> tuple[int, Array]:
    """Return the offset from which to replay, and the transactions that are open there as events of
    their first data.
    """
    storage, directory = segments.storage, segments.directory
    names = [entry.name for entry in storage.list_dir(directory) if entry.name.endswith(SNAPSHOT)]
    for offset in sorted(map(base_offset_of, names), reverse=True):
        try:
            entries = read_snapshot(storage, f"{directory}/{segment_file(offset, SNAPSHOT)}")
        except CorruptLogError:
            continue  # a broker also takes the next older one
        if offset > segments.bases[-1] and offset > _readable_end(segments):
            continue  # the log was longer when this snapshot was written
        firsts = [(e.producer_id, e.current_txn_first_offset, DATA, True) for e in entries]
        return offset, np.array([one for one in firsts if one[1] >= 0], EVENT)
    return segments.bases[0], np.empty(0, EVENT)


def _events(segments: Segments, start: int) -> Iterator[Array]:
    """Yield the events of the batches from `start` on, dtype EVENT."""
    for number, base in enumerate(segments.bases):
        following = segments.following(number)
        if following is not None and following <= start:
            continue
        for piece in _pieces(segments, number, max(start, base)):
            rows = piece.rows[piece.rows["base_offset"] >= start]
            yield events_of(piece.data, segments.path(number), rows)


def _indexed(segments: Segments) -> Iterator[Array]:
    for number, base in enumerate(segments.bases):
        path = segments.path(number, TXNINDEX)
        if segments.storage.exists(path):
            data = segments.storage.read_bytes(path)
            yield decode_aborted(data, path, base, segments.following(number))


def _readable_end(segments: Segments) -> int:
    last = len(segments.bases) - 1
    pieces = _pieces(segments, last, MAX_OFFSET)
    return max(
        (int(piece.rows["last_offset"][-1]) + 1 for piece in pieces), default=segments.bases[last]
    )


def _pieces(segments: Segments, number: int, offset: int) -> Iterator[Piece]:
    """Yield the pieces of a segment that reach `offset`. The last one may end inside a batch."""
    try:
        entry, _ = segments.floor(number, offset)
        yield from segments.pieces(number, entry)
    except TornLogError:
        if segments.following(number) is not None:
            raise
