"""What the page shows of a run, as plain values: sums, the most important partitions, and how many
others there are.

A run may have twenty thousand partitions, but a page is for one reader. So every list is limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from winnow.clean.result import NONE, TOMBSTONE_AGES, PartitionResult, RunResult
from winnow.report.segments import FATES, Strip, Timeline, strip_of, timeline_of
from winnow.report.topics import TopicRow, freed_key, topic_rows

MOST_DETAILS = 50
MOST_HOLDERS = 10
MOST_NAMES = 12
MOST_REASONS = 30
MOST_NOTES = 50
MOST_SLOW = 10
MOST_STRIPS = 12
REASONS = {
    "superseded": "superseded, or without a key",
    "tombstones": "tombstones whose delete horizon had passed",
    "aborted": "records of aborted transactions",
    "markers": "markers of transactions without records",
    "retention": "records in segments that retention deleted",
}
"""Fields of RecordsRemoved, in words."""
RATIO_STEPS = 10


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason why partitions were left unchanged, the names of some of them, and their number."""

    text: str
    names: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Ratios:
    """Partitions with a dirty ratio: how many are in each tenth of 0 to 1, and the plain mean."""

    counts: tuple[int, ...]
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of one run. Bytes are those of logs. `unknown` is the number of partitions to be
    changed whose size afterwards is unknown.
    """

    result: RunResult
    planned: bool
    acting: int
    idle: int
    troubled: int
    bytes_before: int
    freed: int
    """Over the partitions whose size afterwards is known, without what was quarantined: that is
    still on the disk.
    """
    unknown: int
    dirty_bytes: int
    """In a plan: approximate dirty bytes of those partitions."""
    kept_bytes: int
    quarantined_bytes: int
    records: tuple[int, int] | None
    """Before and after, over the partitions where both were counted."""
    segments: dict[str, int]
    """Number of segments by fate."""
    topics: tuple[TopicRow, ...]
    ratios_before: Ratios | None
    ratios_after: Ratios | None
    timeline: Timeline | None
    strips: tuple[Strip, ...]
    slowest: tuple[PartitionResult, ...]
    removed: tuple[tuple[str, int], ...]
    """Reason and number of records removed, over the partitions where that is known. Empty if none
    were removed.
    """
    tombstones: tuple[tuple[str, int], ...]
    """Age and number, youngest first. Empty if there are none."""
    causes: tuple[Cause, ...]
    causes_left_out: int
    details: tuple[PartitionResult, ...]
    holders: tuple[PartitionResult, ...]
    notes: tuple[str, ...]
    notes_left_out: int


def facts_of(result: RunResult) -> Facts:
    """Return all facts that the page shows."""
    partitions = result.partitions
    troubled = [p for p in partitions if p.left_alone or p.error is not None]
    acting = sorted((p for p in partitions if acts(p)), key=freed_key)
    known = [(p.bytes_before, p.bytes_after) for p in partitions]
    sizes = [(before, after) for before, after in known if before is not None and after is not None]
    unknown = [p for p in acting if p.bytes_after is None]
    counted = [(p.records_before, p.records_after) for p in partitions]
    records = [
        (before, after) for before, after in counted if before is not None and after is not None
    ]
    quarantined = sum(p.quarantined_bytes or 0 for p in partitions)
    causes = _causes(troubled)
    fates = Counter(segment.fate for p in partitions for segment in p.segments)
    return Facts(
        result=result,
        planned=result.verb == "plan",
        acting=len(acting),
        idle=sum(not acts(p) and not p.left_alone and p.error is None for p in partitions),
        troubled=len(troubled),
        bytes_before=sum(p.bytes_before or 0 for p in partitions),
        freed=sum(before - after for before, after in sizes) - quarantined,
        unknown=len(unknown),
        dirty_bytes=round(sum((p.bytes_before or 0) * (p.dirty_ratio or 0) for p in unknown)),
        kept_bytes=sum(p.kept_bytes or 0 for p in partitions),
        quarantined_bytes=quarantined,
        records=(sum(before for before, _ in records), sum(after for _, after in records))
        if records
        else None,
        segments={fate: fates[fate] for fate in FATES} if fates else {},
        topics=topic_rows(partitions),
        ratios_before=_ratios(p.dirty_ratio for p in partitions),
        ratios_after=_ratios(p.dirty_ratio_after for p in partitions),
        timeline=timeline_of(partitions, result.now),
        strips=tuple(map(strip_of, [p for p in acting if p.segments][:MOST_STRIPS])),
        slowest=_slowest(partitions),
        removed=_removed(partitions),
        tombstones=_tombstones(partitions),
        causes=causes[:MOST_REASONS],
        causes_left_out=len(causes[MOST_REASONS:]),
        details=tuple(acting[:MOST_DETAILS]),
        holders=tuple(p for p in acting if p.holders)[:MOST_HOLDERS],
        notes=result.notes[:MOST_NOTES],
        notes_left_out=len(result.notes[MOST_NOTES:]),
    )


def acts(partition: PartitionResult) -> bool:
    return partition.actions != (NONE,)


def _causes(troubled: Sequence[PartitionResult]) -> tuple[Cause, ...]:
    names: dict[str, list[str]] = {}
    for p in troubled:
        text = p.reason if p.error is None or p.error in p.reason else f"{p.reason}: {p.error}"
        names.setdefault(text, []).append(f"{p.topic}-{p.partition}")
    ordered = sorted(names.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return tuple(Cause(text, tuple(sorted(of)[:MOST_NAMES]), len(of)) for text, of in ordered)


def _ratios(values: Iterable[float | None]) -> Ratios | None:
    known = [min(max(value, 0.0), 1.0) for value in values if value is not None]
    if not known:
        return None
    steps = Counter(min(int(value * RATIO_STEPS), RATIO_STEPS - 1) for value in known)
    return Ratios(tuple(steps[step] for step in range(RATIO_STEPS)), sum(known) / len(known))


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


def _slowest(partitions: Sequence[PartitionResult]) -> tuple[PartitionResult, ...]:
    timed = [p for p in partitions if p.duration_ms is not None]
    return tuple(
        sorted(timed, key=lambda p: (-(p.duration_ms or 0), p.topic, p.partition))[:MOST_SLOW]
    )
