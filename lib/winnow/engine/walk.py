"""Walk the batch headers of whole segments: what only the log itself can tell before a plan is sure.

One task per segment, headers only, no record is parsed. A segment's summary says where it may be split for the scan,
whether it holds what this version does not clean, and the last batch of each producer; summaries of neighbours fold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from winnow.engine.chunks import next_offset
from winnow.errors import CorruptLogError
from winnow.logdir.index import check_index_against, read_offset_index
from winnow.logdir.names import INDEX, LOG, segment_file
from winnow.storage.local import LocalStorage
from winnow.storage.segment_io import Bytes, map_range
from winnow.wire.batch import BATCH, CODEC_MASK, CONTROL, HEADER_V2_SIZE, MAX_MAGIC, TRANSACTIONAL, Codec
from winnow.wire.record_kernels import SMALLEST_RECORD
from winnow.wire.walk import WalkStatus, describe, walk_batches

SPLIT_BYTES = 64 * 2**20
"""Log bytes that one scan task reads: enough to drown what a task costs, few enough to spread one partition."""

_ROWS = 65_536
"""Batch headers in memory at once: 6 MiB of rows."""


@dataclass(frozen=True, slots=True)
class Split:
    """A run of whole batches of one segment. Records are numbered from 0 inside it."""

    base_offset: int
    """Of the segment."""
    start: int
    end: int
    records: int


@dataclass(frozen=True, slots=True)
class SegmentWalk:
    """What the headers of one segment say. `next_offset` is the base offset if the segment is empty."""

    base_offset: int
    next_offset: int
    batches: int
    records: int
    """v2 records; a v0 or v1 batch does not tell in its header."""
    control: bool
    transactional: bool
    legacy: bool
    """Has v0 or v1 batches."""
    splits: tuple[Split, ...]
    last_batches: np.ndarray[Any, Any] = field(repr=False)
    """BATCH rows: the last batch of each producer, ascending by offset; empty unless asked for."""


def walk_segment(
    directory: str, base_offset: int, log_bytes: int, *, producers: bool = False, check_index: bool = False
) -> SegmentWalk:
    """Reads every batch header of a segment.

    Raises CorruptLogError where a header makes no sense, the log ends inside a batch, offsets do not ascend, or
    (`check_index`) an entry of the offset index does not point at a batch that ends at its offset (S1.6).
    """
    path = f"{directory}/{segment_file(base_offset, LOG)}"
    with map_range(path, 0, log_bytes) as buf:
        return _walk(buf, path, directory, base_offset, producers=producers, check_index=check_index)


def _walk(
    buf: Bytes, path: str, directory: str, base_offset: int, *, producers: bool, check_index: bool
) -> SegmentWalk:
    rows = np.empty(_ROWS, BATCH)
    position, least_offset = 0, base_offset
    batches = records = 0
    attributes = 0
    legacy = False
    splits: list[Split] = []
    split_start = split_records = 0
    last_batches = np.empty(0, BATCH)
    index_rows: list[np.ndarray[Any, Any]] = []
    status = WalkStatus.FULL
    while status == WalkStatus.FULL:
        count, position, status = walk_batches(buf, position, least_offset, rows)
        if status not in (WalkStatus.FULL, WalkStatus.END):
            raise describe(status, buf, position, least_offset=next_offset(rows[:count], least_offset), file_name=path)
        if count == 0:
            break
        seen = rows[:count]
        _refuse_wild_counts(seen, path)
        least_offset = int(seen["last_offset"][-1]) + 1
        batches += count
        attributes |= int(np.bitwise_or.reduce(seen["attributes"]))
        legacy |= bool((seen["magic"] < 2).any())
        counts = np.maximum(seen["record_count"], 0).astype(np.int64)
        records += int(counts.sum())
        ends = seen["position"] + seen["size"]
        through = np.cumsum(counts)
        done = 0
        while True:
            # The first batch that fills the split ends it.
            cut = int(np.searchsorted(ends, split_start + SPLIT_BYTES))
            if cut >= count:
                break
            split_records += int(through[cut]) - done
            splits.append(Split(base_offset, split_start, int(ends[cut]), split_records))
            split_start, split_records, done = int(ends[cut]), 0, int(through[cut])
        split_records += int(through[-1]) - done
        if producers:
            last_batches = _last_per_producer(np.concatenate([last_batches, seen]))
        if check_index:
            index_rows.append(seen[["position", "last_offset"]].copy())
    if position > split_start:
        splits.append(Split(base_offset, split_start, position, split_records))
    if check_index:
        _check_index(directory, base_offset, position, index_rows)
    return SegmentWalk(
        base_offset=base_offset,
        next_offset=least_offset,
        batches=batches,
        records=records,
        control=bool(attributes & CONTROL),
        transactional=bool(attributes & TRANSACTIONAL),
        legacy=legacy,
        splits=tuple(splits),
        last_batches=last_batches,
    )


def _refuse_wild_counts(rows: np.ndarray[Any, Any], path: str) -> None:
    """Counts decide how much memory and how many tasks a run takes, long before the records themselves are read."""
    counts = rows["record_count"].astype(np.int64)
    room = rows["last_offset"] - rows["base_offset"] + 1
    plain = (rows["attributes"] & CODEC_MASK) == Codec.NONE
    room = np.where(plain, np.minimum(room, (rows["size"] - HEADER_V2_SIZE) // SMALLEST_RECORD), room)
    wild = np.flatnonzero((counts > room) & (rows["magic"] == MAX_MAGIC))
    if len(wild):
        row = rows[wild[0]]
        raise CorruptLogError(
            "a batch can't hold as many records as it says",
            expected=f"at most {int(room[wild[0]])}",
            found=str(int(row["record_count"])),
            where=f"{path} at byte {int(row['position'])}",
            hint="Copy the partition from another replica.",
        )


def _last_per_producer(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    rows = rows[(rows["producer_id"] >= 0)]
    # np.unique reports first occurrences: look from the end.
    _, from_end = np.unique(rows["producer_id"][::-1], return_index=True)
    last: np.ndarray[Any, Any] = rows[np.sort(rows.shape[0] - 1 - from_end)]
    return last


def _check_index(directory: str, base_offset: int, log_bytes: int, chunks: list[np.ndarray[Any, Any]]) -> None:
    path = f"{directory}/{segment_file(base_offset, INDEX)}"
    storage = LocalStorage()
    if not storage.exists(path):
        if log_bytes:
            raise CorruptLogError("the segment has no offset index", expected=path, found="no such file")
        return
    batches = np.concatenate(chunks) if chunks else np.empty(0, BATCH)[["position", "last_offset"]]
    check_index_against(
        read_offset_index(storage, path, base_offset=base_offset, log_bytes=log_bytes), batches, file=path
    )
