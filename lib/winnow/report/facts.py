"""What the page shows of a run, as plain values: sums, the most important partitions, and how many
others there are.

A run may have twenty thousand partitions, but a page is for one reader. So every list is limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from types import SimpleNamespace

from winnow.cleaning.result import TOMBSTONE_AGES, Fate, PartitionResult, RunResult

MOST_DETAILS = 50
MOST_HOLDERS = 10
MOST_NAMES = 12
MOST_REASONS = 30
MOST_NOTES = 50
MOST_SLOW = 10
MOST_STRIPS = 12
MOST_TOPICS = 20
MOST_BLOCKS = 80
"""Segments of a partition that are shown one by one. If there are more, neighbours share a block.
"""
FATES: tuple[Fate, ...] = ("kept", "compacted", "deleted")
STEPS = 36
REASONS = {
    "superseded": "superseded, or without a key",
    "tombstones": "tombstones whose delete horizon had passed",
    "aborted": "records of aborted transactions",
    "markers": "markers of transactions without records",
    "retention": "records in segments that retention deleted",
}
"""Fields of RecordsRemoved, in words."""
RATIO_STEPS = 10


def facts_of(result: RunResult) -> SimpleNamespace:
    """Return the facts of one run. Bytes are those of logs."""
    partitions = result.partitions
    troubled = [p for p in partitions if p.failed]
    acting = sorted(
        (p for p in partitions if p.acts), key=lambda p: (-p.gain, p.topic, p.partition)
    )
    sizes = _known((p.bytes_before, p.bytes_after) for p in partitions)
    records = _known((p.records_before, p.records_after) for p in partitions)
    unknown = [p for p in acting if p.bytes_after is None]
    quarantined = sum(p.quarantined_bytes or 0 for p in partitions)
    causes = _causes(troubled)
    timed = [p for p in partitions if p.duration_ms is not None]
    timed.sort(key=lambda p: (-(p.duration_ms or 0), p.topic, p.partition))
    fates = Counter(segment.fate for p in partitions for segment in p.segments)
    return SimpleNamespace(
        planned=result.verb == "plan",
        acting=len(acting),
        idle=sum(not p.acts and not p.failed for p in partitions),
        troubled=len(troubled),
        bytes_before=sum(p.bytes_before or 0 for p in partitions),
        # Over the partitions whose size afterwards is known, without what was quarantined: that is
        # still on the disk.
        freed=sum(before - after for before, after in sizes) - quarantined,
        # Partitions to be changed whose size afterwards is unknown, and about how many dirty bytes
        # they have.
        unknown=len(unknown),
        dirty_bytes=round(sum((p.bytes_before or 0) * (p.dirty_ratio or 0) for p in unknown)),
        kept_bytes=sum(p.kept_bytes or 0 for p in partitions),
        quarantined_bytes=quarantined,
        # Before and after, over the partitions where both were counted.
        records=tuple(map(sum, zip(*records, strict=True))),
        segments={fate: fates[fate] for fate in FATES} if fates else {},
        # Kept segments that compaction read.
        segments_unchanged=sum(p.segments_unchanged or 0 for p in partitions),
        topics=topic_rows(partitions),
        ratios_before=_ratios(p.dirty_ratio for p in partitions),
        ratios_after=_ratios(p.dirty_ratio_after for p in partitions),
        timeline=timeline_of(partitions, result.now),
        # Segments as they were before the run, oldest first.
        strips=[(p, blocks_of(p)) for p in [p for p in acting if p.segments][:MOST_STRIPS]],
        slowest=timed[:MOST_SLOW],
        removed=_removed(partitions),
        tombstones=_tombstones(partitions),
        causes=causes[:MOST_REASONS],
        causes_left_out=len(causes[MOST_REASONS:]),
        details=tuple(acting[:MOST_DETAILS]),
        holders=tuple(p for p in acting if p.holders)[:MOST_HOLDERS],
        notes=result.notes[:MOST_NOTES],
        notes_left_out=len(result.notes[MOST_NOTES:]),
    )


def _known(pairs: Iterable[tuple[int | None, int | None]]) -> list[tuple[int, int]]:
    return [(one, other) for one, other in pairs if one is not None and other is not None]


def _causes(troubled: Sequence[PartitionResult]) -> list[tuple[str, list[str], int]]:
    """Return reasons why partitions were left unchanged, the names of some of them, and how many
    there are.
    """
    names: dict[str, list[str]] = {}
    for p in troubled:
        names.setdefault(p.why, []).append(p.name)
    ordered = sorted(names.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return [(why, sorted(of)[:MOST_NAMES], len(of)) for why, of in ordered]


def _ratios(values: Iterable[float | None]) -> SimpleNamespace | None:
    """Return how many partitions with a dirty ratio are in each tenth of 0 to 1, and the plain mean
    of their ratios.
    """
    known = [min(max(value, 0.0), 1.0) for value in values if value is not None]
    if not known:
        return None
    steps = Counter(min(int(value * RATIO_STEPS), RATIO_STEPS - 1) for value in known)
    counts = tuple(steps[step] for step in range(RATIO_STEPS))
    return SimpleNamespace(counts=counts, mean=sum(known) / len(known))


def _removed(partitions: Sequence[PartitionResult]) -> tuple[tuple[str, int], ...]:
    known = [p.records_removed for p in partitions if p.records_removed is not None]
    counts = {
        words: sum(getattr(removed, name) for removed in known) for name, words in REASONS.items()
    }
    return tuple(counts.items()) if any(counts.values()) else ()


def _tombstones(partitions: Sequence[PartitionResult]) -> tuple[tuple[str, int], ...]:
    counts = [
        sum(ages) for ages in zip(*(p.tombstones for p in partitions if p.tombstones), strict=True)
    ]
    return tuple(zip(TOMBSTONE_AGES, counts, strict=True)) if any(counts) else ()


def topic_rows(partitions: Sequence[PartitionResult]) -> list[SimpleNamespace]:
    """Return rows, most freed bytes first; where that is unknown, most bytes first. Of many topics,
    the last row combines the rest.
    """
    by_topic: dict[str, list[PartitionResult]] = {}
    for partition in partitions:
        if partition.bytes_before is not None:
            by_topic.setdefault(partition.topic, []).append(partition)
    ordered = sorted(by_topic.items(), key=lambda entry: (-sum(p.gain for p in entry[1]), entry[0]))
    rows = [_topic_row(topic, of) for topic, of in ordered[:MOST_TOPICS]]
    rest = ordered[MOST_TOPICS:]
    if rest:
        rows.append(_topic_row("", [p for _, of in rest for p in of], others=len(rest)))
    return rows


def _topic_row(
    topic: str, partitions: Sequence[PartitionResult], *, others: int = 0
) -> SimpleNamespace:
    """Return the log bytes of a topic, or of so many `others`. What is unknown of one of its
    partitions is None.
    """
    before = sum(p.bytes_before or 0 for p in partitions)
    sizes = [p.bytes_after for p in partitions]
    after = None if None in sizes else sum(size or 0 for size in sizes)
    return SimpleNamespace(
        name=topic,
        others=others,
        partitions=len(partitions),
        before=before,
        after=after,
        freed=None if after is None else before - after,
        dirty=_mean(partitions, lambda p: p.dirty_ratio),
        dirty_after=_mean(partitions, lambda p: p.dirty_ratio_after),
    )


def _mean(
    partitions: Sequence[PartitionResult], ratio_of: Callable[[PartitionResult], float | None]
) -> float | None:
    """Return the mean over partitions that had a dirty ratio, weighted by their bytes; None if a
    ratio is unknown or there are none.
    """
    weighted = [(ratio_of(p), p.bytes_before or 0) for p in partitions if p.dirty_ratio is not None]
    total = sum(weight for _, weight in weighted)
    if not total or any(ratio is None for ratio, _ in weighted):
        return None
    return sum((ratio or 0.0) * weight for ratio, weight in weighted) / total


def timeline_of(partitions: Sequence[PartitionResult], now: int) -> SimpleNamespace | None:
    """Return bytes by fate, in equal steps of time from `start` to `end` (ms); None if no segment
    with any bytes is known. Each segment counts at its largest timestamp.
    """
    segments = [segment for p in partitions for segment in p.segments if segment.bytes]
    if not segments:
        return None
    times = [min(max(segment.largest_timestamp, 0), now) for segment in segments]
    start, end = min(times), max(times)
    steps: list[dict[str, int]] = [dict.fromkeys(FATES, 0) for _ in range(STEPS)]
    for segment, time in zip(segments, times, strict=True):
        at = (time - start) * STEPS // (end - start + 1)
        steps[at][segment.fate] += segment.bytes
    return SimpleNamespace(
        start=start,
        end=end,
        steps=steps,
        highest=max(sum(step.values()) for step in steps),
        # Segments whose timestamps are later than the run's clock. They are in the last step.
        late=sum(segment.largest_timestamp > now for segment in segments),
    )


def blocks_of(partition: PartitionResult) -> list[SimpleNamespace]:
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
                SimpleNamespace(
                    fate=fate,
                    base_offset=some[0].base_offset,
                    segments=len(some),
                    bytes=sum(segment.bytes for segment in some),
                    largest_timestamp=max(segment.largest_timestamp for segment in some),
                )
            )
    return blocks
