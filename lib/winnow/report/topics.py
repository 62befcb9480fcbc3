"""The result for each topic. The most important topics have a row each, the others share one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.clean.result import PartitionResult

MOST_TOPICS = 20


@dataclass(frozen=True, slots=True)
class TopicRow:
    """Log bytes of a topic's partitions. `after` and `dirty_after` are None if any partition's
    value is unknown.
    """

    name: str
    others: int
    """0 for a topic. Otherwise the row combines this many topics and has no name."""
    partitions: int
    before: int
    after: int | None
    dirty: float | None
    """Mean over its partitions, weighted by their bytes."""
    dirty_after: float | None

    @property
    def freed(self) -> int | None:
        return None if self.after is None else self.before - self.after


def topic_rows(partitions: Sequence[PartitionResult]) -> tuple[TopicRow, ...]:
    """Return rows, most freed bytes first; where that is unknown, most bytes first."""
    by_topic: dict[str, list[PartitionResult]] = {}
    for partition in partitions:
        if partition.bytes_before is not None:
            by_topic.setdefault(partition.topic, []).append(partition)
    ordered = sorted(
        by_topic.items(), key=lambda entry: (sum(freed_key(p)[0] for p in entry[1]), entry[0])
    )
    rows = [_row(topic, of) for topic, of in ordered[:MOST_TOPICS]]
    rest = ordered[MOST_TOPICS:]
    if rest:
        rows.append(_row("", [p for _, of in rest for p in of], others=len(rest)))
    return tuple(rows)


def freed_key(p: PartitionResult) -> tuple[float, str, int]:
    """Sort by freed bytes, most first. Where only a run can find that out, dirty bytes are the best
    estimate.
    """
    before = p.bytes_before or 0
    freed = before * (p.dirty_ratio or 0.0) if p.bytes_after is None else before - p.bytes_after
    return -freed, p.topic, p.partition


def _row(topic: str, partitions: Sequence[PartitionResult], *, others: int = 0) -> TopicRow:
    after = [p.bytes_after for p in partitions]
    known = [size for size in after if size is not None]
    return TopicRow(
        name=topic,
        others=others,
        partitions=len(partitions),
        before=sum(p.bytes_before or 0 for p in partitions),
        after=sum(known) if len(known) == len(after) else None,
        dirty=_mean(
            [(p.dirty_ratio, p.bytes_before) for p in partitions if p.dirty_ratio is not None]
        ),
        dirty_after=_mean(
            [(p.dirty_ratio_after, p.bytes_before) for p in partitions if p.dirty_ratio is not None]
        ),
    )


def _mean(weighted: Sequence[tuple[float | None, int | None]]) -> float | None:
    """Return the weighted mean; None if a value is unknown or there are none."""
    total = sum(weight or 0 for _, weight in weighted)
    if not total or any(value is None for value, _ in weighted):
        return None
    return sum((value or 0.0) * (weight or 0) for value, weight in weighted) / total
