"""Decide what a run reads, stages and commits next: the next batch of partitions that fits the time
and the space (docs/decisions/0012).

A batch is committed before the next one is read. So a run that is stopped or killed has finished
something, however large the rest is, and only the keys of one batch are on the disk. A partition
whose groups do not fit together is in several batches, each with the groups that fit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from winnow.cleaning.plan.partitions import Planned, PlannedPartition
from winnow.cleaning.plan.ready import ReadyPartition, dirtiest_first
from winnow.cleaning.request import Request
from winnow.cleaning.space import BATCH_BYTES, Room, first_batch, needed_bytes, room_for
from winnow.runtime.stop import Stop

ASSUMED_RATE = 10 * 2**20
"""Log bytes per second while the speed is not known. A slow disk is faster."""
_PART_OF_TIME = 4
"""A batch may take this part of the time left."""


@dataclass(frozen=True, slots=True)
class ToRead:
    """Read the headers of these partitions, by number, then apply retention where nothing is
    compacted.
    """

    partitions: Mapping[int, Planned]
    done_bytes: int
    """Log bytes that the batches before have compacted."""
    total_bytes: int
    """Log bytes that the run compacts, as far as is known."""


@dataclass(frozen=True, slots=True)
class ToEstimate:
    """Read the records of these partitions, which are too large for the free space, to know the
    exact sizes of their outputs.
    """

    partitions: Mapping[int, ReadyPartition]


@dataclass(frozen=True, slots=True)
class ToStage:
    """Stage these partitions, by number, and commit them."""

    partitions: Mapping[int, ReadyPartition]
    exact: bool = False
    """The sizes are exact, and everything else has made room before."""


Batch = ToRead | ToEstimate | ToStage


class Pace:
    """Computes the limits of the next batch from the time that the batches before have taken."""

    def __init__(self, stop: Stop, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop, self._clock = stop, clock
        self._began = clock()
        self.log_bytes = 0
        """Log bytes done so far."""

    def limits(self) -> tuple[float, float]:
        """Return how many log bytes the next batch may have: all of its partitions together, of
        which a single one may have more, and each. A larger one waits for all others: there may not
        be enough time for it.
        """
        if self._stop.reason is not None:  # nothing of it will be read
            return math.inf, math.inf
        left = self._stop.seconds_left
        if left is None:
            return BATCH_BYTES, math.inf
        rate: float = ASSUMED_RATE
        if self.log_bytes:
            rate = self.log_bytes / max(self._clock() - self._began, 1e-3)
        in_time = rate * left
        return min(in_time / _PART_OF_TIME, BATCH_BYTES), in_time


class Schedule:
    """The partitions of a run that wait, and the space that the run uses."""

    def __init__(self, partitions: Sequence[Planned], request: Request) -> None:
        self._request = request
        self._pace = Pace(request.stop)
        self._reading_bytes = 0
        self._unread = dict(enumerate(partitions))
        self._ready: dict[int, ReadyPartition] = {}
        self._too_large: dict[int, ReadyPartition] = {}
        """Do not fit before everything else has made room."""
        self._exact: dict[int, ReadyPartition] = {}
        """As `_too_large`, with exact sizes, in the order of their turns."""
        self._kept_bytes = 0
        """Bytes staged so far, if replaced files are kept: their space is not freed."""
        self.peak_bytes = 0
        """Peak temporary space in bytes, indexes included."""

    def next_batch(self) -> Batch | None:
        """Return what is done next, and forget it: `read_later` and `stage_later` add what follows
        from it. Call this while nothing is staged. None: the run is done.
        """
        if self._ready:
            return ToStage(self._fitting())
        if self._unread:
            return self._next_to_read()
        if self._too_large:
            partitions, self._too_large = self._too_large, {}
            return ToEstimate(partitions)
        if self._exact:
            number = next(iter(self._exact))
            return ToStage({number: self._exact.pop(number)}, exact=True)
        return None

    def read_later(self, number: int, partition: Planned) -> None:
        self._unread[number] = partition

    def stage_later(self, number: int, ready: ReadyPartition) -> None:
        """Add a partition whose headers are read. Raises OSError if its disk can't be asked."""
        fits = needed_bytes(ready.job, self._request) <= self.room().at(ready.job.directory)
        (self._ready if fits else self._too_large)[number] = ready

    def stage_last(self, number: int, ready: ReadyPartition) -> None:
        """Add a partition with exact sizes. Call this in the order of their turns."""
        self._exact[number] = ready

    def go_on(self, number: int, ready: ReadyPartition) -> None:
        """Let the next batch stage more groups of this partition."""
        self._ready = {number: ready, **self._ready}

    def waits_for_space(self, numbers: Iterable[int]) -> bool:
        """Return whether one of these partitions does not fit yet."""
        return not self._too_large.keys().isdisjoint(numbers)

    def room(self) -> Room:
        """Return the space that there is now. Call this while nothing is staged."""
        return room_for(self._request, held=self._kept_bytes)

    def staged(self, staged_bytes: int) -> None:
        """Count what was staged by one batch."""
        self.used(self._kept_bytes + staged_bytes)
        if self._request.frees_nothing:
            self._kept_bytes += staged_bytes

    def used(self, temporary_bytes: int) -> None:
        """Count temporary space that was used at one time."""
        self.peak_bytes = max(self.peak_bytes, temporary_bytes)

    def _fitting(self) -> dict[int, ReadyPartition]:
        """Return the dirtiest partitions that fit together; one that was begun, alone."""
        first = next(iter(self._ready))
        if self._ready[first].staged.placed:
            return {first: self._ready.pop(first)}
        order = dirtiest_first({n: ready.item.plan for n, ready in self._ready.items()})
        count = first_batch((self._ready[number].job for number in order), self.room())
        return {number: self._ready.pop(number) for number in order[:count]}

    def _next_to_read(self) -> ToRead:
        self._pace.log_bytes += self._reading_bytes
        numbers = next_to_read(self._unread, self._pace.limits())
        partitions = {number: self._unread.pop(number) for number in numbers}
        self._reading_bytes = sum(map(compacted_bytes, partitions.values()))
        later = sum(map(compacted_bytes, self._unread.values()))
        done = self._pace.log_bytes
        return ToRead(partitions, done, done + self._reading_bytes + later)


def next_to_read(waiting: Mapping[int, Planned], limits: tuple[float, float]) -> list[int]:
    """Return the numbers of what is read next: all that is not compacted, because retention makes
    room, or the dirtiest (S3.4).
    """
    plans = {
        number: item.plan
        for number, item in waiting.items()
        if isinstance(item, PlannedPartition) and item.plan.compaction is not None
    }
    if len(plans) < len(waiting):
        return [number for number in waiting if number not in plans]
    return chosen({n: compacted_bytes(waiting[n]) for n in dirtiest_first(plans)}, *limits)


def chosen(sizes: Mapping[int, int], together: float, each: float) -> list[int]:
    """Return the next batch of partitions with these log bytes, in this order: at least one. If all
    are too large, the smallest.
    """
    batch: list[int] = []
    for number, size in sizes.items():
        if size > each:
            continue
        if batch and size > together:
            break
        batch.append(number)
        together -= size
    return batch or [min(sizes, key=lambda number: sizes[number])]


def compacted_bytes(item: Planned) -> int:
    """Return the log bytes that a compaction reads."""
    if not isinstance(item, PlannedPartition) or item.plan.compaction is None:
        return 0
    return sum(segment.log_bytes for segment in item.plan.compaction.segments)
