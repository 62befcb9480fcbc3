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

from pyspark import SparkContext

from winnow.cleaning.commit.commit import kept_bytes
from winnow.cleaning.commit.retention import retain_only
from winnow.cleaning.commit.several import commit_several
from winnow.cleaning.commit.split import split_bytes, split_first
from winnow.cleaning.compact import NOT_BEGUN, Run, compact
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.decide_listed import needs_walk
from winnow.cleaning.plan.prepare import decide_again, walk
from winnow.cleaning.plan.prepared import LeftAlone, PartitionWork, Prepared
from winnow.cleaning.plan.rounds import Round, dirtiest_first, make_round, summed_up
from winnow.cleaning.portions import Pace, compacted_bytes, next_portion
from winnow.cleaning.request import Request
from winnow.cleaning.result import RETAINED, PartitionResult
from winnow.cleaning.space import needed_bytes, waves
from winnow.cleaning.tight import compact_tight
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError
from winnow.policy.decide import after_retention
from winnow.policy.plan import CompactionPlan
from winnow.runtime.cancel import attempted
from winnow.runtime.failure import Failure, failure
from winnow.runtime.progress import Within
from winnow.runtime.spool import part_of, remove_part
from winnow.words import size


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """One result for each partition, in the order given."""

    partitions: list[PartitionResult]
    peak_extra_bytes: int
    """Maximal bytes beside the logs at one time: written, but not yet in place."""


@dataclass(frozen=True, slots=True)
class _Portion:
    """What became of a portion, by number."""

    results: dict[int, PartitionResult]
    tight: dict[int, Round]
    """Rounds to compact last, when everything else has made room."""
    following: dict[int, Prepared]
    """Partitions to compact after the retention in `results`, not walked yet."""
    split: set[int]
    """Partitions of which segments were split first."""
    split_bytes: int


def carry_out(
    sc: SparkContext, prepared: Sequence[Prepared], request: Request, *, run_id: str
) -> CarriedOut:
    """Carry out the plans. Return one result for each, and the disk space that the run needed.

    What was not walked is walked now, portion by portion.
    """
    run, pace = Run(sc, request, run_id), Pace(request.stop)
    waiting = dict(enumerate(prepared))
    results: dict[int, PartitionResult] = {}
    retained: dict[int, PartitionResult] = {}
    tight: dict[int, Round] = {}
    split: set[int] = set()
    most_split = 0
    while waiting:
        numbers = next_portion(waiting, pace.limits())
        portion = {number: waiting.pop(number) for number in numbers}
        run.request = own = _for_portion(request, portion, waiting, pace)
        done = _carry_out_portion(run, portion, results)
        if not done.tight:
            remove_part(own.spool, request.spool)
        pace.done(_all_bytes(portion.values()))
        results |= done.results
        tight |= done.tight
        following = done.following.keys() - retained
        retained |= {number: results[number] for number in following}
        waiting |= {number: done.following[number] for number in following}
        split |= done.split
        most_split = max(most_split, done.split_bytes)
    run.request = request
    if _stops(request, results.values()):
        results |= {
            number: report.failed(round_.item, NOT_BEGUN) for number, round_ in tight.items()
        }
    else:
        results |= compact_tight(run, tight)
    final = []
    for number, first in enumerate(prepared):
        result = results[number]
        if number in retained:
            result = report.followed(retained[number], result)
        if number in split and first.state:  # report the number of segments before a split
            result = replace(result, segments_before=len(first.state.segments))
        kept = kept_bytes(request, first.place.directory, run_id=run_id)
        final.append(replace(result, kept_bytes=kept))
    return CarriedOut(final, max(run.peak_bytes, most_split))


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
    return sum(compacted_bytes(item) or 0 for item in items)


