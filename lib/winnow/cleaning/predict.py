"""Predict what a run would do and how much disk space it would need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from winnow.cleaning.clean import Cleaned
from winnow.cleaning.commit.split import split_bytes
from winnow.cleaning.little_space import seed_bytes, with_exact_sizes
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.partitions import Planned, PlannedPartition, SkippedPartition
from winnow.cleaning.plan.ready import ReadyPartition, dirtiest_first, make_ready
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult, Setting
from winnow.cleaning.rewrite.compaction import Estimate, Estimated
from winnow.cleaning.space import Room, batches, needed_bytes, no_space
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, WinnowError
from winnow.logdir.live.changed import changed_since_view
from winnow.policy.free import freed_by_deletion
from winnow.runtime.failure import Failure, failure
from winnow.storage.places import Places, free_bytes


def predict(planned: Sequence[Planned], request: Request, estimate: Estimate) -> Cleaned:
    """Return what `clean` would do, as far as this is known without reading records; all of it if
    the request asks for an estimate. Where space is short, records are read to know whether it is
    enough.

    Does not predict how overflowing segments split (S6.5), nor what follows from that.
    """
    freed = _freed_first([] if request.keep_replaced else planned)

    def free(directory: str) -> int:
        spare = free_bytes(directory, keep_free=request.keep_free)
        return spare + freed[Places().volume(directory).key]

    settings: dict[int, tuple[Setting, ...]] = {}
    """By the identity of a topic's config, which its partitions share."""
    results: list[PartitionResult] = []
    partitions: dict[int, ReadyPartition] = {}
    too_large: dict[int, ReadyPartition] = {}
    for number, item in enumerate(planned):
        if isinstance(item, SkippedPartition):
            results.append(report.left_alone(item))
            continue
        config = item.config
        if id(config) not in settings:
            settings[id(config)] = report.settings_of(config)
        results.append(report.previewed(item, request, settings[id(config)]))
        if item.plan.compaction is not None:
            try:
                ready = make_ready(item, request)
                left = Room(request.max_extra_space, free=free).at(ready.job.directory)
            except FAILS_ONE_PARTITION as error:
                results[number] = report.failed(item, failure(error))
                continue
            (partitions if needed_bytes(ready.job, request) <= left else too_large)[number] = ready
    peak, found = _fit(too_large, estimate, request, free)
    if request.estimate:
        sure = {number: ready for number, ready in partitions.items() if not ready.item.overflowed}
        estimated = estimate([ready.job for ready in sure.values()])
        for (number, ready), groups in zip(sure.items(), estimated, strict=True):
            found[number] = _estimated(ready, groups, request)
    results = [found.get(number, result) for number, result in enumerate(results)]
    results = [
        report.changed_meanwhile(result)
        if result.error is not None and changed_since_view(item.place.directory)
        else result
        for item, result in zip(planned, results, strict=True)
    ]
    room = Room(request.max_extra_space, free=free)
    plans = {number: ready.item.plan for number, ready in partitions.items()}
    for batch in batches([partitions[number].job for number in dirtiest_first(plans)]):
        needed, left_at = Counter[Hashable](), dict[Hashable, int]()
        for job in batch:
            volume = Places().volume(job.directory).key
            needed[volume] += job.most_bytes
            left_at[volume] = room.at(job.directory)
        # What does not fit is written later.
        at_once = sum(min(count, left_at[volume]) for volume, count in needed.items())
        peak = max(peak, at_once if room.limit is None else min(at_once, room.limit))
    return Cleaned(results, max(peak, split_bytes(planned)))


def _fit(
    partitions: Mapping[int, ReadyPartition],
    estimate: Estimate,
    request: Request,
    free: Callable[[str], int],
) -> tuple[int, dict[int, PartitionResult]]:
    """Return the peak temporary space in bytes, and the results of partitions that fit, if at all,
    only by their exact sizes.
    """
    estimated, exact = with_exact_sizes(partitions, estimate, request)
    room, peak = Room(None, free=free), 0
    results = {
        number: _estimated(partitions[number], groups, request)
        for number, groups in estimated.items()
    }
    for number, ready in exact.items():
        needed, directory = needed_bytes(ready.job, request), ready.job.directory
        left = room.at(directory)
        if request.max_extra_space is not None:
            left = min(left, request.max_extra_space)
        if needed > left + seed_bytes(ready, request):
            results[number] = report.failed(ready.item, no_space(needed, left, request))
            continue
        peak = max(peak, needed)
        sources = sum(freed_by_deletion(s) for group in ready.job.groups for s in group.segments)
        room.take(directory, ready.job.most_bytes - (0 if request.keep_replaced else sources))
    return peak, results


def _estimated(ready: ReadyPartition, groups: Estimated, request: Request) -> PartitionResult:
    """Return what `clean` would report for a partition that is compacted, and perhaps deleted from
    afterwards (S3.5).
    """
    item = ready.item
    if isinstance(groups, Failure):
        if request.on_corrupt == "quarantine" and groups.exit_code == CorruptLogError.exit_code:
            return report.previewed(item, request)
        return report.failed(item, groups)
    result = report.after_commit(item, groups, ready.job.end_offset, request, duration_ms=None)
    return replace(result, settings=report.settings_of(item.config))


def _freed_first(planned: Sequence[Planned]) -> Counter[Hashable]:
    """Return, by file system, the bytes that retention deletes before anything is compacted."""
    freed = Counter[Hashable]()
    for item in planned:
        if isinstance(item, PlannedPartition) and not item.plan.compaction and item.plan.deleted:
            deleted_bytes = sum(map(freed_by_deletion, item.plan.deleted))
            freed[Places().volume(item.state.directory).key] += deleted_bytes
    return freed


def damaged_first(partitions: Sequence[Planned], request: Request) -> list[PartitionResult] | None:
    """With `fail`, return the results of a run that does nothing because some partition is known to
    be damaged. Otherwise return None.
    """
    damaged = [item for item in partitions if isinstance(item, SkippedPartition) and item.error]
    if request.on_corrupt != "fail" or not damaged:
        return None
    why = Failure(
        f"not started: {damaged[0].place.topic_partition} is damaged", WinnowError.exit_code
    )
    return [
        report.left_alone(item) if isinstance(item, SkippedPartition) else report.failed(item, why)
        for item in partitions
    ]
