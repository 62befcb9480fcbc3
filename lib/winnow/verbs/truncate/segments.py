"""Read the segments of a log as a broker's loader does (S8.9)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from winnow.clean.survey.gather import control_columns
from winnow.errors import CorruptLogError
from winnow.logdir.batches import Piece, records_of
from winnow.policy.producers import Marker
from winnow.storage.segment_io import map_range, release
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    BATCH,
    CONTROL,
    CRC_AT,
    FRAME,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_OFFSET_SPAN,
    NO_PRODUCER,
    is_wrapper,
)
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.control import ControlType
from winnow.wire.crc import crc32c
from winnow.wire.walk import WalkStatus, describe, first_bad_crc, walk_batches

_ROWS = 1 << 14
_ENTRY = struct.Struct(">ii")
"""Of an offset index: relative offset, position."""
_NEGATIVE = 128
"""A magic from here on is negative in Java: read as v0."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The next batches of a segment, dtype BATCH, and what its markers say, by base offset."""

    rows: Rows
    markers: dict[int, Marker]


def valid_batches(path: str, size: int, base_offset: int) -> Iterator[Batches]:
    """Yield the batches that a loader keeps when it recovers a segment: all before the first that
    is torn, makes no sense or does not match its CRC.

    Raises CorruptLogError where a loader fails or would split the segment: for an offset out of
    reach of its index, and for a control record that it can't read.
    """
    for buf, rows in _walk(path, size, checked=True):
        if _out_of_reach(rows, base_offset):
            raise CorruptLogError(
                "an offset is out of reach of its segment's index",
                expected=f"offsets from {base_offset} to {base_offset + MAX_OFFSET_SPAN}",
                found=f"{int(rows['last_offset'].min())}..{int(rows['last_offset'].max())}",
                where=path,
                hint="A broker would split the segment when it starts. Let it do so, or copy the "
                "partition from another replica.",
            )
        yield Batches(rows, _markers(buf, rows, path))


def batches_from(path: str, size: int, offset: int, start: int) -> Iterator[Batches]:
    """Yield the batches that a loader reads for their producers, without a look at their CRCs, from
    the first that reaches `offset`. One of them begins at byte `start`.

    Raises CorruptLogError for an entry that makes no sense. A torn end is not an error.
    """
    begun = False
    for buf, every in _walk(path, size, start, checked=False):
        reach = every["last_offset"] >= offset
        begin = 0 if begun else int(np.argmax(reach))
        begun = begun or bool(reach.any())
        if begun:
            rows = every[begin:]
            yield Batches(rows, _markers(buf, rows, path))


def _walk(path: str, size: int, start: int = 0, *, checked: bool) -> Iterator[tuple[Bytes, Rows]]:
    """Yield the bytes of the file and BATCH rows, in the order of the file. Offsets may go back: a
    loader does not compare them.
    """
    table = np.empty(_ROWS, BATCH)
    with map_range(path, 0, size, gradually=True) as buf:
        at, least = start, 0
        while True:
            count, at, status = walk_batches(buf, at, least, table)
            rows = table[:count]
            bad = first_bad_crc(buf, rows) if checked else -1
            if bad >= 0:
                rows = rows[:bad]
            if len(rows):
                yield buf, rows.copy()
                least = int(rows[-1]["last_offset"]) + 1
                release(buf, at)
            if bad >= 0:
                break
            if status is WalkStatus.OUT_OF_ORDER and least:
                least = 0
            elif status not in {WalkStatus.FULL, WalkStatus.END, WalkStatus.TORN}:
                unusual = _unusual(buf, at, path)
                if unusual is None and not checked:
                    raise CorruptLogError("a batch can't be read", where=f"{path} at byte {at}")
                if unusual is None:
                    break
                yield buf, unusual
                at += int(unusual[0]["size"])
                least = int(unusual[0]["last_offset"]) + 1
            elif status is not WalkStatus.FULL:
                break
        del buf


