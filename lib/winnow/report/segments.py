"""The fate of segments: over time for the whole run, and side by side for one partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from winnow.clean.result import Fate, PartitionResult

FATES: tuple[Fate, ...] = ("kept", "compacted", "deleted")
STEPS = 36
"""Columns of the timeline."""
MOST_BLOCKS = 80
"""Segments of a partition that are shown one by one. If there are more, neighbours share a block.
"""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bytes by fate, in equal steps of time from `start` to `end` (ms). Each segment counts at its
    largest timestamp.
    """

    start: int
    end: int
    steps: tuple[dict[str, int], ...]
    late: int
    """Segments whose timestamps are later than the run's clock. They are in the last step."""

    @property
    def highest(self) -> int:
        return max(sum(step.values()) for step in self.steps)


@dataclass(frozen=True, slots=True)
class Block:
    """Adjacent segments with the same fate."""

    fate: Fate
    base_offset: int
    segments: int
    bytes: int
    largest_timestamp: int


@dataclass(frozen=True, slots=True)
class Strip:
    """A partition's segments as they were before the run, oldest first."""

    partition: PartitionResult
    blocks: tuple[Block, ...]


def timeline_of(partitions: Sequence[PartitionResult], now: int) -> Timeline | None:
    """Return the timeline; None if no segment with any bytes is known."""
    segments = [segment for p in partitions for segment in p.segments if segment.bytes]
    if not segments:
        return None
    times = [min(max(segment.largest_timestamp, 0), now) for segment in segments]
    start, end = min(times), max(times)
    steps: list[dict[str, int]] = [dict.fromkeys(FATES, 0) for _ in range(STEPS)]
    for segment, time in zip(segments, times, strict=True):
        at = (time - start) * STEPS // (end - start + 1)
        steps[at][segment.fate] += segment.bytes
    return Timeline(
        start, end, tuple(steps), sum(segment.largest_timestamp > now for segment in segments)
    )


def strip_of(partition: PartitionResult) -> Strip:
    """Divide the segments into at most MOST_BLOCKS slices, and each slice into one block for each
    run of the same fate.
    """
    segments = partition.segments
    each = -(-len(segments) // MOST_BLOCKS)
    blocks = []
    for first in range(0, len(segments), each):
        for fate, run in groupby(segments[first : first + each], key=lambda segment: segment.fate):
            some = list(run)
            blocks.append(
                Block(
                    fate=fate,
                    base_offset=some[0].base_offset,
                    segments=len(some),
                    bytes=sum(segment.bytes for segment in some),
                    largest_timestamp=max(segment.largest_timestamp for segment in some),
                )
            )
    return Strip(partition, tuple(blocks))
