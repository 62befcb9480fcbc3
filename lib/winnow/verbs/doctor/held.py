"""Find what keeps log bytes that settings would free: lost high watermarks and wrong timestamps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from winnow.cleaning.plan.future import blocking_of
from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.policy.decide import decide
from winnow.policy.retention import all_committed
from winnow.verbs.doctor.values import FUTURE, HIGH_WATERMARK, PAST, Held


def held_in(items: Iterable[PlannedPartition], *, now: int) -> tuple[Held, ...]:
    """Return what is held in these partitions, most bytes first."""
    found = [one for item in items for one in _held(item, now)]
    return tuple(sorted(found, key=lambda one: (-one.log_bytes, one.topic, one.partition)))


def _held(item: PlannedPartition, now: int) -> Iterator[Held]:
    plan, named = item.plan, item.place.named
    if (lost := item.state.lost_high_watermark) is not None:
        free = decide(all_committed(item.state), item.config, now=now)
        log_bytes = 0 if free.compaction is None else free.compaction.cleanable_bytes
        log_bytes = max(log_bytes, 0 if free.retention is None else free.retention.deleted_bytes)
        if log_bytes:
            yield Held(**named, by=HIGH_WATERMARK, log_bytes=log_bytes, words=lost)
    for one in blocking_of(plan, now):
        yield Held(**named, by=FUTURE, log_bytes=one.kept_bytes, words=str(one))
    if plan.retention is not None and plan.retention.dates:
        log_bytes, words = plan.retention.deleted_bytes, plan.retention.dates
        yield Held(**named, by=PAST, log_bytes=log_bytes, words=words)
