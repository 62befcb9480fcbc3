"""Free space by deleting what retention allows, oldest first, and nothing else. The disk may be
completely full (docs/decisions/0012).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from winnow.cleaning.clean import Cleaned
from winnow.cleaning.commit.commit import commit_several
from winnow.cleaning.commit.retention import retain_only, state_now
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.partitions import Planned, PlannedPartition, SkippedPartition
from winnow.cleaning.request import Request
from winnow.cleaning.result import RETAINED, PartitionResult
from winnow.clock import ms_since
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.commit.retain import delete_segments, follow_log_start
from winnow.policy.free import freed_by_deletion, oldest_first
from winnow.policy.retention import (
    all_committed,
    blocked_at,
    checkpoint_entries,
    deletable,
    retention_plan,
)
from winnow.runtime.failure import failure
from winnow.words import counted, size


def only_what_is_needed(planned: Sequence[Planned], *, wanted: int) -> list[Planned]:
    """Return the same partitions, with plans that free no more than `wanted` bytes need."""
    result, works = list(planned), _works(planned)
    plans = [(item.state, item.plan.retention) for item in works.values()]
    for number, retention in zip(works, oldest_first(plans, wanted=wanted), strict=True):
        plan = works[number].plan
        if retention != plan.retention:
            words = (
                f"{counted(len(plan.deleted), 'segment')} could be deleted, but enough is freed "
                "without them, or it is the active segment"
            )
            reason = words if retention is None else retention.words
            plan = replace(plan, retention=retention, reason=reason)
            result[number] = replace(works[number], plan=plan)
    return result


def _works(planned: Sequence[Planned]) -> dict[int, PlannedPartition]:
    return {n: item for n, item in enumerate(planned) if isinstance(item, PlannedPartition)}


def freed_bytes(planned: Sequence[Planned], results: Sequence[PartitionResult]) -> int:
    """Return the bytes that the plans free where carried out, of all files of the segments."""
    return sum(
        freed_by_deletion(segment)
        for item, result in zip(planned, results, strict=True)
        if isinstance(item, PlannedPartition) and RETAINED in result.actions
        for segment in item.plan.deleted
    )


def delete_first(planned: Sequence[Planned], request: Request) -> Cleaned:
    """Delete from all partitions first. Only then write side files and checkpoints."""
    works = _works(planned)
    directories = [item.place.directory for item in works.values() if item.plan.retention]
    deleted = commit_several(
        [partial(_delete, item, request) for item in works.values()],
        directories,
        request.progress,
        doing="deleting expired segments",
    )
    followed = commit_several(
        [partial(_follow, *each, request) for each in zip(works.values(), deleted, strict=True)],
        directories,
        request.progress,
        doing="writing checkpoints",
    )
    done = dict(zip(works, followed, strict=True))
    results = [
        report.left_alone(item) if isinstance(item, SkippedPartition) else done[number]
        for number, item in enumerate(planned)
    ]
    return Cleaned(results, 0)


def _delete(item: PlannedPartition, request: Request) -> PartitionResult | int:
    """Delete what the plan deletes. Return the ms that it took, or the result if it failed."""
    plan = item.plan.retention
    if plan is None:
        return 0
    if request.stop.reason is not None:
        return report.stopped(item, request.stop.reason)
    began = time.monotonic()
    try:
        delete_segments(request.storage, item.state.directory, plan.deleted)
    except FAILS_ONE_PARTITION as error:
        return report.interrupted(item, failure(error))
    return ms_since(began)


def _follow(
    item: PlannedPartition, deleted: PartitionResult | int, request: Request
) -> PartitionResult:
    """`deleted`: what `_delete` returned."""
    if isinstance(deleted, PartitionResult):
        return deleted
    began = time.monotonic()
    plan = item.plan.retention
    if plan is None:
        return retain_only(item, request)
    try:
        after = state_now(item)
        follow_log_start(
            request.storage, after, checkpoint_entries(after.topic_partition.topic, item.config)
        )
    except FAILS_ONE_PARTITION as error:
        return report.interrupted(item, failure(error))
    return report.done(item, request, after, plan, duration_ms=deleted + ms_since(began))


def what_is_short(planned: Sequence[Planned], *, short: int, now: int) -> str:
    """Return the message of a run that may not free enough: the largest topics, and what helps."""
    held: Counter[str] = Counter()
    policies: dict[str, str] = {}
    for item in planned:
        if item.state is None:
            continue
        topic = item.place.topic_partition.topic
        policies[topic] = item.policy or "unknown"
        held[topic] += item.state.log_bytes
        if isinstance(item, PlannedPartition):
            held[topic] -= sum(segment.log_bytes for segment in item.plan.deleted)
    most = "; ".join(
        f"{topic} {size(count)} ({policies[topic]})" for topic, count in held.most_common(3)
    )
    return (
        f"--free-at-least: {size(short)} ({short} bytes) short. {_why_no_more(planned, now)}The "
        f"largest topics are {most or 'none'}. {_SHORTER if _frees_more(planned) else ''}A "
        "compacted topic shrinks only by a `clean`, which needs some space"
    )


_SHORTER = (
    "Shorter retention frees more, for example --topic-set 'TOPIC:retention.ms=3600000' for a "
    "topic whose cleanup.policy has delete. "
)


def _frees_more(planned: Sequence[Planned]) -> bool:
    """Return whether shorter retention would let more segments be deleted."""
    return any(
        item.config.cleanup_delete and deletable(item.state) > len(item.plan.deleted)
        for item in _works(planned).values()
    )


def _why_no_more(planned: Sequence[Planned], now: int) -> str:
    """Return sentences: what keeps the rest, if that is not the settings."""
    lost, future = [], []
    for item in _works(planned).values():
        if item.state.lost_high_watermark is not None:
            plan = retention_plan(all_committed(item.state), item.config, now)
            if plan is not None:
                lost.append(plan.deleted_bytes)
        blocking = blocked_at(item.state, item.config, now, first=len(item.plan.deleted))
        if blocking is not None:
            future.append(blocking.kept_bytes)
    words = ""
    if lost:
        words += (
            f"Lost high watermarks keep {size(sum(lost))} in {counted(len(lost), 'partition')}, "
            "whatever the settings: start the broker, which raises them, and see `doctor`. "
        )
    if future:
        words += (
            f"Timestamps in the future keep {size(sum(future))} in "
            f"{counted(len(future), 'partition')}: see `doctor`. "
        )
    left_alone = sum(isinstance(item, SkippedPartition) for item in planned)
    if left_alone:
        many = counted(left_alone, "partition")
        words += f"{many} can't be worked on in their current state. "
    return words or "The topics' retention settings allow nothing more to be deleted. "
