"""Transaction index: the aborted transactions whose markers a segment holds (S1.8).

entries of 34 bytes, no checksum:

version            int16   0
producerId         int64
firstOffset        int64   of the transaction
lastOffset         int64   of its ABORT marker
lastStableOffset   int64   right after the marker
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from winnow.errors import CorruptLogError

ENTRY = struct.Struct(">hqqqq")
"""version, and the fields of `AbortedTransaction` in its order."""

VERSION = 0


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """One aborted transaction. All offsets are absolute."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of its ABORT marker. The entry is in the segment that holds the marker."""
    last_stable_offset: int


def decode_txn_index(
    data: bytes, path: str, *, base_offset: int, end_offset: int | None = None
) -> tuple[AbortedTransaction, ...]:
    """Return all entries of a `.txnindex` file.

    `base_offset` is that of its segment, `end_offset` that of the next one. Raises CorruptLogError
    for a torn end, another version, offsets below 0, a transaction that ends before it begins, and
    markers that do not ascend or lie outside [base_offset, end_offset). A broker would rebuild the
    segment's indexes (S1.8).
    """
    if len(data) % ENTRY.size:
        torn = len(data) - len(data) % ENTRY.size
        raise _corrupt(f"a multiple of {ENTRY.size} bytes", f"{len(data)} bytes", path, torn)
    entries: list[AbortedTransaction] = []
    least = base_offset
    for number, (version, *fields) in enumerate(ENTRY.iter_unpack(data)):
        at = number * ENTRY.size
        where = f"{path} at byte {at}"
        if version != VERSION:
            raise _corrupt(f"version {VERSION}", str(version), where, at)
        entry = AbortedTransaction(*fields)
        if min(entry.producer_id, entry.first_offset, entry.last_stable_offset) < 0:
            raise _corrupt("a producer id and offsets of at least 0", str(entry), where, at)
        if entry.first_offset > entry.last_offset:
            raise _corrupt("a transaction that ends after it begins", str(entry), where, at)
        if entry.last_offset < least:
            raise _corrupt(
                f"a marker at offset {least} or above", str(entry.last_offset), where, at
            )
        if end_offset is not None and entry.last_offset >= end_offset:
            raise _corrupt(f"a marker below offset {end_offset}", str(entry.last_offset), where, at)
        least = entry.last_offset + 1
        entries.append(entry)
    return tuple(entries)


def unflushed_txn_entries(data: bytes, end_offset: int) -> bytes:
    """Return the entries of the index of a segment that a broker recovers (S8.2), without what a
    crash may leave behind them: a torn entry, zeros, and entries whose markers were cut.

    `end_offset`: the segment's valid batches end there. Whether entries are missing shows only in
    the log.
    """
    whole = data[: len(data) - len(data) % ENTRY.size]
    while whole and (
        not any(whole[-ENTRY.size :]) or ENTRY.unpack(whole[-ENTRY.size :])[3] >= end_offset
    ):
        whole = whole[: -ENTRY.size]
    return whole


def encode_txn_index(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(
        ENTRY.pack(VERSION, e.producer_id, e.first_offset, e.last_offset, e.last_stable_offset)
        for e in entries
    )


def _corrupt(expected: str, found: str, where: str, position: int) -> CorruptLogError:
    return CorruptLogError(
        "an invalid transaction index",
        expected=expected,
        found=found,
        where=where,
        hint="Start a broker once without it, so that it is rebuilt.",
        position=position,
    )
