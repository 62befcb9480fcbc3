"""Choose which bytes of which files a scan reads; cut them into tasks at index entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from winnow.errors import CorruptLogError
from winnow.kafka_log.layout import LogHome, check_offsets, chosen, find_partitions
from winnow.kafka_log.options import ANY_TIME, DEFAULT_BYTES, MAX_LONG, Bound, Options, Times
from winnow.kafka_log.stable import read_stable
from winnow.logdir.batches import Piece, read_batches
from winnow.logdir.checkpoints import read_offset_checkpoint
from winnow.logdir.lookup import Segments
from winnow.logdir.names import INDEX, LOG, LOG_START_CHECKPOINT, SWAP, TIMEINDEX
from winnow.policy.transactions import ABORTED
from winnow.runtime.packing import in_order
from winnow.state import TopicPartition
from winnow.storage.contract import Entry, Storage
from winnow.wire.batch import (
    FRAME,
    FRAME_SIZE,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_OFFSET_SPAN,
    RECORD_OVERHEAD_V0,
)
from winnow.wire.buffers import Array, Rows

OPEN_BYTES = 4 << 20
"""Cost of opening a range, in bytes, as in Spark's `spark.sql.files.openCostInBytes`."""
_HEAD = FRAME_SIZE + RECORD_OVERHEAD_V0


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Whole batches of one segment. Of their records, those from `first` on and below `end`."""

    topic_partition: TopicPartition
    path: str
    start_byte: int
    end_byte: int
    least_offset: int
    """No offset in these bytes is lower."""
    first: int
    end: int
    below: int | None
    """All its offsets are lower, and those of later ranges are not. None: it is unknown."""
    may_be_torn: bool
    """True if the log ends here, perhaps in an incomplete batch."""
    log: Entry
    """The file when the read was planned."""
    may_grow: bool
    """True for the active segment of a local log."""
    aborted: Array = field(default_factory=lambda: np.empty(0, ABORTED), repr=False)
    """Transactions whose data is not wanted, dtype ABORTED."""

    def pieces(self, storage: Storage) -> Iterator[Piece]:
        """Read its batches. Raises as `read_batches`."""
        return read_batches(
            storage,
            self.path,
            size=self.end_byte,
            start=self.start_byte,
            least_offset=self.least_offset,
        )

    def touched(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which batches may have a record within the bounds. The header of a v0 or v1 batch
        does not say at which offset the batch begins.
        """
        found: NDArray[np.bool_] = (rows["last_offset"] >= self.first) & (
            (rows["base_offset"] < self.end) | (rows["magic"] < MAX_MAGIC)
        )
        return found


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The part of a partition that can't be read, and why."""

    topic_partition: TopicPartition
    error: CorruptLogError


Task = tuple[ReadRange | Unreadable, ...]


def plan_tasks(storage: Storage, options: Options) -> list[Task]:
    """Return tasks sorted by topic, partition and offset. Raises UsageError for invalid paths,
    and for offsets of partitions that do not exist.
    """
    found = find_partitions(storage, options.paths)
    for option, bound in (("startingOffsets", options.start), ("endingOffsets", options.end)):
        check_offsets(found, bound.offsets, option=option)
    homes = chosen(found, options.topics, options.partitions)
    items: list[ReadRange | Unreadable] = []
    log_starts = cache(partial(_log_starts, storage))
    for home in homes:
        if home.problem is not None:
            items.append(Unreadable(home.topic_partition, home.problem))
            continue
        log_start = log_starts(home.log_dir)
        if isinstance(log_start, CorruptLogError):
            # Like a broker that has lost the file: start at the first segment.
            items.append(Unreadable(home.topic_partition, log_start))
            log_start = {}
        try:
            start = 0 if options.below_log_start else log_start.get(home.topic_partition, 0)
            items += _of_partition(storage, home, options, start)
        except CorruptLogError as error:
            items.append(Unreadable(home.topic_partition, error))
    return [tuple(task) for task in in_order(items, _cost, options.max_bytes)]


def _log_starts(storage: Storage, log_dir: str) -> dict[TopicPartition, int] | CorruptLogError:
    try:
        return read_offset_checkpoint(storage, f"{log_dir}/{LOG_START_CHECKPOINT}")
    except CorruptLogError as error:
        return error


def _of_partition(
    storage: Storage, home: LogHome, options: Options, log_start: int
) -> Iterator[ReadRange | Unreadable]:
    for error in half_swapped(storage, home.directory):
        yield Unreadable(home.topic_partition, error)
    segments = Segments(storage, home.directory)
    first, end = _wanted(segments, home.topic_partition, options, log_start)
    aborted = np.empty(0, ABORTED)
    if options.read_committed:
        stable, aborted = read_stable(segments)
        end = end if stable is None else min(end, stable)
    yield from ranges_of(
        segments,
        home.topic_partition,
        first,
        end,
        aborted=aborted,
        times=options.times,
        max_bytes=options.max_bytes,
    )


