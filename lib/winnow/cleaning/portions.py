"""Choose what a run reads and commits before it reads more (docs/decisions/0012).

A run that is stopped, or killed, has then finished something, however large the rest is. And no
more keys are on the disk at one time than those of one portion.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from winnow.cleaning.plan.prepared import PartitionWork, Prepared
from winnow.cleaning.plan.rounds import dirtiest_first
from winnow.cleaning.space import WAVE_BYTES
from winnow.runtime.stop import Stop

ASSUMED_RATE = 10 * 2**20
"""Log bytes per second while the speed is not known. A slow disk is faster."""
_PART_OF_TIME = 4
"""A portion may take this part of the time left."""


class Pace:
    """Computes the limits of the next portion from the time that the portions so far have taken."""

    def __init__(self, stop: Stop, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop, self._clock = stop, clock
        self._began = clock()
        self.log_bytes = 0
        """Log bytes done so far."""

    def limits(self) -> tuple[float, float]:
        """Return how many log bytes the next portion may have: all of its partitions together, of
        which a single one may have more, and each. A larger one waits for all others: there may not
        be enough time for it.
        """
        if self._stop.reason is not None:  # nothing of it will be read
            return math.inf, math.inf
        left = self._stop.seconds_left
        if left is None:
            return WAVE_BYTES, math.inf
        rate: float = ASSUMED_RATE
        if self.log_bytes:
            rate = self.log_bytes / max(self._clock() - self._began, 1e-3)
        in_time = rate * left
        return min(in_time / _PART_OF_TIME, WAVE_BYTES), in_time


def next_portion(waiting: Mapping[int, Prepared], limits: tuple[float, float]) -> list[int]:
    """Return the numbers of what is done next: all that is not compacted, because retention makes
    room, or the dirtiest (S3.4).
    """
    plans = {
        number: item.plan
        for number, item in waiting.items()
        if isinstance(item, PartitionWork) and item.plan.compaction is not None
    }
    if len(plans) < len(waiting):
        return [number for number in waiting if number not in plans]
    return chosen({n: compacted_bytes(waiting[n]) for n in dirtiest_first(plans)}, *limits)


def chosen(sizes: Mapping[int, int], together: float, each: float) -> list[int]:
    """Return the next portion of partitions with these log bytes, in this order: at least one. If
    all are too large, the smallest.
    """
    portion: list[int] = []
    for number, size in sizes.items():
        if size > each:
            continue
        if portion and size > together:
            break
        portion.append(number)
        together -= size
    return portion or [min(sizes, key=lambda number: sizes[number])]


def compacted_bytes(item: Prepared) -> int:
    """Return the log bytes that a compaction reads."""
    if not isinstance(item, PartitionWork) or item.plan.compaction is None:
        return 0
    return sum(segment.log_bytes for segment in item.plan.compaction.segments)
