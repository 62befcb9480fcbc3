"""Compute the space that a cleaning takes beside the log, and what there is (decision 12)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

from winnow.cleaning.request import Request
from winnow.errors import NoSpaceError
from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from winnow.policy.config import TopicConfig
from winnow.policy.free import file_bytes
from winnow.runtime.failure import Failure
from winnow.scan.job import GroupJob, PartitionJob
from winnow.state import Segment
from winnow.storage.places import Places, free_bytes
from winnow.words import size

_GROWTH = 3
"""A segment of v0 or v1 grows at most from records of 26 bytes to batches of 77."""


def most_log_bytes(segments: Iterable[Segment], legacy: Collection[int]) -> int:
    """Return the maximal log bytes of a group's output. `legacy`: bases of segments of v0 or v1."""
    return sum(
        segment.log_bytes * (_GROWTH if segment.base_offset in legacy else 1)
        for segment in segments
    )


def most_index_bytes(segments: Iterable[Segment], log_bytes: int, config: TopicConfig) -> int:
    """Return the maximal index bytes: more than `index.interval.bytes` separate two entries."""
    entries = log_bytes // (config.index_interval_bytes + 1)
    sizes = (entries * OFFSET_ENTRY_SIZE, (entries + 1) * TIME_ENTRY_SIZE)
    transactions = sum(segment.used_txnindex_bytes for segment in segments)
    return sum(min(size, config.segment_index_bytes) for size in sizes) + transactions


@dataclass(slots=True)
class Room:
    """The bytes that may still be written, by file system, each asked on first use."""

    limit: int | None
    """Bytes that may be written to all file systems together."""
    free: Callable[[str], int] = field(default=free_bytes, kw_only=True)
    """Returns the bytes that may be written to a directory's file system."""
    _left: dict[Hashable, int] = field(default_factory=dict, init=False)

    def at(self, directory: str) -> int:
        left = self._left[self._met(directory)]
        return left if self.limit is None else min(left, self.limit)

    def take(self, directory: str, count: int) -> None:
        self._left[self._met(directory)] -= count
        if self.limit is not None:
            self.limit -= count

    def _met(self, directory: str) -> Hashable:
        volume = Places().volume(directory).key
        if volume not in self._left:
            self._left[volume] = self.free(directory)
        return volume


def room_for(request: Request, *, held: int = 0) -> Room:
    """Return the room that there is now. `held`: bytes of `max_extra_space` that are used up."""
    limit = request.max_extra_space
    free: Callable[[str], int] = partial(free_bytes, keep_free=request.keep_free)
    if request.preparing is not None:
        free = request.preparing.free_bytes
    return Room(None if limit is None else limit - held, free=free)


def needed_bytes(job: PartitionJob, request: Request) -> int:
    """Return the most bytes that are written at one time before as many are removed.

    Groups are committed one after the other, ascending, and each commit removes its sources: that
    makes room on the disk, but raises no limit. With `frees_nothing` it removes nothing.
    """
    if request.frees_nothing:
        return job.most_bytes
    needed = freed = 0
    for group in job.groups:
        needed = max(needed, group.most_bytes - freed)
        if request.max_extra_space is None:
            freed += max(0, sum(map(file_bytes, group.segments)) - group.most_bytes)
    return needed


def no_space(needed: int, room: int, request: Request, *, may_fill: bool = True) -> Failure:
    """Return the failure of a step that needs more space than there is. `may_fill`: the verb has
    an option to fill the disk.
    """
    hint = ""
    if request.max_extra_space is None:
        kept = request.keep_free
        found = f"{size(max(room + kept, 0))} are free, of which {size(kept)} must stay free"
        if may_fill and kept and needed <= room + kept:
            hint = ", use all that is free with `--keep-free 0`"
    else:
        found = f"--max-extra-space allows {size(max(room, 0))}"
    return Failure(
        f"not enough space: needs {size(needed)}, {found}. Free some with `clean --free-at-least "
        f"SIZE` or `clean --only retention`{hint}, or use another disk with `clean --output DIR`",
        NoSpaceError.exit_code,
    )


def fitting(groups: Sequence[GroupJob], room: int) -> int:
    """Return how many of the groups, from the first on, fit together."""
    return sum(used <= room for used in accumulate(group.most_bytes for group in groups))


def within(jobs: Sequence[PartitionJob], room: Room) -> tuple[PartitionJob, ...]:
    """Return the same jobs with limits on the sizes of outputs, which together use `room`."""
    for job in jobs:
        room.take(job.directory, job.most_bytes)
    groups = sum(len(job.groups) for job in jobs)
    spare = max(0, min((room.at(job.directory) for job in jobs), default=0)) // max(1, groups)
    return tuple(
        replace(
            job, groups=tuple(replace(g, log_limit=g.most_log_bytes + spare) for g in job.groups)
        )
        for job in jobs
    )


BATCH_BYTES = 32 * 2**30
"""Maximal log bytes that one job reads, unless a single partition has more."""


def first_batch(jobs: Iterable[PartitionJob], room: Room) -> int:
    """Return how many of the jobs, from the first on, are one Spark job: at least one, if there are
    any.

    A rewritten partition is stored beside its sources until it is committed. A partition that has
    no room even alone gets its own job.
    """
    left, count = BATCH_BYTES, 0
    for job in jobs:
        if count and (job.log_bytes > left or job.most_bytes > room.at(job.directory)):
            break
        left -= job.log_bytes
        room.take(job.directory, job.most_bytes)
        count += 1
    return count


def batches(jobs: Sequence[PartitionJob]) -> Iterator[Sequence[PartitionJob]]:
    """Cut the jobs, in the given order, into Spark jobs that write nothing."""
    while jobs:
        count = first_batch(jobs, Room(None, free=lambda _directory: sys.maxsize))
        yield jobs[:count]
        jobs = jobs[count:]
