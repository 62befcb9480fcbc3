"""Read what a broker recovers after an unclean shutdown: one piece of work a segment (S8.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.listing import recovered_listing
from winnow.logdir.unflushed import SegmentRead, read_segment
from winnow.runtime.failure import Failure, failure
from winnow.runtime.packing import ITEM_BYTES
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread_grouped
from winnow.state import Segment
from winnow.survey.place import ListedPartition, PartitionPlace
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_READ_BYTES = 256 << 20


def read_unflushed(
    sc: SparkContext,
    places: Sequence[PartitionPlace],
    listed: list[ListedPartition | Failure],
    progress: Progress,
) -> list[ListedPartition | Failure]:
    """Return `listed` with the log ends of those partitions that a broker recovers.

    A partition with an unreadable segment fails; the others do not. Later segments are read even if
    an earlier one is cut: nobody knows before, and cuts are rare.
    """
    wanted = [
        [(place, one) for one in item.listing.segments if one.base_offset in item.listing.unflushed]
        if isinstance(item, ListedPartition) and item.log_end_offset is not None
        else []
        for place, item in zip(places, listed, strict=True)
    ]
    found = spread_grouped(
        sc,
        _read,
        wanted,
        weight=lambda work: work[1].log_bytes,
        each=ITEM_BYTES,
        per_task=_READ_BYTES,
        name="reading the unflushed ends of " + counted(sum(map(bool, wanted)), "partition"),
        progress=progress,
    )
    return [
        _with_reads(item, works, reads) if reads and isinstance(item, ListedPartition) else item
        for item, works, reads in zip(listed, wanted, found, strict=True)
    ]


def _read(work: tuple[PartitionPlace, Segment]) -> SegmentRead:
    place, segment = work
    return read_segment(
        place.directory,
        segment,
        index_interval_bytes=place.index_interval_bytes,
        one_byte_versions=place.one_byte_versions,
    )


def _with_reads(
    listed: ListedPartition,
    works: Sequence[tuple[PartitionPlace, Segment]],
    found: Sequence[SegmentRead | Failure],
) -> ListedPartition | Failure:
    """Return the partition with its log end. A failure behind a cut does not count."""
    reads: list[SegmentRead] = []
    unread: list[Segment] = []
    for (_, segment), read in zip(works, found, strict=True):
        if reads and reads[-1].stopped is not None:
            unread.append(segment)
        elif isinstance(read, Failure):
            return read
        else:
            reads.append(read)
    try:
        return ListedPartition(
            recovered_listing(listed.listing, reads, unread), reads[-1].next_offset
        )
    except FAILS_ONE_PARTITION as error:
        return failure(error)
