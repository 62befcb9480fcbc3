"""Choose what a run reads and commits before it reads more (docs/decisions/0058).

A run that is stopped, or killed, has then finished something, however large the rest is. And no
more keys are on the disk at one time than those of one portion.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from winnow.cleaning.plan.prepared import PartitionWork, Prepared
from winnow.cleaning.space import WAVE_BYTES
from winnow.runtime.stop import Stop

ASSUMED_RATE = 10 * 2**20
"""Log bytes per second while the speed is not known. A slow disk is faster."""
_PART_OF_TIME = 4
"""A portion may take this part of the time left."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large the next portion may be, in log bytes."""

    together: float
    """All of its partitions together. A single partition may have more."""
    each: float
    """A larger partition waits for all others: there may not be enough time for it."""


class Pace:
    """Computes the limits of the next portion from the time that the portions so far have taken."""

    def __init__(self, stop: Stop, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop, self._clock = stop, clock
        self._began = clock()
        self.log_bytes = 0
        """Log bytes done so far."""

    def done(self, log_bytes: int) -> None:
        self.log_bytes += log_bytes

    def limits(self) -> Limits:
        if self._stop.reason is not None:  # nothing of it will be read
            return Limits(math.inf, math.inf)
        left = self._stop.seconds_left
        if left is None:
            return Limits(WAVE_BYTES, math.inf)
        rate: float = ASSUMED_RATE
        if self.log_bytes:
            rate = self.log_bytes / max(self._clock() - self._began, 1e-3)
        in_time = rate * left
        return Limits(min(in_time / _PART_OF_TIME, WAVE_BYTES), in_time)


def next_portion(waiting: Mapping[int, Prepared], limits: Limits) -> list[int]:
    """Return the numbers of what is done next: all that is not compacted, because retention makes
    room, or the dirtiest (S3.4).
    """
    sizes = {number: compacted_bytes(item) for number, item in waiting.items()}
    others = [number for number, size in sizes.items() if size is None]
    order = sorted(waiting, key=lambda number: -_dirty_ratio(waiting[number]))
    return others or chosen({number: sizes[number] or 0 for number in order}, limits)


def chosen(sizes: Mapping[int, int], limits: Limits) -> list[int]:
    """Return the next portion of partitions with these log bytes, in this order: at least one. If
    all are too large, the smallest.
    """
    portion: list[int] = []
    left = limits.together
    for number, size in sizes.items():
        if size > limits.each:
            continue
        if portion and size > left:
            break
        portion.append(number)
        left -= size
    return portion or [min(sizes, key=lambda number: sizes[number])]


def compacted_bytes(item: Prepared) -> int | None:
    """Return the log bytes that a compaction reads. None: nothing is compacted."""
    if not isinstance(item, PartitionWork) or item.plan.compaction is None:
        return None
    return sum(segment.log_bytes for segment in item.plan.compaction.segments)


def _dirty_ratio(item: Prepared) -> float:
    return item.plan.dirty_ratio or 0.0 if isinstance(item, PartitionWork) else 0.0
