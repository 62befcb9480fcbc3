"""The indexes of a segment, each entry held against the log that it is about.

What can be shown is shown, as kafka-dump-log does: entries up to a torn or preallocated end, then what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from winnow.errors import CorruptLogError
from winnow.inspect.logs import abort_markers
from winnow.inspect.values import Line, Note, OffsetLine, Problem, TimeLine
from winnow.logdir.batches import read_batches
from winnow.logdir.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    Array,
    check_index_against,
    decode_offset_index,
    decode_time_index,
    without_preallocated,
)
from winnow.logdir.txnindex import ENTRY, decode_txn_index
from winnow.storage.contract import Storage
from winnow.wire.batch import MAX_OFFSET_SPAN, is_wrapper

_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True, slots=True)
class LogFile:
    """The log that an index is about. `path` None: there is none."""

    path: str | None
    size: int
    base_offset: int
    following: int | None
    """Base offset of the next segment; None for the active one."""

    @property
    def end_offset(self) -> int:
        return self.base_offset + MAX_OFFSET_SPAN + 1 if self.following is None else self.following


def describe_offset_index(storage: Storage, path: str, log: LogFile) -> Iterator[Line]:
    """An OffsetLine per entry, then what is wrong with them."""
    data, remarks = _read(storage, path, log, OFFSET_ENTRY_SIZE)
    raw = np.frombuffer(data[: len(data) - len(data) % OFFSET_ENTRY_SIZE], _OFFSET_ENTRY)
    for offset, position in zip(raw["offset"].tolist(), raw["position"].tolist(), strict=True):
        yield OffsetLine(log.base_offset + offset, position)
    yield from remarks
    if log.path is None:
        yield Problem(f"an index without a log ({path})")
        return
    try:
        entries = decode_offset_index(
            data, path, base_offset=log.base_offset, log_bytes=log.size, end_offset=log.end_offset
        )
        batches, _ = _columns(storage, log)
        check_index_against(entries, batches, file=path, wrappers=batches["wrapper"])
    except CorruptLogError as error:
        yield Problem(str(error))


def describe_time_index(storage: Storage, path: str, log: LogFile) -> Iterator[Line]:
    """A TimeLine per entry, then what is wrong with them."""
    data, remarks = _read(storage, path, log, TIME_ENTRY_SIZE)
    raw = np.frombuffer(data[: len(data) - len(data) % TIME_ENTRY_SIZE], _TIME_ENTRY)
    for timestamp, offset in zip(raw["timestamp"].tolist(), raw["offset"].tolist(), strict=True):
        yield TimeLine(timestamp, log.base_offset + offset)
    yield from remarks
    if log.path is None:
        yield Problem(f"an index without a log ({path})")
        return
    try:
        entries = decode_time_index(data, path, base_offset=log.base_offset, end_offset=log.end_offset)
        batches, complete = _columns(storage, log)
        closed = not any(isinstance(remark, Note) for remark in remarks)
        yield from _against_log(entries, batches, path, complete=complete and closed)
    except CorruptLogError as error:
        yield Problem(str(error))


def describe_txn_index(storage: Storage, path: str, log: LogFile) -> Iterator[Line]:
    """An AbortedTransaction per entry, then what is wrong with them."""
    data = storage.read_bytes(path)
    whole = data[: len(data) - len(data) % ENTRY.size]
    good = 0
    try:
        entries = decode_txn_index(whole, path, base_offset=log.base_offset, end_offset=log.end_offset)
        yield from entries
        good = len(entries)
        if len(data) > len(whole):
            decode_txn_index(data, path, base_offset=log.base_offset)
        if log.path is None:
            yield Problem(f"an index without a log ({path})")
        elif good:
            markers = abort_markers(storage, log.path, size=log.size, base_offset=log.base_offset)
            for number, entry in enumerate(entries):
                if (entry.producer_id, entry.last_offset) not in markers:
                    where = f"{path} at byte {number * ENTRY.size}"
                    yield Problem(
                        f"no ABORT marker of producer {entry.producer_id} at offset {entry.last_offset} ({where})"
                    )
    except CorruptLogError as error:
        yield Problem(str(error))


def _read(storage: Storage, path: str, log: LogFile, entry_size: int) -> tuple[bytes, list[Problem | Note]]:
    """The entries without preallocated zeros, and what to say of these: only of an active segment are they in order."""
    data = storage.read_bytes(path)
    kept = without_preallocated(data, entry_size)
    zeros = len(data) - len(kept)
    if not zeros:
        return data, []
    said = f"{zeros} bytes of zeros after the entries ({path} at byte {len(kept)})"
    if log.following is None and zeros % entry_size == 0:
        return kept, [Note(f"{said}: preallocated by a broker that runs or did not close it")]
    return kept, [Problem(said)]


def _columns(storage: Storage, log: LogFile) -> tuple[Array, bool]:
    """Position, last offset, largest timestamp and kind of all batches that can be read, and whether these are all."""
    parts = []
    complete = True
    columns = np.dtype(
        [("position", np.int64), ("last_offset", np.int64), ("max_timestamp", np.int64), ("wrapper", np.bool_)]
    )
    try:
        for piece in read_batches(storage, log.path or "", size=log.size, least_offset=log.base_offset):
            part = np.empty(len(piece.rows), columns)
            part["position"] = piece.rows["position"] + piece.start
            part["last_offset"], part["max_timestamp"] = piece.rows["last_offset"], piece.rows["max_timestamp"]
            part["wrapper"] = is_wrapper(piece.rows)
            parts.append(part)
    except CorruptLogError:  # told with the log itself
        complete = False
    return (np.concatenate(parts) if parts else np.empty(0, columns)), complete


def _against_log(entries: Array, batches: Array, path: str, *, complete: bool) -> Iterator[Problem]:
    """Each entry: the batch that ends at its offset has its timestamp, which is the largest so far (S1.7).

    `complete`: all of the log could be read, and the last entry is there that is made when a segment is closed.
    """
    lasts, stamps = batches["last_offset"], batches["max_timestamp"]
    running = np.maximum.accumulate(stamps) if len(stamps) else stamps
    at = np.searchsorted(lasts, entries["offset"])
    for number, (batch, timestamp, offset) in enumerate(
        zip(at.tolist(), entries["timestamp"].tolist(), entries["offset"].tolist(), strict=True)
    ):
        where = f"{path} at byte {number * TIME_ENTRY_SIZE}"
        if batch == len(lasts):
            yield Problem(f"a time index entry beyond what can be read of the log: offset {offset} ({where})")
        elif lasts[batch] != offset:
            yield Problem(f"a time index entry that names no batch: offset {offset} ({where})")
        elif stamps[batch] != timestamp:
            yield Problem(f"a time index entry with a wrong timestamp: {timestamp}, not {stamps[batch]} ({where})")
        elif running[batch] != timestamp:
            yield Problem(f"a time index entry that is not the largest timestamp so far: {timestamp} ({where})")
    last = entries["timestamp"][-1] if len(entries) else -1
    if complete and len(running) and last < running[-1]:
        yield Problem(
            f"the last time index entry is not the segment's largest timestamp: {last}, not {running[-1]} ({path})"
        )