def _unusual(buf: Bytes, at: int, path: str) -> Rows | None:
    """Return the row of a batch whose magic is above 2. No CRC covers the magic, and a broker reads
    every magic from 2 to 127 as 2. None: there is no batch with a matching CRC.

    Raises CorruptLogError for a batch with a matching CRC and offsets or counts that no producer
    writes.
    """
    magic = int(buf[at + MAGIC_AT])
    _, length = FRAME.unpack_from(buf.data, at)
    size = FRAME_SIZE + length
    if not MAX_MAGIC <= magic < _NEGATIVE or not HEADER_V2_SIZE <= size <= len(buf) - at:
        return None
    batch = np.array(buf[at : at + size])
    batch[MAGIC_AT] = MAX_MAGIC
    row = np.empty(1, BATCH)
    count, _, status = walk_batches(batch, 0, 0, row)
    stored = int.from_bytes(batch[CRC_AT:ATTRIBUTES_AT].tobytes())
    if int(crc32c(batch, ATTRIBUTES_AT, size)) != stored:
        return None
    if not count:
        raise describe(status, batch, 0, least_offset=0, file_name=path)
    row["position"] = at
    return row


def _out_of_reach(rows: Rows, base_offset: int) -> bool:
    lasts = rows["last_offset"]
    return bool((lasts < base_offset).any() or (lasts - base_offset > MAX_OFFSET_SPAN).any())


def _markers(buf: Bytes, rows: Rows, path: str) -> dict[int, Marker]:
    chosen = rows[
        ((rows["attributes"] & CONTROL) != 0)
        & (rows["magic"] == MAX_MAGIC)
        & (rows["producer_id"] > NO_PRODUCER)
    ]
    if not len(chosen):
        return {}
    columns = control_columns(buf, chosen, path)
    found = {}
    for row, kind, epoch, timestamp in zip(
        chosen,
        columns.type.tolist(),
        columns.coordinator_epoch.tolist(),
        columns.timestamp.tolist(),
        strict=True,
    ):
        if int(row["record_count"]) == 0:
            continue
        offset = int(row["base_offset"])
        if kind not in {ControlType.ABORT, ControlType.COMMIT} or epoch < 0:
            raise CorruptLogError(
                "a marker can't be read",
                expected="an ABORT or a COMMIT with the epoch of its coordinator",
                found=f"type {kind}, epoch {epoch}",
                where=f"{path}, offset {offset}",
                hint="A broker fails here, too. Copy the partition from another replica.",
            )
        found[offset] = Marker(
            offset=offset,
            producer_id=int(row["producer_id"]),
            producer_epoch=int(row["producer_epoch"]),
            coordinator_epoch=epoch,
            timestamp=timestamp,
            aborted=kind == ControlType.ABORT,
        )
    return found


def end_of_log(path: str, size: int, base_offset: int, index: bytes) -> int:
    """Return the next offset of a segment whose offsets go back, as a loader reads it from the last
    entry of its index (`LogSegment.readNextOffset`).

    It looks for the last entry's offset by base offsets. If only batches with lower ones follow, it
    finds nothing and takes the segment for empty.
    """
    target, start = base_offset, 0
    if index:
        relative, start = _ENTRY.unpack_from(index, len(index) - _ENTRY.size)
        target += relative
    before: tuple[int, int] | None = None
    found, last = False, base_offset
    for buf, rows in _walk(path, size, checked=False):
        for row in rows[rows["position"] >= start]:
            last = int(row["last_offset"])
            if found:
                continue
            first = _first_offset(buf, row, path)
            found = first >= target
            before = (first, last)
    if not found:
        found = before is not None and before[1] >= target
    return last + 1 if found else base_offset


def _first_offset(buf: Bytes, row: Rows, path: str) -> int:
    """Return the base offset. That of a wrapper is the one of its first record (S2.1)."""
    if not is_wrapper(row):
        return int(row["base_offset"])
    start, size = int(row["position"]), int(row["size"])
    alone = np.array([row], BATCH)
    alone["position"] = 0
    records = records_of(Piece(np.array(buf[start : start + size]), alone, start), 0, path)
    return records[0].offset if records else int(row["base_offset"])
