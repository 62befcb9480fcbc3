"""Check every batch and every record of one log file. Report all that is wrong (S2)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from winnow.errors import CorruptLogError, OversizedBatchError
from winnow.logdir.batches import PIECE_BYTES, Piece, ReadStop, bad_crcs, find_next, read_to_stop
from winnow.logdir.indexes.checks import COLUMNS, columns_of
from winnow.policy.transaction_runs import EVENT, SegmentRuns, reduced
from winnow.policy.txn_entries import EntryPromises
from winnow.storage.contract import Storage
from winnow.survey.gather import events_of
from winnow.verbs.verify.findings import Checked, Finding, Scope
from winnow.verbs.verify.kinds import Kind
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    FRAME,
    FRAME_SIZE,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_OFFSET,
    WalkStatus,
    has_producer,
    out_of_reach,
)
from winnow.wire.buffers import Array, RecordBlocks, Rows
from winnow.wire.crc import crc32c
from winnow.wire.inflate import inflate_parts
from winnow.wire.record_checks import check_records
from winnow.wire.record_faults import Fault, record_error
from winnow.wire.walk import find_batch

_CAREFUL_BYTES = 4096
"""Size of a read where a whole piece can't be read: up to what the disk fails to return."""
_NO_EPOCH = -1
_HIDING = frozenset((Kind.CRC, Kind.BATCH, Kind.OFFSETS, Kind.UNREADABLE))
"""Kinds after which it is unknown which batches exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A file of batches, and what is known of it before it is read."""

    scope: Scope
    name: str
    size: int
    base_offset: int
    following: int | None = None
    """Base offset of the next segment."""
    recovered: bool = False
    """A starting broker reads this log and truncates it at the first unsound batch (S8.2)."""
    newest_epoch: int | None = None
    """Newest epoch in the leader-epoch-checkpoint; None if there is no epoch to compare with."""
    indexes: frozenset[str] | None = None
    """Suffixes of its index files. None for a log that has none of its own."""

    @property
    def path(self) -> str:
        return f"{self.scope.directory}/{self.name}"

    @property
    def end_offset(self) -> int:
        return out_of_reach(self.base_offset) if self.following is None else self.following