def ranges_of(
    segments: Segments,
    topic_partition: TopicPartition,
    first: int,
    end: int,
    *,
    aborted: Array,
    times: Times = ANY_TIME,
    max_bytes: int = DEFAULT_BYTES,
) -> Iterator[ReadRange]:
    """Yield all ranges of a partition with offsets from `first` up to `end` (exclusive). `aborted`
    has dtype ABORTED.

    Batches are skipped if the time index shows that none of their timestamps is in `times`. Other
    batches may have none either.
    """
    if first >= end:
        return
    for number, base in enumerate(segments.bases):
        following = segments.following(number)
        if base < end and (following is None or following > first):
            mine = aborted[
                (aborted["last_offset"] >= base)
                & (aborted["first_offset"] < (following or MAX_LONG))
            ]
            for start_byte, end_byte, least, below in _cuts(
                segments, number, first, end, times, max_bytes
            ):
                yield ReadRange(
                    topic_partition=topic_partition,
                    path=segments.path(number),
                    start_byte=start_byte,
                    end_byte=end_byte,
                    least_offset=least,
                    first=first,
                    end=end,
                    below=below,
                    may_be_torn=following is None and end_byte == segments.log(number).size,
                    log=segments.log(number),
                    may_grow=following is None and bool(segments.log(number).inode),
                    aborted=mine,
                )


def half_swapped(storage: Storage, directory: str) -> Iterator[CorruptLogError]:
    """Yield an error for each segment of an interrupted cleaning: its records are not read."""
    for entry in storage.list_dir(directory):
        if entry.name.endswith(LOG + SWAP):
            yield CorruptLogError(
                "a cleaned segment has not replaced its sources",
                expected="no file that ends in .swap",
                found="one, whose records are not shown",
                where=f"{directory}/{entry.name}",
                hint="A cleaning was interrupted. A broker finishes it when it starts, and so do "
                "`clean` and `recover`.",
            )


def planned_again(
    storage: Storage, wanted: ReadRange, options: Options, directory: str
) -> Iterator[ReadRange] | None:
    """Return where the offsets of a range are now that its segment was replaced or removed: what a
    consumer that comes now gets. None: its offsets are unknown. `directory`: of the partition, now.
    """
    if wanted.below is None:
        return None
    segments = Segments(storage, directory)
    first, end = max(wanted.first, wanted.least_offset), min(wanted.end, wanted.below)
    return ranges_of(
        segments,
        wanted.topic_partition,
        first,
        end,
        aborted=read_stable(segments)[1] if options.read_committed else wanted.aborted,
        times=options.times,
    )


def _wanted(
    segments: Segments, topic_partition: TopicPartition, options: Options, log_start: int
) -> tuple[int, int]:
    """Return the wanted offsets, the second one exclusive. LATEST is the end of the files."""

    def found(bound: Bound) -> int:
        if bound.timestamp is None:
            offset = bound.of(topic_partition)
            return offset if offset >= 0 else MAX_LONG
        place = segments.find_timestamp(bound.timestamp, log_start_offset=log_start)
        return MAX_LONG if place is None or place.record is None else place.record.offset

    earliest = options.start.timestamp is None and options.start.of(topic_partition) < 0
    return (log_start if earliest else max(log_start, found(options.start))), found(options.end)


def _cuts(
    segments: Segments, number: int, first: int, end: int, times: Times, max_bytes: int
) -> Iterator[tuple[int, int, int, int | None]]:
    """Yield start byte, end byte, `least_offset` and `below` of the parts of a segment to read."""
    size = segments.log(number).size
    index, _ = segments.index(number, INDEX)
    floor = first
    if times != ANY_TIME:
        entries, notes = segments.index(number, TIMEINDEX)
        is_last = segments.following(number) is None
        if not is_last and not notes and len(entries) and entries["timestamp"][-1] < times.first:
            return
        # No batch up to the offset of an entry has a larger timestamp than the entry.
        older = int(np.searchsorted(entries["timestamp"], times.first)) - 1
        floor = max(floor, int(entries["offset"][older])) if older >= 0 else floor
    floor_entry = int(np.searchsorted(index["offset"], floor, side="right")) - 1
    begin = _boundary(segments, number, index, floor_entry)
    end_entry = int(np.searchsorted(index["offset"], end)) + 1
    after_end = _boundary(segments, number, index, end_entry)
    stop = size if after_end is None else after_end[0]
    at, least, _ = begin or (0, segments.bases[number], None)
    following = segments.following(number)
    last = after_end or (stop, 0, MAX_LONG if following is None else following)
    while at < stop:
        candidate = int(np.searchsorted(index["position"], at + max_bytes))
        cut = _boundary(segments, number, index, candidate)
        if cut is None or cut[0] >= stop:
            cut = last
        yield at, cut[0], least, cut[2]
        at, least, _ = cut


def _boundary(
    segments: Segments, number: int, index: Array, entry: int
) -> tuple[int, int, int | None] | None:
    """Return the position of an entry's batch, the least offset there, and the batch's base offset
    if its header tells it. None if the log contradicts the entry.

    Old brokers recorded the last offset of an append of several batches, or the first one inside a
    compressed batch.
    """
    if not 0 <= entry < len(index):
        return None
    position, offset = int(index["position"][entry]), int(index["offset"][entry])
    least = int(index["offset"][entry - 1]) + 1 if entry > 0 else segments.bases[number]
    head = segments.storage.read_range(segments.path(number), position, _HEAD)
    if len(head) < _HEAD or head[MAGIC_AT] > MAX_MAGIC:
        return None
    base, length = FRAME.unpack_from(head)
    room = segments.log(number).size - position - FRAME_SIZE
    most = offset if head[MAGIC_AT] == MAX_MAGIC else segments.bases[number] + MAX_OFFSET_SPAN
    if least <= base <= most and _HEAD - FRAME_SIZE <= length <= room:
        return position, least, base if head[MAGIC_AT] == MAX_MAGIC else None
    return None


def _cost(item: ReadRange | Unreadable) -> int:
    return OPEN_BYTES + (item.end_byte - item.start_byte if isinstance(item, ReadRange) else 0)
