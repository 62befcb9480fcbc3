"""Carry out the plans: first retention of partitions that are not compacted, then compaction in
waves, each followed by the retention of its partitions (S3.5). The driver does every commit,
several partitions side by side (docs/decisions/0050). A partition that fails never stops the
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from pyspark import SparkContext

from winnow.cleaning.commit.commit import commit_several, kept_bytes
from winnow.cleaning.commit.quarantine import commit, stage_quarantine
from winnow.cleaning.commit.retention import retain_only
from winnow.cleaning.commit.split import split_bytes, split_first
from winnow.cleaning.compact import NOT_BEGUN, Run, compact
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.decide_listed import to_walk
from winnow.cleaning.plan.prepare import decide_again, prepare, walk
from winnow.cleaning.plan.prepared import LeftAlone, PartitionWork, Prepared
from winnow.cleaning.plan.rounds import Round, dirtiest_first, make_round
from winnow.cleaning.portions import Pace, compacted_bytes, next_portion
from winnow.cleaning.request import Request
from winnow.cleaning.result import RETAINED, PartitionResult
from winnow.cleaning.space import needed_bytes, waves
from winnow.cleaning.tight import compact_tight
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, WinnowError, failure_of
from winnow.logdir.survey import LogDir
from winnow.policy.decide import after_retention
from winnow.runtime.cancel import attempted
from winnow.runtime.failure import Failure, failure
from winnow.runtime.progress import Within
from winnow.runtime.spool import part_of, remove_part
from winnow.state import TopicPartition
from winnow.words import size

_UNKNOWN: dict[str, Any] = {"segments_after": None, "bytes_after": None}


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """One result for each partition, in the order given."""

    partitions: list[PartitionResult]
    peak_extra_bytes: int
    """Maximal bytes beside the logs at one time: written, but not yet in place."""


def carry_out(sc: SparkContext, prepared: Sequence[Prepared], request: Request) -> CarriedOut:
    """Carry out the plans. Return one result for each, and the disk space that the run needed.

    What was not walked is walked now, portion by portion.
    """
    run, pace = Run(sc, request), Pace(request.stop)
    waiting = dict(enumerate(prepared))
    retained: dict[int, PartitionResult] = {}
    while waiting:
        portion = {number: waiting.pop(number) for number in next_portion(waiting, pace.limits())}
        run.request = _for_portion(request, portion, waiting, pace)
        following = _carry_out_portion(run, portion)
        if not portion.keys() & run.tight.keys():
            remove_part(run.request.spool, request.spool)
        pace.log_bytes += _all_bytes(portion.values())
        for number in following.keys() - retained:
            retained[number] = run.results[number]
            waiting[number] = following[number]
    run.request = request
    compact_tight(run)
    final = []
    for number, first in enumerate(prepared):
        result = run.results[number]
        if number in retained:
            result = report.followed(retained[number], result)
        if number in run.split and first.state:  # report the number of segments before a split
            result = replace(result, segments_before=len(first.state.segments))
        kept = kept_bytes(request, first.place.directory)
        final.append(replace(result, kept_bytes=kept))
    return CarriedOut(final, run.peak_bytes)


def _for_portion(
    request: Request, portion: Mapping[int, Prepared], waiting: Mapping[int, Prepared], pace: Pace
) -> Request:
    """Return the request for one portion of several: it keeps its keys in a directory of its own,
    and its progress says how far the run is.
    """
    now, later = (_all_bytes(items.values()) for items in (portion, waiting))
    if not now or not later + pace.log_bytes:
        return request
    words = f"{size(pace.log_bytes)} of {size(pace.log_bytes + now + later)} done"
    progress = Within(words, request.progress)
    return replace(request, progress=progress, spool=part_of(request.spool))


def _all_bytes(items: Iterable[Prepared]) -> int:
    return sum(map(compacted_bytes, items))


def _carry_out_portion(run: Run, portion: Mapping[int, Prepared]) -> dict[int, Prepared]:
    """Walk, apply retention, compact. Return, by number, the partitions to compact after the
    retention, not walked yet.
    """
    request, results = run.request, run.results
    current = _walked(run.sc, portion, request)
    run.peak_bytes = max(run.peak_bytes, split_bytes(current.values()))
    split = split_first(run.sc, current, request)
    run.split |= split.keys()
    retained: dict[int, PartitionWork] = {}
    compacted: dict[int, PartitionWork] = {}
    for number, item in (current | split).items():
        if isinstance(item, PartitionResult):
            results[number] = item
        elif isinstance(item, LeftAlone):
            results[number] = report.left_alone(item)
        else:
            (compacted if item.plan.compaction else retained)[number] = item
    following = _retain(run, retained)
    if (why := request.stop.reason) is not None:
        results |= {number: report.stopped(item, why) for number, item in compacted.items()}
        return following
    # Check space only after retention, which may have freed some.
    rounds: dict[int, Round] = {}
    for number, item in compacted.items():
        try:
            round_ = make_round(item, request)
            fits = needed_bytes(round_.job, request) <= run.room().at(round_.job.directory)
        except FAILS_ONE_PARTITION as error:
            results[number] = report.failed(item, failure(error))
            continue
        (rounds if fits else run.tight)[number] = round_
    order = dirtiest_first({number: round_.item.plan for number, round_ in rounds.items()})
    left = iter(order)
    for wave in waves([rounds[number].job for number in order], run.room):
        numbers = list(islice(left, len(wave)))
        if run.ends():
            results |= {number: report.failed(rounds[number].item, NOT_BEGUN) for number in numbers}
            continue
        done = compact(run, [rounds[number] for number in numbers])
        results |= zip(numbers, done, strict=True)
    return following


def _walked(
    sc: SparkContext, portion: Mapping[int, Prepared], request: Request
) -> dict[int, Prepared | PartitionResult]:
    """Walk the partitions that need it, and return all. If the walk fails, these have failed."""
    found = attempted(lambda: walk(sc, [*portion.values()], request), request.stop)
    if isinstance(found, Failure):
        return {
            number: report.given_up(item, found, request.stop) if to_walk(item) else item
            for number, item in portion.items()
        }
    return dict(zip(portion, found, strict=True))


def _retain(run: Run, items: Mapping[int, PartitionWork]) -> dict[int, Prepared]:
    """Apply the retention of partitions that are not compacted. Return, by number, those to compact
    afterwards, in their current state and without walks.
    """
    request = run.request

    def retain(item: PartitionWork) -> PartitionResult:
        if request.stop.reason is not None:
            return report.stopped(item, request.stop.reason)
        return retain_only(item, request)

    done = commit_several(
        [partial(retain, item) for item in items.values()],
        [item.place.directory for item in items.values() if item.plan.retention],
        request.progress,
        doing="applying retention",
    )
    run.results |= zip(items, done, strict=True)
    return compacted_next(run.sc, items, run.results, request)


def compacted_next(
    sc: SparkContext,
    items: Mapping[int, PartitionWork],
    results: Mapping[int, PartitionResult],
    request: Request,
) -> dict[int, Prepared]:
    """Return, by number in `items`, the partitions to compact after the retention in `results`."""
    chosen = {
        number: _with_checkpoint(item, results[number])
        for number, item in items.items()
        if RETAINED in results[number].actions
        and results[number].error is None
        and after_retention(item.plan, now=request.now, only=request.only) is not None
    }
    if not chosen:
        return {}
    again = attempted(lambda: decide_again(sc, list(chosen.values()), request), request.stop)
    if isinstance(again, Failure):  # the next run does the rest
        return {}
    return {
        number: item
        for number, item in zip(chosen, again, strict=True)
        if not isinstance(item, PartitionWork) or item.plan.compaction
    }


def _with_checkpoint(item: PartitionWork, result: PartitionResult) -> PartitionWork:
    """Raise the cleaner checkpoint in `item`, if any, to the log start, as retention did (S7.6)."""
    before = item.log_dir.checkpoints.cleaner.get(item.place.topic_partition)
    start = result.log_start_offset_after
    if item.plan.checkpoint_reset is not None:
        before = item.plan.checkpoint_reset
    if before is not None and start is not None:
        item = item.cleaned_to(max(before, start))
    return replace(item, finished=None)


def damaged_first(prepared: Sequence[Prepared], request: Request) -> list[PartitionResult] | None:
    """With `fail`, return the results of a run that does nothing because some partition is known to
    be damaged. Otherwise return None.
    """
    damaged = [item for item in prepared if isinstance(item, LeftAlone) and item.error is not None]
    if request.on_corrupt != "fail" or not damaged:
        return None
    why = Failure(
        f"not started: {damaged[0].place.topic_partition} is damaged", WinnowError.exit_code
    )
    return [
        report.left_alone(item) if isinstance(item, LeftAlone) else report.failed(item, why)
        for item in prepared
    ]


def carry_out_with_quarantine(
    sc: SparkContext, log_dirs: Sequence[LogDir], prepared: Sequence[Prepared], request: Request
) -> CarriedOut:
    """Do as `carry_out`. With `quarantine`, move damage out of partitions, then clean them."""
    done = carry_out(sc, prepared, request)
    if request.on_corrupt != "quarantine":
        return done
    results, peak = list(done.partitions), done.peak_extra_bytes
    homes = {log_dir.path: log_dir for log_dir in log_dirs}
    for number, result in enumerate(results):
        damaged = result.error is not None and result.error_code == CorruptLogError.exit_code
        if damaged and request.stop.reason is None:
            results[number], more = _quarantine(sc, homes[result.log_dir], result, request)
            peak = max(peak, more)
    return CarriedOut(results, peak)


def _quarantine(
    sc: SparkContext, log_dir: LogDir, result: PartitionResult, request: Request
) -> tuple[PartitionResult, int]:
    """Return the new result of a partition, and the most bytes beside the log."""
    topic_partition = TopicPartition(result.topic, result.partition)
    home = replace(log_dir, partitions=(topic_partition,))
    request.progress.stage(f"looking for damage in {topic_partition}")
    try:
        state, staged = stage_quarantine(sc, home, topic_partition, request)
    except FAILS_ONE_PARTITION as error:
        what = f"{result.error}; nothing was quarantined: {failure_of(error)}"
        return replace(result, error=what), 0
    try:
        moved, meaning = commit(state, staged, request)
    except FAILS_ONE_PARTITION as error:
        cut_short = "its quarantine was interrupted; the next run finishes or undoes it"
        what = f"{result.error}; {cut_short}: {failure_of(error)}"
        return replace(result, error=what, **_UNKNOWN), 0
    request.progress.stage(f"cleaning {topic_partition}, quarantined")
    try:
        again = carry_out(sc, prepare(sc, [home], request), request)
        (after,), peak = again.partitions, again.peak_extra_bytes
    except FAILS_ONE_PARTITION as error:
        what = f"not cleaned afterwards: {str(error).strip().partition(chr(10))[0]}"
        after, peak = replace(result, error=what, bytes_before=None, **_UNKNOWN), 0
    # The sizes are those from before the quarantine.
    before = None if after.bytes_before is None else after.bytes_before + moved
    reason = f"{meaning}; {after.reason}"
    return replace(after, quarantined_bytes=moved, reason=reason, bytes_before=before), peak