def _carry_out_portion(
    run: Run, portion: Mapping[int, Prepared], before: Mapping[int, PartitionResult]
) -> _Portion:
    """Walk, apply retention, compact. `before`: the results of the portions before."""
    request, run_id = run.request, run.run_id
    walked = _walked(run.sc, portion, request)
    split = split_first(run.sc, walked, request, run_id=run_id)
    current = {**walked, **split}
    results, compacted = _without_rounds(current, request, run_id)
    following = compacted_next(run.sc, current, results, request)
    rounds: dict[int, Round] = {}
    tight: dict[int, Round] = {}
    # Check space only after retention, which may have freed some.
    for number, (item, plan) in compacted.items():
        try:
            round_ = summed_up(make_round(item, plan, now=request.now, run_id=run_id), request)
            fits = needed_bytes(round_.job, request) <= run.room().at(round_.job.directory)
        except FAILS_ONE_PARTITION as error:
            results[number] = report.failed(item, failure(error))
            continue
        (rounds if fits else tight)[number] = round_
    order = dirtiest_first(rounds)
    left = iter(order)
    for wave in waves([rounds[number].job for number in order], run.room):
        numbers = list(islice(left, len(wave)))
        if _stops(request, (*before.values(), *results.values())):
            results |= {number: report.failed(rounds[number].item, NOT_BEGUN) for number in numbers}
            continue
        done = compact(run, [rounds[number] for number in numbers])
        results |= dict(zip(numbers, done, strict=True))
    return _Portion(results, tight, following, {*split}, split_bytes(walked.values()))


def _walked(
    sc: SparkContext, portion: Mapping[int, Prepared], request: Request
) -> dict[int, Prepared | PartitionResult]:
    """Walk the partitions that need it, and return all. If the walk fails, these have failed."""
    ready = dict[int, Prepared | PartitionResult](portion)
    works = {
        number: item
        for number, item in portion.items()
        if isinstance(item, PartitionWork) and item.walks is None and needs_walk(item.plan)
    }
    if not works:
        return ready
    found = attempted(lambda: walk(sc, [*works.values()], request), request.stop)
    if isinstance(found, Failure):
        return ready | {n: report.given_up(item, found, request.stop) for n, item in works.items()}
    return ready | dict(zip(works, found, strict=True))


_Compacted = dict[int, tuple[PartitionWork, CompactionPlan]]


def _sorted_out(
    items: Mapping[int, Prepared | PartitionResult],
) -> tuple[dict[int, PartitionResult], dict[int, PartitionWork], _Compacted]:
    """Return, by number, what is finished, what is not compacted, and the plans of compactions."""
    results: dict[int, PartitionResult] = {}
    others: dict[int, PartitionWork] = {}
    compacted: _Compacted = {}
    for number, item in items.items():
        if isinstance(item, PartitionResult):
            results[number] = item
        elif isinstance(item, LeftAlone):
            results[number] = report.left_alone(item)
        elif item.plan.compaction is None:
            others[number] = item
        else:
            compacted[number] = item, item.plan.compaction
    return results, others, compacted


def _without_rounds(
    current: Mapping[int, Prepared | PartitionResult], request: Request, run_id: str
) -> tuple[dict[int, PartitionResult], _Compacted]:
    """Return, by number, the results without a compaction, and the plans of compactions."""
    results, retained, compacted = _sorted_out(current)
    if retained:
        request.progress.stage("applying retention", total_tasks=len(retained))
    done = commit_several(
        [partial(_retain, item, request, run_id=run_id) for item in retained.values()],
        [item.place.directory for item in retained.values() if item.plan.retention],
        done=partial(request.progress.advance, 1),
    )
    results |= dict(zip(retained, done, strict=True))
    if (why := request.stop.reason) is not None:
        return results | {n: report.stopped(item, why) for n, (item, _) in compacted.items()}, {}
    return results, compacted


def _retain(item: PartitionWork, request: Request, *, run_id: str) -> PartitionResult:
    if request.stop.reason is not None:
        return report.stopped(item, request.stop.reason)
    return retain_only(item, request, run_id=run_id)


def _stops(request: Request, results: Iterable[PartitionResult]) -> bool:
    """Return whether `--on-corrupt=fail` ends the run: reading records has found damage."""
    codes = (result.error_code for result in results if result.error is not None)
    return request.on_corrupt == "fail" and CorruptLogError.exit_code in codes


def compacted_next(
    sc: SparkContext,
    items: Mapping[int, Prepared | PartitionResult],
    results: Mapping[int, PartitionResult],
    request: Request,
) -> dict[int, Prepared]:
    """Return, by number in `items`, the partitions to compact after retention, in their current
    state and without walks.

    `results`: of partitions that retention changed, and of others.
    """
    chosen = {
        number: _with_checkpoint(item, results[number])
        for number, item in items.items()
        if isinstance(item, PartitionWork)
        and number in results
        and RETAINED in results[number].actions
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
