"""Free space by deleting what retention allows, oldest first, and nothing else. The disk may be
completely full (docs/decisions/0012).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from winnow.cleaning.carry_out import CarriedOut
from winnow.cleaning.commit.commit import commit_log_start
from winnow.cleaning.commit.retention import retain_only, state_now
from winnow.cleaning.commit.several import commit_several
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.prepared import PartitionWork, Prepared
from winnow.cleaning.request import Request
from winnow.cleaning.result import RETAINED, PartitionResult
from winnow.clock import ms_since
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.commit.retain import delete_segments
from winnow.policy.free import file_bytes, oldest_first
from winnow.policy.plan import PartitionPlan, RetentionPlan
from winnow.policy.retention import checkpoint_entries
from winnow.runtime.failure import failure
from winnow.words import counted, size

_T = TypeVar("_T")
_TOLD = 3


def only_what_is_needed(prepared: Sequence[Prepared], *, wanted: int) -> list[Prepared]:
    """Return the same partitions, with plans that free no more than `wanted` bytes need."""
    chosen = [item for item in prepared if isinstance(item, PartitionWork)]
    plans = iter(
        oldest_first([(item.state, item.plan.retention) for item in chosen], wanted=wanted)
    )
    return [
        replace(item, plan=_with(item.plan, next(plans)))
        if isinstance(item, PartitionWork)
        else item
        for item in prepared
    ]


def freed_bytes(prepared: Sequence[Prepared], results: Sequence[PartitionResult]) -> int:
    """Return the bytes that the plans free where carried out, of all files of the segments."""
    return sum(
        file_bytes(segment)
        for item, result in zip(prepared, results, strict=True)
        if isinstance(item, PartitionWork) and RETAINED in result.actions
        for segment in item.plan.deleted
    )


def delete_first(prepared: Sequence[Prepared], request: Request, *, run_id: str) -> CarriedOut:
    """Delete from all partitions first. Only then write side files and checkpoints."""
    works = [item for item in prepared if isinstance(item, PartitionWork)]
    deleted = _several(
        "deleting expired segments",
        [partial(_delete, item, request) for item in works],
        works,
        request,
    )
    followed = _several(
        "writing checkpoints",
        [partial(_follow, *each, request, run_id) for each in zip(works, deleted, strict=True)],
        works,
        request,
    )
    done = iter(followed)
    results = [
        next(done) if isinstance(item, PartitionWork) else report.left_alone(item)
        for item in prepared
    ]
    return CarriedOut(results, 0)


def _several(
    name: str,
    pieces: Sequence[Callable[[], _T]],
    works: Sequence[PartitionWork],
    request: Request,
) -> list[_T]:
    """Call the pieces, several at a time. `works`: what each of them works on."""
    if pieces:
        request.progress.stage(name, total_tasks=len(pieces))
    directories = [item.place.directory for item in works if item.plan.retention]
    return commit_several(pieces, directories, done=partial(request.progress.advance, 1))


def _delete(item: PartitionWork, request: Request) -> PartitionResult | int:
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
    item: PartitionWork, deleted: PartitionResult | int, request: Request, run_id: str
) -> PartitionResult:
    """`deleted`: what `_delete` returned."""
    if isinstance(deleted, PartitionResult):
        return deleted
    began = time.monotonic()
    plan = item.plan.retention
    if plan is None:
        return retain_only(item, request, run_id=run_id)
    try:
        after = state_now(item)
        commit_log_start(
            request.storage, after, checkpoint_entries(after.topic_partition.topic, item.config)
        )
    except FAILS_ONE_PARTITION as error:
        return report.interrupted(item, failure(error))
    return report.done(
        item,
        after=after,
        retention=plan,
        now=request.now,
        duration_ms=deleted + ms_since(began),
    )


def what_is_short(prepared: Sequence[Prepared], *, short: int) -> str:
    """Return the message of a run that may not free enough: the largest topics, and what helps."""
    held: Counter[str] = Counter()
    policies: dict[str, str] = {}
    for item in prepared:
        if item.state is None:
            continue
        topic = item.state.topic_partition.topic
        held[topic] += item.state.log_bytes
        if isinstance(item, PartitionWork):
            held[topic] -= sum(segment.log_bytes for segment in item.plan.deleted)
            policies[topic] = item.config.policy or "unknown"
        else:
            policies[topic] = item.policy or "unknown"
    most = "; ".join(
        f"{topic} {size(count)} ({policies[topic]})" for topic, count in held.most_common(_TOLD)
    )
    return (
        f"--free-at-least: {size(short)} ({short} bytes) short. The topics' retention settings "
        f"allow nothing more to be deleted. The largest topics are {most or 'none'}. "
        "Shorter retention frees more, for example --topic-set 'TOPIC:retention.ms=3600000' for a "
        "topic whose cleanup.policy has delete. A compacted topic shrinks only by a `clean`, which "
        "needs some space"
    )


def _with(plan: PartitionPlan, retention: RetentionPlan | None) -> PartitionPlan:
    if retention == plan.retention:
        return plan
    if retention is None:
        words = (
            f"{counted(len(plan.deleted), 'segment')} could be deleted, but older segments free "
            "enough, or it is the active segment"
        )
        return replace(plan, retention=None, reason=words)
    return replace(plan, retention=retention, reason=retention.words)