NO_BATCHES = np.empty(0, COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck:
    findings: tuple[Finding, ...]
    checked: Checked = field(default_factory=Checked)
    next_offset: int
    """The offset after the last batch that could be read."""
    sound_end: int | None = None
    """The offset after the last sound batch, if nothing but a torn tail follows it; else None."""
    sound_bytes: int = 0
    """Up to this byte there are only sound batches: the file's size if all of it is sound."""
    producers: bool = False
    """True if some batch was written by an idempotent or transactional producer."""
    batches: Array = field(default_factory=lambda: NO_BATCHES, repr=False)
    """Dtype COLUMNS: batches that begin below `sound_bytes`."""
    events: Array | None = field(default=None, repr=False)
    """Dtype EVENT, from `Gatherer`; None if some are unknown."""
    runs: SegmentRuns | None = field(default=None, repr=False)
    """How transactions span this segment; None if unknown or unreliable."""
    promises: EntryPromises | None = field(default=None, repr=False)
    """What its transaction index says about earlier segments; None as for `runs`."""


def check_log(storage: Storage, log: LogFile, *, max_decompressed_bytes: int) -> LogCheck:
    """Check one log file.

    Reads it in pieces, never by mmap: a page that a failing disk can't read would kill the process.
    Never raises for what is in the file, or for a file that can't be read.
    """
    reader = _Reader(storage, log, max_decompressed_bytes)
    at, least = 0, log.base_offset
    while at < log.size:
        at, least = reader.read_on(at, least)
    return reader.result()


class _Reader:
    def __init__(self, storage: Storage, log: LogFile, limit: int) -> None:
        self._storage = storage
        self._log = log
        self._limit = limit
        self._piece_bytes = PIECE_BYTES
        self._findings: list[Finding] = []
        self._columns: list[Array] = []
        self._events: list[Array] = []
        self._events_known = True
        self._producers = False
        self._checked = Checked(segments=1)
        self._next_offset = log.base_offset
        self._sound_end = 0
        """End of the last batch with the right CRC."""
        self._sound_next = log.base_offset
        """The offset after it."""
        self._told: set[Kind] = set()

    def read_on(self, at: int, least: int) -> tuple[int, int]:
        """Read up to the end, or to bytes that are not a batch. Return where to continue, and the
        least offset there.
        """
        log = self._log
        items = read_to_stop(
            self._storage,
            log.path,
            size=log.size,
            start=at,
            least_offset=least,
            piece_bytes=self._piece_bytes,
        )
        try:
            for item in items:
                if isinstance(item, ReadStop):
                    return self._pass(item, least)
                self._piece(item)
                at = item.position(-1) + int(item.rows[-1]["size"])
                least = int(item.rows[-1]["last_offset"]) + 1
        # CorruptLogError if the file has become shorter
        except (OSError, CorruptLogError) as error:
            if isinstance(error, OSError) and self._piece_bytes > _CAREFUL_BYTES:
                self._piece_bytes = _CAREFUL_BYTES
                return at, least
            self._add(Kind.UNREADABLE, error, position=at, offsets=(least, None))
        return log.size, least

    def _pass(self, stop: ReadStop, least: int) -> tuple[int, int]:
        """Report bytes that are not the next batch, and find where reading can continue."""
        log = self._log
        if stop.status is WalkStatus.OUT_OF_ORDER:
            # the batch in the length that its frame states, or up to the end of the file
            frame = self._storage.read_range(log.path, stop.position, FRAME_SIZE)
            size = FRAME_SIZE + max(FRAME.unpack(frame)[1], 0)
            size = min(size, log.size - stop.position)
            entry = self._storage.read_range(log.path, stop.position, size)
            if find_batch(entry, 0, 0, MAX_OFFSET + 1) == 0:
                offset = FRAME.unpack_from(entry)[0]
                self._add(Kind.OFFSETS, stop.error, position=stop.position, offsets=(offset, None))
                return stop.position, offset
        kind = Kind.OFFSETS if stop.status is WalkStatus.OUT_OF_ORDER else Kind.BATCH
        found = find_next(
            self._storage, log.path, stop.position, log.size, log.base_offset, log.end_offset
        )
        if found is None:
            position, following = log.size, log.following
            rest = f"no batch in the {log.size - stop.position} bytes up to the end"
        else:
            position, following = found
            rest = f"the next batch is at byte {position}"
        last = None if following is None else max(following - 1, least)
        message = f"{stop.error.what}; {rest}"
        self._add(kind, message, position=stop.position, offsets=(least, last))
        return position, least

    def _piece(self, piece: Piece) -> None:
        rows = piece.rows
        bad = list(bad_crcs(piece))
        for i in bad:
            self._on_batch(Kind.CRC, piece, rows[i], _wrong_crc(piece, rows[i]))
        sound = np.delete(rows, bad) if bad else rows
        self._columns.append(columns_of(piece))
        self._checked += Checked(batches=len(rows), bytes=int(rows["size"].sum()))
        self._next_offset = max(self._next_offset, int(rows[-1]["last_offset"]) + 1)
        if len(sound):
            self._sound_end = piece.start + int(sound[-1]["position"] + sound[-1]["size"])
            self._sound_next = int(sound[-1]["last_offset"]) + 1
            self._producers |= bool(has_producer(sound).any())
            self._headers(piece, sound)
            self._all_records(piece, sound)

    def _headers(self, piece: Piece, rows: Rows) -> None:
        """Compare these batches with the rest of the partition. Each problem is reported once for
        each log: where it begins.
        """
        log, newest, epochs = self._log, self._log.newest_epoch, rows["leader_epoch"]
        checks = [(epochs < _NO_EPOCH, "leader_epoch", f"a leader epoch {_NO_EPOCH} or above")]
        if newest is not None:
            words = f"a leader epoch up to {newest}, as in the checkpoint"
            checks.append((epochs > newest, "leader_epoch", words))
        if log.following is not None:
            words = f"offsets below the next segment, {log.following}"
            checks.insert(0, (rows["last_offset"] >= log.following, "last_offset", words))
        for wrong, column, expected in checks:
            kind = Kind.OFFSETS if column == "last_offset" else Kind.LEADER_EPOCHS
            if kind not in self._told and wrong.any():
                self._told.add(kind)
                row = rows[int(np.argmax(wrong))]
                message = f"expected {expected}, found {int(row[column])}"
                self._on_batch(kind, piece, row, message)

    def _all_records(self, piece: Piece, rows: Rows) -> None:
        for blocks in self._inflated(piece, rows):
            checks = check_records(blocks)
            for i in np.flatnonzero(checks.fault).tolist():
                row, fault = blocks.rows[i], Fault(checks.fault[i])
                if fault is Fault.MAX_TIMESTAMP:
                    message = (
                        f"the largest timestamp of its records is not {int(row['max_timestamp'])}"
                    )
                    self._on_batch(Kind.TIMESTAMP, piece, row, message)
                else:
                    error = record_error(fault, row, int(checks.position[i]))
                    self._on_batch(Kind.RECORDS, piece, row, error.what)
            readable = (checks.fault == Fault.NONE) | (checks.fault == Fault.MAX_TIMESTAMP)
            records = int(blocks.rows["record_count"][readable].sum(dtype=np.int64))
            self._checked += Checked(records=records)
            self._gather(piece, blocks.rows[readable])
            self._events_known &= bool(readable.all())

    def _inflated(self, piece: Piece, rows: Rows) -> Iterator[RecordBlocks]:
        """Decompress batches, together if possible. Halve the batches to find and report the ones
        that can't be decompressed: a call for each batch takes ten times as long.
        """
        try:
            for blocks in inflate_parts(piece.data, rows, limit=self._limit):
                yield blocks
                rows = rows[len(blocks.rows) :]
        except CorruptLogError as error:
            if len(rows) > 1:
                half = len(rows) // 2
                yield from self._inflated(piece, rows[:half])
                yield from self._inflated(piece, rows[half:])
                return
            kind = Kind.OVERSIZED if isinstance(error, OversizedBatchError) else Kind.RECORDS
            self._on_batch(kind, piece, rows[0], error.what)
            self._events_known = False

    def _gather(self, piece: Piece, rows: Rows) -> None:
        path, start = self._log.path, self._log.scope.log_start_offset
        try:
            self._events.append(events_of(piece.data, path, rows, log_start_offset=start))
        except CorruptLogError as error:
            if len(rows) > 1:
                half = len(rows) // 2
                self._gather(piece, rows[:half])
                self._gather(piece, rows[half:])
                return
            self._on_batch(Kind.RECORDS, piece, rows[0], error.what)
            self._events_known = False

    def _on_batch(self, kind: Kind, piece: Piece, row: np.void, what: str) -> None:
        offsets = (int(row["base_offset"]), int(row["last_offset"]))
        self._add(kind, what, position=piece.start + int(row["position"]), offsets=offsets)

    def _add(self, kind: Kind, what: str | Exception, **where: Any) -> None:  # noqa: ANN401 - as for `Scope.finding`
        self._findings.append(self._log.scope.finding(kind, self._log.name, what, **where))

    def result(self) -> LogCheck:
        log = self._log
        hidden = [
            f.position for f in self._findings if f.kind in _HIDING and f.position is not None
        ]
        sound_bytes = min(hidden, default=log.size)
        unreadable = any(f.kind is Kind.UNREADABLE for f in self._findings)
        findings = self._findings
        if log.recovered and log.following is None:
            findings = self._with_torn_tail()
        columns = np.concatenate([np.empty(0, COLUMNS), *self._columns])
        events = reduced(np.concatenate([np.empty(0, EVENT), *self._events]))
        return LogCheck(
            findings=tuple(findings),
            checked=self._checked,
            next_offset=self._next_offset,
            sound_end=None if unreadable or sound_bytes < self._sound_end else self._sound_next,
            sound_bytes=sound_bytes,
            batches=columns[columns["position"] < sound_bytes],
            events=events if self._events_known and not hidden else None,
            producers=self._producers,
        )

    def _with_torn_tail(self) -> list[Finding]:
        """Return the findings. Everything wrong behind the last sound batch is one of them."""
        log, end = self._log, self._sound_end
        tail = [
            f
            for f in self._findings
            if f.kind in _HIDING - {Kind.UNREADABLE} and (f.position or 0) >= end
        ]
        if not tail:
            return self._findings
        message = f"{log.size - end} bytes after the last whole batch: {tail[0].message}"
        offsets = (tail[0].first_offset, None)
        torn = log.scope.finding(Kind.TORN_TAIL, log.name, message, position=end, offsets=offsets)
        return [*(f for f in self._findings if f not in tail), torn]


def _wrong_crc(piece: Piece, row: np.void) -> str:
    start, end = int(row["position"]), int(row["position"] + row["size"])
    if row["magic"] == MAX_MAGIC:
        found = int(crc32c(piece.data, start + ATTRIBUTES_AT, end))
    else:
        found = zlib.crc32(piece.data[start + MAGIC_AT : end].data)
    return f"expected bytes with the CRC in the header, {int(row['crc']):08x}, found {found:08x}"
