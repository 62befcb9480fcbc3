"""Find the segment, index entry and batch for an offset or a timestamp (S1.6, S1.7).

It searches as a broker does: the segment by binary search over the base offsets in the file names,
a start position by binary search in the sparse index, the batch by a scan from there. A timestamp
leads to the first record at or after it, in the first segment whose largest timestamp reaches it,
and in no later one, exactly as `offsetsForTimes` answers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import Piece, read_batches, records_of
from winnow.logdir.files import log_bases
from winnow.logdir.indexes.index import (
    OFFSET_ENTRY,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY,
    TIME_ENTRY_SIZE,
    decode_offset_index,
    decode_time_index,
    without_preallocated,
)
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, segment_file
from winnow.storage.contract import Entry, Storage
from winnow.wire.batch import CONTROL, MAX_OFFSET, out_of_reach
from winnow.wire.buffers import Array
from winnow.wire.plain import Record

_ANY = -(2**63)
"""No timestamp is below it."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """An entry of an offset index: the last offset of the batch at a position (bytes)."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBatch:
    """A batch in a log, and how it was found."""

    path: str
    index_entry: IndexEntry | None
    """The index entry where the scan began. None if it began at the start of the file."""
    scanned: int
    """How many batch headers were read, this one included."""
    piece: Piece
    row: int
    """The batch is this row of the piece."""
    record: Record | None
    """The first matching record. None if cleaning left no such record in the batch."""
    notes: tuple[str, ...]
    """Why indexes could not be used."""

    @property
    def position(self) -> int:
        """Byte of the file at which the batch begins."""
        return self.piece.position(self.row)


