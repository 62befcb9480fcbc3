"""Where an offset or a timestamp leads: which segment, which index entry, which batch (S1.6, S1.7).

As a broker finds it: the segment by binary search over the base offsets in the file names, a place
to begin in it by binary search in its sparse index, the batch by a scan from there. A timestamp
leads to the first record at or after it, in the first segment whose largest timestamp reaches it -
and in no later one, exactly as `offsetsForTimes` answers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import Piece, read_batches, records_of
from winnow.logdir.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    Array,
    decode_offset_index,
    decode_time_index,
    without_preallocated,
)
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, base_offset_of, segment_file
from winnow.storage.contract import Entry, Storage
from winnow.wire.batch import CONTROL, MAX_OFFSET_SPAN
from winnow.wire.plain import Record
from winnow.wire.walk import MAX_BASE_OFFSET


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """An entry of an offset index: the last offset of the batch at a position (bytes)."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A batch in a log, and how it was come by."""

    path: str
    base_offset: int
    """Of the segment."""
    index_entry: IndexEntry | None
    """Where the scan began; None if it was the start of the file."""
    scanned: int
    """Batches whose headers were read on the way, this one included."""
    piece: Piece
    row: int
    """The batch is this row of the piece."""
    record: Record | None
    """The first record at or after what was asked for; None where the batch has none of that kind
    (left).
    """
    notes: tuple[str, ...]
    """Indexes that could not be used."""

    @property
    def position(self) -> int:
        """Byte of the file at which the batch begins."""
        return self.piece.position(self.row)


