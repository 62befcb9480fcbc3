"""The indexes of a segment. Each entry is compared with the log.

Like kafka-dump-log, this shows the entries up to a torn or preallocated end, then what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import read_batches
from winnow.logdir.indexes.checks import COLUMNS, check_offset_index, columns_of, time_index_faults
from winnow.logdir.indexes.index import (
    OFFSET_ENTRY_ON_DISK,
    TIME_ENTRY_ON_DISK,
    decode_time_index,
    without_preallocated,
)
from winnow.logdir.indexes.txnindex import ENTRY, decode_txn_index
from winnow.logdir.lookup import IndexEntry
from winnow.storage.contract import Storage
from winnow.verbs.inspect.logs import abort_markers
from winnow.verbs.inspect.values import FileKind, FileProblem, Line, Note, TimeLine
from winnow.wire.batch import out_of_reach
from winnow.wire.buffers import Array


@dataclass(frozen=True, slots=True)
class IndexedLog:
    """The log that an index belongs to. `path` is None if there is no log."""

    path: str | None
    size: int
    base_offset: int
    following: int | None
    """Base offset of the next segment; None for the active one."""

    @property
    def end_offset(self) -> int:
        return out_of_reach(self.base_offset) if self.following is None else self.following


def describe_index(storage: Storage, path: str, log: IndexedLog, kind: FileKind) -> Iterator[Line]:
    """Yield an IndexEntry or a TimeLine per entry, then what is wrong with them."""
    base, end, offsets = log.base_offset, log.end_offset, kind is FileKind.INDEX
    entry = OFFSET_ENTRY_ON_DISK if offsets else TIME_ENTRY_ON_DISK
    data, remarks = _read(storage, path, log, entry.itemsize)
    for one, two in np.frombuffer(data[: len(data) - len(data) % entry.itemsize], entry).tolist():
        yield IndexEntry(base + one, two) if offsets else TimeLine(one, base + two)
    yield from remarks
    if log.path is None:
        yield FileProblem(f"an index without a log ({path})")
        return
    try:
        batches, complete = _columns(storage, log)
        if offsets:
            check_offset_index(
                data, path, batches, base_offset=base, log_bytes=log.size, end_offset=end
            )
            return
        entries = decode_time_index(data, path, base_offset=base, end_offset=end)
        closed = not any(isinstance(remark, Note) for remark in remarks)
        for fault in time_index_faults(entries, batches, path, complete=complete and closed):
            yield FileProblem(str(fault))
    except CorruptLogError as error:
        yield FileProblem(str(error))


def describe_txn_index(storage: Storage, path: str, log: IndexedLog) -> Iterator[Line]:
    """Yield an AbortedTransaction per entry, then what is wrong with them."""
    data, base = storage.read_bytes(path), log.base_offset
    whole = data[: len(data) - len(data) % ENTRY.size]
    try:
        entries = decode_txn_index(whole, path, base_offset=base, end_offset=log.end_offset)
        yield from entries
        if len(data) > len(whole):
            decode_txn_index(data, path, base_offset=base)
        if log.path is None:
            yield FileProblem(f"an index without a log ({path})")
        elif entries:
            markers = abort_markers(storage, log.path, size=log.size, base_offset=base)
            for number, entry in enumerate(entries):
                if (entry.producer_id, entry.last_offset) not in markers:
                    where = f"{path} at byte {number * ENTRY.size}"
                    yield FileProblem(
                        f"no ABORT marker of producer {entry.producer_id} at offset "
                        f"{entry.last_offset} ({where})"
                    )
    except CorruptLogError as error:
        yield FileProblem(str(error))


def _read(
    storage: Storage, path: str, log: IndexedLog, entry_size: int
) -> tuple[bytes, list[FileProblem | Note]]:
    """Return the entries without preallocated zeros, and a comment on the zeros. They are correct
    only in an index of the active segment.
    """
    data = storage.read_bytes(path)
    kept = without_preallocated(data, entry_size)
    zeros = len(data) - len(kept)
    if not zeros:
        return data, []
    said = f"{zeros} bytes of zeros after the entries ({path} at byte {len(kept)})"
    if log.following is None and zeros % entry_size == 0:
        return kept, [Note(f"{said}: a broker preallocated them, and is running or crashed")]
    return kept, [FileProblem(said)]


def _columns(storage: Storage, log: IndexedLog) -> tuple[Array, bool]:
    """Return all batches that can be read (dtype COLUMNS), and whether these are all."""
    parts: list[Array] = []
    complete = True
    try:
        pieces = read_batches(storage, log.path or "", size=log.size, least_offset=log.base_offset)
        parts.extend(columns_of(piece) for piece in pieces)
    except CorruptLogError:  # reported with the log itself
        complete = False
    return (np.concatenate(parts) if parts else np.empty(0, COLUMNS)), complete