class Segments:
    """The segments of one partition directory, by their file names."""

    def __init__(self, storage: Storage, directory: str) -> None:
        """Raises CorruptLogError for no log, one without an offset as name, or no regular file."""
        self.storage = storage
        self.directory = directory
        entries = storage.list_dir(directory)
        for entry in entries:
            if entry.name.endswith(LOG) and not entry.is_file:
                raise CorruptLogError(
                    "not a regular file", expected="a file", where=f"{directory}/{entry.name}"
                )
        self._files = {entry.name: entry for entry in entries if entry.is_file}
        self.bases = log_bases(self._files)
        if not self.bases:
            raise CorruptLogError(
                "no segment", expected="at least one .log file", found="none", where=directory
            )

    def find_offset(self, offset: int) -> FoundBatch | None:
        """Return the first batch that ends at or after `offset`, and its first record from there.

        None if the log ends before it. For an offset below the log it is the first batch. A broker
        refuses offsets below the log start offset; checking that is up to the caller.
        """
        return next(self._from(offset), None)

    def first_data_record(self, offset: int) -> Record | None:
        """Return the first record that a `read_uncommitted` consumer gets when it seeks to
        `offset`. None at the end of the log.

        `FoundBatch.record` may be another one: it may be of a control batch, or None where cleaning
        removed records of a batch.
        """
        for found in self._from(offset):
            if found.record and not found.piece.rows[found.row]["attributes"] & CONTROL:
                return found.record
        return None

    def _from(self, offset: int) -> Iterator[FoundBatch]:
        # If compaction removed the offset from the floor segment, the first batch of the next
        # segment follows.
        for number in range(max(bisect_right(self.bases, offset) - 1, 0), len(self.bases)):
            yield from self._scan(number, offset, [], offset=offset)

    def find_timestamp(self, timestamp: int, *, log_start_offset: int = 0) -> FoundBatch | None:
        """Return the first record from the log start offset on whose timestamp (ms) is `timestamp`
        or later. None if there is none.

        Raises CorruptLogError if that record is in a batch that cannot be read.
        """
        for number in range(len(self.bases)):
            times, notes = self.index(number, TIMEINDEX)
            if self._largest_timestamp(number, times, notes) >= timestamp:
                at = int(np.searchsorted(times["timestamp"], timestamp, side="right")) - 1
                begin = int(times["offset"][at]) if at >= 0 else self.bases[number]
                start, least = max(begin, log_start_offset), log_start_offset
                found = self._scan(number, start, notes, offset=least, timestamp=timestamp)
                return next((one for one in found if one.record is not None), None)
        return None

    def find_in_segment(self, base_offset: int, timestamp: int) -> Record | None:
        """Return the first record of a segment whose timestamp (ms) is `timestamp` or later. None
        if there is none. Raises as `find_timestamp`.
        """
        number = self.bases.index(base_offset)
        times, notes = self.index(number, TIMEINDEX)
        at = int(np.searchsorted(times["timestamp"], timestamp)) - 1
        start = int(times["offset"][at]) if at >= 0 else base_offset
        found = self._scan(number, start, notes, offset=base_offset, timestamp=timestamp)
        return next((one.record for one in found if one.record is not None), None)

    def end_offset(self) -> int:
        """Return the offset after the last batch of the active segment, else its base (S8.3)."""
        last = len(self.bases) - 1
        entry, _ = self.floor(last, MAX_OFFSET)
        pieces = self.pieces(last, entry)
        ends = (int(piece.rows[-1]["last_offset"]) + 1 for piece in pieces)
        return max(ends, default=self.bases[last])

    def _scan(
        self, number: int, start: int, notes: list[str], *, offset: int, timestamp: int = _ANY
    ) -> Iterator[FoundBatch]:
        """Yield the batches of a segment that may have a record from `offset` and from `timestamp`
        on, each with its first such record. The index knows where to begin for `start`.
        """
        entry, why = self.floor(number, start)
        path, scanned = self.path(number), 0
        for piece in self.pieces(number, entry):
            reach = piece.rows["last_offset"] >= offset
            for row in np.flatnonzero(reach & (piece.rows["max_timestamp"] >= timestamp)).tolist():
                records = records_of(piece, row, path)
                wanted = (r for r in records if r.offset >= offset and r.timestamp >= timestamp)
                yield FoundBatch(
                    path=path,
                    index_entry=entry,
                    scanned=scanned + row + 1,
                    piece=piece,
                    row=row,
                    record=next(wanted, None),
                    notes=(*notes, *why),
                )
            scanned += len(piece.rows)

    def _largest_timestamp(self, number: int, times: Array, notes: list[str]) -> int:
        """Return a segment's largest timestamp as a broker sees it: the last entry of the time
        index, else the file's mtime. If the index is unusable, read the log.
        """
        if notes:
            stamps = (int(p.rows["max_timestamp"].max()) for p in self.pieces(number, None))
            return max(stamps, default=-1)
        return int(times["timestamp"][-1]) if len(times) else self.log(number).mtime_ms

    def index(self, number: int, suffix: str) -> tuple[Array, list[str]]:
        """Return the entries of a segment's offset index or time index, empty if it is missing, and
        notes: why it is not used, or why the last entry may not be the largest timestamp.
        """
        path, base, end = self.path(number, suffix), self.bases[number], self.following(number)
        end = out_of_reach(base) if end is None else end
        exists = segment_file(base, suffix) in self._files
        data, size = self.storage.read_bytes(path) if exists else b"", self.log(number).size
        try:
            if suffix == INDEX:
                kept = without_preallocated(data, OFFSET_ENTRY_SIZE)
                return decode_offset_index(
                    kept, path, base_offset=base, log_bytes=size, end_offset=end
                ), []
            kept = without_preallocated(data, TIME_ENTRY_SIZE)
            times = decode_time_index(kept, path, base_offset=base, end_offset=end)
        except CorruptLogError as error:
            dtype = OFFSET_ENTRY if suffix == INDEX else TIME_ENTRY
            return np.empty(0, dtype), [f"not used: {error}"]
        return times, [f"a broker had not closed it: {path}"] if len(kept) < len(data) else []

    def following(self, number: int) -> int | None:
        """Return the base offset of the next segment; None for the last one."""
        return self.bases[number + 1] if number + 1 < len(self.bases) else None

    def log(self, number: int) -> Entry:
        """Return a segment's log as it was when the directory was listed."""
        return self._files[segment_file(self.bases[number], LOG)]

    def path(self, number: int, suffix: str = LOG) -> str:
        return f"{self.directory}/{segment_file(self.bases[number], suffix)}"

    def floor(self, number: int, offset: int) -> tuple[IndexEntry | None, list[str]]:
        """Return the last entry of the offset index at or below `offset`, and the notes on it. All
        batches that reach `offset` lie at or after its position.
        """
        entries, notes = self.index(number, INDEX)
        at = int(np.searchsorted(entries["offset"], offset, side="right")) - 1
        return IndexEntry(*entries[at].tolist()) if at >= 0 else None, notes

    def pieces(self, number: int, begin: IndexEntry | None) -> Iterator[Piece]:
        """Read a segment's log from an index entry or its start on. Raises as `read_batches`."""
        path, size, least = self.path(number), self.log(number).size, self.bases[number]
        start = begin.position if begin else 0
        return read_batches(self.storage, path, size=size, start=start, least_offset=least)
