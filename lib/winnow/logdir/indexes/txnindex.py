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
from dataclasses import astuple, dataclass

from winnow.advice import COPY, REBUILD
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
        entry = AbortedTransaction(*fields)
        last = entry.last_offset
        fault: tuple[str, str] | None = None
        if version != VERSION:
            fault = f"version {VERSION}", str(version)
        elif min(entry.producer_id, entry.first_offset, entry.last_stable_offset) < 0:
            fault = "a producer id and offsets of at least 0", str(entry)
        elif entry.first_offset > last:
            fault = "a transaction that ends after it begins", str(entry)
        elif last < least:
            fault = f"a marker at offset {least} or above", str(last)
        elif end_offset is not None and last >= end_offset:
            fault = f"a marker below offset {end_offset}", str(last)
        if fault is not None:
            at = number * ENTRY.size
            raise _corrupt(*fault, f"{path} at byte {at}", at)
        least = last + 1
        entries.append(entry)
    return tuple(entries)


def lies_below(data: bytes, base_offset: int, *, one_byte: bool, where: str) -> bool:
    """Return whether a broker that opens a segment finds its transaction index invalid: an entry
    ends below the segment (`TransactionIndex.sanityCheck`).

    Raises CorruptLogError for an entry of a version above 0 before that: a broker does not start.
    `one_byte`: see `Rules.one_byte_versions`.
    """
    for version, _, _, last_offset, _ in ENTRY.iter_unpack(
        data[: len(data) - len(data) % ENTRY.size]
    ):
        if version >= 1 << 8 or (version and not one_byte):
            raise CorruptLogError(
                "a transaction index of an unknown version",
                expected=f"version {VERSION}",
                found=str(version),
                where=where,
                hint=f"A broker fails here, too. {COPY}",
            )
        if last_offset < base_offset:
            return True
    return False


def encode_txn_index(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(ENTRY.pack(VERSION, *astuple(entry)) for entry in entries)


def _corrupt(expected: str, found: str, where: str, position: int) -> CorruptLogError:
    return CorruptLogError(
        "an invalid transaction index",
        expected=expected,
        found=found,
        where=where,
        hint=REBUILD,
        position=position,
    )
