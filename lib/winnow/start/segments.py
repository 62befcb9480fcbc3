"""Read the segments of a log as a broker's loader does (S8.9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from winnow.advice import COPY
from winnow.errors import CorruptLogError, UnpredictedLoadError
from winnow.logdir.batches import HeaderWalk, Piece, records_of
from winnow.logdir.indexes.index import (
    OFFSET_ENTRY_ON_DISK,
    TIME_ENTRY_ON_DISK,
    look_up,
)
from winnow.logdir.names import MAX_LONG
from winnow.logdir.unflushed import valid_batches
from winnow.policy.producers import Marker
from winnow.storage.segment_io import map_range
from winnow.survey.gather import control_columns, markers_of
from winnow.wire.batch import (
    BATCH,
    CONTROL,
    FRAME,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_OFFSET_SPAN,
    WalkStatus,
    has_producer,
    is_wrapper,
)
from winnow.wire.buffers import Bytes, Rows, copied
from winnow.wire.control import ControlType
from winnow.wire.control_records import EMPTY


@dataclass(frozen=True, slots=True)
class Batches:
    """The next batches of a segment, dtype BATCH, and what its markers say, by base offset."""

    rows: Rows
    markers: dict[int, Marker]


def recovered_batches(path: str, size: int, base_offset: int) -> Iterator[Batches | str]:
    """Yield the batches that a loader keeps when it recovers a segment, and at last why it cuts the
    rest, if it does.

    Raises CorruptLogError where a loader fails or would split the segment: for an offset out of
    reach of its index, and for a control record that it can't read.
    """
    with map_range(path, 0, size, gradually=True) as buf:
        for item in valid_batches(buf, path, base_offset, as_loader=True):
            if isinstance(item, str):
                yield item
                break
            lasts = item["last_offset"]
            below = bool((lasts < base_offset).any())
            if below or (lasts - base_offset > MAX_OFFSET_SPAN).any():
                what = "split the segment when it starts. Let it do so."
                if below:
                    what = "not start: the segment has offsets of another one, or another's name."
                raise UnpredictedLoadError(
                    "an offset is out of reach of its segment's index",
                    expected=f"offsets from {base_offset} to {base_offset + MAX_OFFSET_SPAN}",
                    found=f"{lasts.min()}..{lasts.max()}",
                    where=path,
                    hint=f"A broker would {what} {COPY}",
                )
            yield Batches(item, _markers(buf, item, path))
        del buf


def batches_from(path: str, size: int, offset: int, start: int) -> Iterator[Batches]:
    """Yield the batches that a loader reads for their producers, without a look at their CRCs, from
    the first that reaches `offset`. One of them begins at byte `start`.

    Raises CorruptLogError for an invalid entry. A torn end is not an error.
    """
    begun = False
    for buf, every in _walk(path, size, start):
        reach = every["last_offset"] >= offset
        begin = 0 if begun else int(np.argmax(reach))
        begun = begun or bool(reach.any())
        if begun:
            rows = every[begin:]
            yield Batches(rows, _markers(buf, rows, path))


def _walk(path: str, size: int, start: int = 0) -> Iterator[tuple[Bytes, Rows]]:
    """Yield the bytes of the file and BATCH rows, in the order of the file and from byte `start`
    on, without a look at CRCs. Offsets may go back.
    """
    with map_range(path, 0, size, gradually=True) as buf:
        at, least = min(start, size), 0
        while True:
            walk = HeaderWalk(buf, least, start=at, gradually=True, passes=True)
            for rows in walk:
                yield buf, copied(rows)
            at, least = walk.end, walk.least_offset
            if walk.status is not WalkStatus.OUT_OF_ORDER or not least:
                break
            least = 0
        if walk.status is not WalkStatus.TORN:
            walk.check(path)
        del buf, walk


def _markers(buf: Bytes, rows: Rows, path: str) -> dict[int, Marker]:
    chosen = rows[
        ((rows["attributes"] & CONTROL) != 0) & (rows["magic"] == MAX_MAGIC) & has_producer(rows)
    ]
    columns = control_columns(buf, chosen, path)
    kinds, epochs = columns.type, columns.coordinator_epoch
    sound = np.isin(kinds, (ControlType.ABORT, ControlType.COMMIT)) & (epochs >= 0)
    for wrong in np.flatnonzero(~sound & (kinds != EMPTY))[:1]:
        raise CorruptLogError(
            "a marker can't be read",
            expected="an ABORT or a COMMIT with the epoch of its coordinator",
            found=f"type {kinds[wrong]}, epoch {epochs[wrong]}",
            where=f"{path}, offset {chosen['base_offset'][wrong]}",
            hint=f"A broker fails here, too. {COPY}",
        )
    return markers_of(chosen, columns)


def end_of_log(path: str, size: int, base_offset: int, index: bytes) -> int:
    """Return the next offset of a segment whose offsets go back, as a loader reads it from the last
    entry of its index (`LogSegment.readNextOffset`).

    It looks for the last entry's offset by base offsets. If only batches with lower ones follow, it
    finds nothing and takes the segment for empty.
    """
    target, start = base_offset, 0
    if index:
        relative, start = np.frombuffer(index, OFFSET_ENTRY_ON_DISK)[-1].tolist()
        target += relative
    found, last = False, base_offset - 1
    for buf, rows in _walk(path, size):
        for row in rows[rows["position"] >= start]:
            last = int(row["last_offset"])
            found = found or _first_offset(buf, row, path) >= target
    return last + 1 if found or last >= target else base_offset


def read_next_offset(path: str, size: int, base_offset: int, index: bytes) -> int:
    """Return the next offset of the active segment as a loader reads it after a clean shutdown
    (`LogSegment.readNextOffset`): the end of the last batch behind the last entry of the index.

    Raises CorruptLogError where bytes that are no batch follow that entry: a broker does not start.
    """
    target, whole = base_offset, len(index) - len(index) % OFFSET_ENTRY_ON_DISK.itemsize
    if whole:
        target += int(np.frombuffer(index[:whole], OFFSET_ENTRY_ON_DISK)["relative_offset"][-1])
    found, end = False, base_offset
    start = look_up(index, base_offset, target)
    for _, rows in _walk(path, size, max(0, start)):
        found = found or bool((rows["last_offset"] >= target).any())
        end = int(rows["last_offset"][-1]) + 1
    return end if found else base_offset


def lost_end(path: str, size: int, base_offset: int, index: bytes, timeindex: bytes) -> int | None:
    """Return the highest offset that the indexes of a segment name, if the log ends before it. None
    if no index shows that the log has lost its end. `index`, `timeindex`: their last entries.
    """
    offsets = np.frombuffer(index, OFFSET_ENTRY_ON_DISK)
    times = np.frombuffer(timeindex, TIME_ENTRY_ON_DISK)
    named = [int(entries["relative_offset"][-1]) for entries in (offsets, times) if len(entries)]
    highest = base_offset + max(named, default=0)
    start = int(offsets["position"][-1]) if len(offsets) else 0
    if start < size:
        end = base_offset
        for _, rows in _walk(path, size, max(0, start)):
            end = int(rows["last_offset"][-1]) + 1
        return highest if highest > max(end - 1, base_offset) else None
    return highest if start else None


def ends_too_high(path: str, size: int) -> int | None:
    """Return at which byte a batch begins that ends the log at offset 2^63-1: the end of the log is
    one more, for a broker -2^63. None if the log does not end so.
    """
    with map_range(path, 0, size, gradually=True) as buf:
        walk = HeaderWalk(buf, 0, gradually=True, passes=True)
        for _ in walk:
            pass
        at, entry = walk.end, bytes(buf[walk.end : walk.end + HEADER_V2_SIZE])
        is_it = walk.status is WalkStatus.OUT_OF_ORDER and at + FRAME_SIZE < size
        if is_it:
            last, length = FRAME.unpack_from(entry)
            if len(entry) == HEADER_V2_SIZE and entry[MAGIC_AT] == MAX_MAGIC:
                last += int.from_bytes(entry[LAST_OFFSET_DELTA_AT:][:4])
            is_it = last == MAX_LONG and at + FRAME_SIZE + length == size
        del buf, walk
    return at if is_it else None


def _first_offset(buf: Bytes, row: Rows, path: str) -> int:
    """Return the base offset. That of a wrapper is the one of its first record (S2.1)."""
    if not is_wrapper(row):
        return int(row["base_offset"])
    start, size = int(row["position"]), int(row["size"])
    alone = np.array([row], BATCH)
    alone["position"] = 0
    records = records_of(Piece(np.array(buf[start : start + size]), alone, start), 0, path)
    return records[0].offset if records else int(row["base_offset"])


def is_before_break(path: str, size: int, *, interval: int, marker: int) -> bool:
    """Whether a loader reads the marker at this offset before it finds that index entries do not
    ascend.

    One batch at a time: a loader then gives up the segment, which hardly ever happens.
    """
    since, newest, last, last_of_time = 0, (-1, -1), -1, -1
    timed = -1
    for _, rows in _walk(path, size):
        for row in rows:
            if int(row["max_timestamp"]) > newest[0]:
                newest = (int(row["max_timestamp"]), int(row["last_offset"]))
            if since > interval:
                if int(row["last_offset"]) <= last or (timed >= 0 and newest[1] < last_of_time):
                    return False
                last, since = int(row["last_offset"]), 0
                if newest[0] > timed:
                    timed, last_of_time = newest
            since += int(row["size"])
            if int(row["base_offset"]) == marker and int(row["attributes"]) & CONTROL:
                return True
    return False