class Segments:
    """The segments of one partition directory, by their file names."""

    def __init__(self, storage: Storage, directory: str) -> None:
        """Raises CorruptLogError if there is a log whose name is no offset, one that is no file, or
        none at all.
        """
        self._storage = storage
        self.directory = directory
        entries = storage.list_dir(directory)
        for entry in entries:
            if entry.name.endswith(LOG) and not entry.is_file:
                raise CorruptLogError(
                    "not a regular file", expected="a file", where=f"{directory}/{entry.name}"
                )
        self._files = {entry.name: entry for entry in entries if entry.is_file}
        self.bases = sorted(base_offset_of(name) for name in self._files if name.endswith(LOG))
        if not self.bases:
            raise CorruptLogError(
                "no segment", expected="at least one .log file", found="none", where=directory
            )

    def find_offset(self, offset: int) -> Found | None:
        """The first batch that ends at or after `offset`, and its first record from there on.

        None if the log ends before it. An offset below the log begins at its first batch: what a
        broker refuses is for the caller to know (log start offset).
        """
        for number in range(max(bisect_right(self.bases, offset) - 1, 0), len(self.bases)):
            # What the floor segment no longer has, since it was compacted, is followed by the next
            # one's first batch.
            found = self._scan_for_offset(number, offset)
            if found is not None:
                return found
        return None

    def first_data_record(self, offset: int) -> Record | None:
        """What a `read_uncommitted` consumer that seeks to `offset` gets first; None at the end of
        the log.

        `Found.record` may be another one: of a control batch, or none where cleaning left less of a
        batch.
        """
        for number in range(max(bisect_right(self.bases, offset) - 1, 0), len(self.bases)):
            entry = self._floor(number, offset, [])
            for piece in self._pieces(number, entry.position if entry else 0):
                data = (piece.rows["last_offset"] >= offset) & (
                    piece.rows["attributes"] & CONTROL == 0
                )
                for row in np.flatnonzero(data).tolist():
                    for record in records_of(piece, row, self.path(number)):
                        if record.offset >= offset:
                            return record
        return None

    def find_timestamp(self, timestamp: int, *, log_start_offset: int = 0) -> Found | None:
        """The first record from the log start offset on whose timestamp (ms) is `timestamp` or
        later; None without one.

        Raises CorruptLogError where it is in a batch that can't be read.
        """
        for number in range(len(self.bases)):
            times, notes = self.time_index(number)
            if self._largest_timestamp(number, times, notes) >= timestamp:
                return self._scan_for_timestamp(number, timestamp, log_start_offset, times, notes)
        return None

    def end_offset(self) -> int:
        """The offset after the last batch of the active segment; its base offset if there is none
        (S8.3).
        """
        last = len(self.bases) - 1
        entry = self._floor(last, MAX_BASE_OFFSET, [])
        pieces = self._pieces(last, entry.position if entry else 0)
        return max(
            (int(piece.rows[-1]["last_offset"]) + 1 for piece in pieces), default=self.bases[last]
        )

    def _scan_for_offset(self, number: int, offset: int) -> Found | None:
        notes: list[str] = []
        entry = self._floor(number, offset, notes)
        scanned = 0
        for piece in self._pieces(number, entry.position if entry else 0):
            row = int(np.searchsorted(piece.rows["last_offset"], offset))
            if row < len(piece.rows):
                record = next(
                    (r for r in records_of(piece, row, self.path(number)) if r.offset >= offset),
                    None,
                )
                return self._found(number, piece, row, entry, scanned + row + 1, record, notes)
            scanned += len(piece.rows)
        return None

    def _scan_for_timestamp(
        self, number: int, timestamp: int, log_start_offset: int, times: Array, notes: list[str]
    ) -> Found | None:
        at = int(np.searchsorted(times["timestamp"], timestamp, side="right")) - 1
        begin = int(times["offset"][at]) if at >= 0 else self.bases[number]
        entry = self._floor(number, max(begin, log_start_offset), notes)
        scanned = 0
        for piece in self._pieces(number, entry.position if entry else 0):
            for row in np.flatnonzero(piece.rows["max_timestamp"] >= timestamp).tolist():
                for record in records_of(piece, row, self.path(number)):
                    if record.timestamp >= timestamp and record.offset >= log_start_offset:
                        return self._found(
                            number, piece, row, entry, scanned + row + 1, record, notes
                        )
            scanned += len(piece.rows)
        return None

    def _found(
        self,
        number: int,
        piece: Piece,
        row: int,
        entry: IndexEntry | None,
        scanned: int,
        record: Record | None,
        notes: Sequence[str],
    ) -> Found:
        return Found(
            path=self.path(number),
            base_offset=self.bases[number],
            index_entry=entry,
            scanned=scanned,
            piece=piece,
            row=row,
            record=record,
            notes=tuple(notes),
        )

    def _largest_timestamp(self, number: int, times: Array, notes: Sequence[str]) -> int:
        """As a broker has it: the time index's last entry, else the file's age. Where the index
        can't tell, the log.
        """
        if notes:
            return max(
                (int(p.rows["max_timestamp"].max()) for p in self._pieces(number, 0)), default=-1
            )
        return int(times["timestamp"][-1]) if len(times) else self._log(number).mtime_ms

    def time_index(self, number: int) -> tuple[Array, list[str]]:
        """Entries of a segment's time index, and why its last one is not the largest timestamp, if
        so.
        """
        path = self.path(number, TIMEINDEX)
        empty = decode_time_index(b"", path, base_offset=0)
        if not self._exists(number, TIMEINDEX):
            return empty, []
        data = self._storage.read_bytes(path)
        kept = without_preallocated(data, TIME_ENTRY_SIZE)
        try:
            times = decode_time_index(
                kept, path, base_offset=self.bases[number], end_offset=self._end(number)
            )
        except CorruptLogError as error:
            return empty, [f"not used: {error}"]
        if len(kept) < len(data):
            return times, [f"a broker had not closed it: {path}"]
        return times, []

    def offset_index(self, number: int) -> tuple[Array, list[str]]:
        """Entries of a segment's offset index, none if there is no file, and why it could not be
        used, if so.
        """
        path, base, size = self.path(number, INDEX), self.bases[number], self.log_bytes(number)
        data = b""
        if self._exists(number, INDEX):
            data = without_preallocated(self._storage.read_bytes(path), OFFSET_ENTRY_SIZE)
        try:
            return decode_offset_index(
                data, path, base_offset=base, log_bytes=size, end_offset=self._end(number)
            ), []
        except CorruptLogError as error:
            return decode_offset_index(b"", path, base_offset=base, log_bytes=size), [
                f"not used: {error}"
            ]

    def log_bytes(self, number: int) -> int:
        """Size of a segment's log when the directory was listed."""
        return self._log(number).size

    def log_mtime_ns(self, number: int) -> int:
        """Of a segment's log when the directory was listed."""
        return self._log(number).mtime_ns

    def path(self, number: int, suffix: str = LOG) -> str:
        """Of a file of a segment."""
        return f"{self.directory}/{segment_file(self.bases[number], suffix)}"

    def floor(self, number: int, offset: int) -> int:
        """Byte of a segment's log from which on all batches lie that reach `offset`, as near as its
        index knows.
        """
        entry = self._floor(number, offset, [])
        return entry.position if entry else 0

    def _floor(self, number: int, offset: int, notes: list[str]) -> IndexEntry | None:
        """The last entry of the offset index at or below `offset`."""
        entries, why = self.offset_index(number)
        notes += why
        at = int(np.searchsorted(entries["offset"], offset, side="right")) - 1
        return (
            IndexEntry(int(entries["offset"][at]), int(entries["position"][at]))
            if at >= 0
            else None
        )

    def _pieces(self, number: int, start: int) -> Iterator[Piece]:
        return read_batches(
            self._storage,
            self.path(number),
            size=self.log_bytes(number),
            start=start,
            least_offset=self.bases[number],
        )

    def _end(self, number: int) -> int:
        """Offsets in the segment are below it."""
        following = self.bases[number + 1 : number + 2]
        return following[0] if following else self.bases[number] + MAX_OFFSET_SPAN + 1

    def _log(self, number: int) -> Entry:
        return self._files[segment_file(self.bases[number], LOG)]

    def _exists(self, number: int, suffix: str) -> bool:
        return segment_file(self.bases[number], suffix) in self._files
