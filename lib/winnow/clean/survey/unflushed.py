"""Read in parallel what a broker recovers after an unclean shutdown: one task item per segment, of
all partitions together (S8.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winnow.clean.survey.place import Listed, Place
from winnow.clean.survey.walk import not_walked
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.listing import SegmentListing, recovered_listing
from winnow.logdir.unflushed import SegmentRead, read_segment
from winnow.pickling import pickled_by_fields
from winnow.runtime.failure import Failure, failure
from winnow.runtime.packing import ITEM_BYTES, packed, task_count
from winnow.runtime.progress import Progress, watched
from winnow.runtime.throttle import in_task
from winnow.runtime.ticks import TickSheet, tick
from winnow.state import Segment
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_READ_BYTES = 256 << 20


@pickled_by_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """One segment to read. `number`: of its partition; `piece`: among all that are read."""

    piece: int
    number: int
    directory: str
    base_offset: int
    log_bytes: int
    index_interval_bytes: int


def read_unflushed(
    sc: SparkContext, places: Sequence[Place], listed: list[Listed | Failure], progress: Progress
) -> list[Listed | Failure]:
    """Return `listed` with the log ends of those partitions that a broker recovers.

    A partition with an unreadable segment fails; the others do not. Later segments are read even if
    an earlier one is cut: nobody knows before, and cuts are rare.
    """
    pieces = _pieces(places, listed)
    if not pieces:
        return listed
    reads: dict[int, list[SegmentRead | Failure]] = {}
    for number, read in _read_all(sc, pieces, progress):
        reads.setdefault(number, []).append(read)
    result = list(listed)
    for number, found in reads.items():
        item = listed[number]
        if isinstance(item, Listed):
            result[number] = _with_reads(item, found)
    return result


def _pieces(places: Sequence[Place], listed: Sequence[Listed | Failure]) -> list[_Piece]:
    wanted = [
        (number, segment)
        for number, item in enumerate(listed)
        if isinstance(item, Listed) and item.active is not None
        for segment in _unflushed(item.listing)
    ]
    return [
        _Piece(
            piece=piece,
            number=number,
            directory=places[number].directory,
            base_offset=segment.base_offset,
            log_bytes=segment.log_bytes,
            index_interval_bytes=places[number].index_interval_bytes,
        )
        for piece, (number, segment) in enumerate(wanted)
    ]


def _unflushed(listing: SegmentListing) -> list[Segment]:
    return [segment for segment in listing.segments if segment.base_offset in listing.unflushed]


def _read_all(
    sc: SparkContext, pieces: Sequence[_Piece], progress: Progress
) -> list[tuple[int, SegmentRead | Failure]]:
    """Return each piece's partition number and what was read, in the order of the pieces."""
    sizes = [piece.log_bytes for piece in pieces]
    tasks = task_count(
        sum(sizes), per_task=_READ_BYTES, items=len(pieces), parallelism=sc.defaultParallelism
    )
    lists = packed(pieces, sizes, tasks=tasks, each=ITEM_BYTES)
    partitions = len({piece.number for piece in pieces})
    name = f"reading the unflushed ends of {counted(partitions, 'partition')}"
    with TickSheet(sizes) as sheet:
        ticks = sheet.path

        def read(
            assigned: Iterable[list[_Piece]],
        ) -> Iterator[tuple[int, SegmentRead | Failure]]:
            for piece in (one for task in assigned for one in task):
                try:
                    yield piece.piece, _read(piece)
                except FAILS_ONE_PARTITION as error:
                    yield piece.piece, failure(error)
                tick(ticks, piece.piece)

        with watched(sc, progress, name, tasks=tasks, ticks=sheet):
            found = dict(sc.parallelize(lists, tasks).mapPartitions(in_task(read)).collect())
    return [(piece.number, found[piece.piece]) for piece in pieces]


def _read(piece: _Piece) -> SegmentRead:
    return read_segment(
        piece.directory,
        piece.base_offset,
        piece.log_bytes,
        index_interval_bytes=piece.index_interval_bytes,
    )


def _with_reads(listed: Listed, found: Sequence[SegmentRead | Failure]) -> Listed | Failure:
    """Return the partition with its log end. A failure behind a cut does not count: a broker never
    reads there.
    """
    reads: list[SegmentRead] = []
    unread: list[Segment] = []
    for segment, read in zip(_unflushed(listed.listing), found, strict=True):
        if reads and reads[-1].stopped is not None:
            unread.append(segment)
        elif isinstance(read, Failure):
            return read
        else:
            reads.append(read)
    try:
        listing = recovered_listing(listed.listing, reads, unread)
    except FAILS_ONE_PARTITION as error:
        return failure(error)
    active = listing.segments[-1]
    end = replace(not_walked(active.base_offset), next_offset=reads[-1].next_offset)
    return Listed(listing, end)
