"""Erase every record of some keys from all segments that can be rewritten. A second reading proves
it.

Each segment is replaced separately, those of a partition one at a time, in the same way as a
cleaned one (S6.4). After a crash each segment is either old or new, and the next erasure does the
rest. Only the segments change: no checkpoint, no delete horizon, no offset. Before the first
segment of a partition is replaced, undo is closed for everything that earlier runs kept: an undo
would bring erased records back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from winnow.cleaning.commit.several import commit_several
from winnow.cleaning.request import Request
from winnow.cleaning.space import most_index_bytes, most_log_bytes, no_space, room_for
from winnow.errors import FAILS_ONE_PARTITION, UsageError, WinnowError
from winnow.logdir.commit.kept import close_kept
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import swap_group
from winnow.logdir.names import LOG
from winnow.logdir.survey import LogDir
from winnow.runtime.cancel import attempted
from winnow.runtime.failure import Failure, all_or_failure, failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread, spread_grouped
from winnow.verbs.erase.keys import searchable
from winnow.verbs.erase.proof import hash_file, prove
from winnow.verbs.erase.segment import (
    RewrittenSegment,
    SegmentMatches,
    SegmentWork,
    rewrite_segment,
    scan_segment,
)
from winnow.verbs.erase.targets import Target, find_targets, of_users
from winnow.verbs.erase.values import Amount, EraseResult, PartitionErasure, RewrittenFile
from winnow.wire.key_search import KeySet
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext
    from pyspark.sql import SparkSession

SharedKeys: TypeAlias = "Broadcast[KeySet]"

NO_CLOCK = -1
"""For `Request.now`. Nothing here depends on the time, so an erasure does not continue an
interrupted round of a cleaning.
"""


@dataclass(slots=True)
class _Partition:
    """A partition, what the scan found in it, and what was done to it so far."""

    target: Target
    works: list[SegmentWork]
    """One for each segment."""
    found: list[SegmentMatches] | None = None
    """By segment; None if one of them can't be read."""
    why: Failure | None = None
    """Why it is not erased, or not completely."""
    replaced: list[SegmentWork] = field(default_factory=list)
    done: dict[str, Any] = field(default_factory=dict)
    """What was done, as fields of PartitionErasure."""

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Fail only this partition. The first reason is kept."""
        try:
            yield
        except FAILS_ONE_PARTITION as error:
            self.why = self.why or failure(error)

    def to_rewrite(self) -> list[SegmentWork]:
        """Return the segments to rewrite, each with the disk space that it may need."""
        works = []
        for work, found in zip(self.works, self.found or (), strict=False):
            if work.reached and found.matches.records:
                segments = (work.segment,)
                log = most_log_bytes(segments, {work.segment.base_offset} if found.legacy else ())
                most = log + most_index_bytes(segments, log, work.config)
                works.append(replace(work, most_bytes=most))
        return works

    def result(self) -> PartitionErasure:
        result = replace(self.target.result(), **self.done)
        if result.erased is not None:
            result = replace(result, segments_rewritten=len(self.replaced))
        if self.why is not None:
            result = replace(result, error=self.why.message, error_code=self.why.exit_code)
        if self.found is None:
            return result
        places: dict[str, Any] = {
            "closed": Amount(),
            "above_high_watermark": Amount(),
            "active": Amount(),
        }
        for work, found in zip(self.works, self.found, strict=True):
            unreached = "active" if work is self.works[-1] else "above_high_watermark"
            places["closed" if work.reached else unreached] += found.matches
        return replace(result, **places, segments_with_matches=len(self.to_rewrite()))


def erase_from(
    spark: SparkSession,
    log_dirs: Sequence[LogDir],
    request: Request,
    keys: pa.Array,
    *,
    run_id: str,
) -> EraseResult:
    """Erase from log directories whose locks the caller holds.

    `keys` come from `different_keys`. `request.touch` is False for a dry run.
    """
    sc, progress = spark.sparkContext, request.progress
    progress.stage(f"looking at {counted(sum(len(d.partitions) for d in log_dirs), 'partition')}")
    targets, not_searched = find_targets(sc, log_dirs, request), [*_not_searched(log_dirs, request)]
    if not targets and not not_searched:
        raise UsageError(
            "there is no partition to erase from",
            expected="a log directory with partitions of these topics",
            found="none",
            hint="Kafka's own topics are searched if --topics names them without a wildcard.",
        )
    partitions = [
        _Partition(target, [*target.works(run_id)])
        for target in targets
        if isinstance(target, Target)
    ]
    shared = sc.broadcast(searchable(keys))
    seen = np.zeros(len(keys), np.bool_)
    try:
        _scan(sc, partitions, shared, progress)
        scanned = [partition for partition in partitions if partition.found is not None]
        for segment in (segment for one in scanned for segment in one.found or ()):
            seen[np.frombuffer(segment.keys, np.uint32)] = True
        if request.touch:
            _erase(sc, scanned, request, shared, run_id)
            _prove_if_possible(spark, scanned, keys, request)
    finally:
        shared.destroy()
    rest = iter(partitions)
    return EraseResult(
        run_id=run_id,
        dry_run=not request.touch,
        keys=len(keys),
        keys_found=int(seen.sum()),
        partitions=tuple(
            next(rest).result() if isinstance(target, Target) else target for target in targets
        ),
        not_searched=tuple(not_searched),
        kafka=request.settings.kafka,
    )


def _not_searched(log_dirs: Sequence[LogDir], request: Request) -> Iterator[str]:
    for log_dir in log_dirs:
        for one in log_dir.skipped:
            if one.has_records and (one.topic is None or of_users(request).wants(one.topic)):
                yield f"{log_dir.path}/{one.name}: {one.why}"


def _scan(
    sc: SparkContext, partitions: Sequence[_Partition], keys: SharedKeys, progress: Progress
) -> None:
    outcomes = spread_grouped(
        sc,
        lambda work: scan_segment(work, keys.value),
        [partition.works for partition in partitions],
        weight=lambda work: work.segment.log_bytes,
        name=f"looking for the keys in {counted(len(partitions), 'partition')}",
        progress=progress,
    )
    for partition, outcome in zip(partitions, outcomes, strict=True):
        found = all_or_failure(outcome)
        if isinstance(found, Failure):
            partition.why = found
        else:
            partition.found = found


def _erase(
    sc: SparkContext,
    partitions: Sequence[_Partition],
    request: Request,
    keys: SharedKeys,
    run_id: str,
) -> None:
    """Rewrite and commit as many segments at a time as there is room for."""
    storage, why = request.storage, f"an erasure (run {run_id})"
    for partition in partitions:
        partition.done["erased"] = Amount()
        # Also where no segment has one of the keys: what was kept may have them.
        with partition.failing():
            closed = close_kept(storage, partition.target.state.directory, why=why)
            partition.done["closed_undos"] = closed
    works = [(partition, work) for partition in partitions for work in partition.to_rewrite()]
    staged: dict[str, _Partition] = {}
    while works := [(partition, work) for partition, work in works if partition.why is None]:
        wave = _fitting(works, request)
        if not wave:
            partition, work = works[0]
            room = room_for(request).at(work.directory)
            partition.why = no_space(work.most_bytes, room, request, may_fill=False)
            continue
        works = works[len(wave) :]
        for partition, work in wave:
            if work.staging not in staged:
                # The driver makes the directory, not the tasks: a task that runs late must not find
                # a place to write to.
                staged[work.staging] = partition
                with partition.failing():
                    storage.mkdir(work.staging)
        wave = [(partition, work) for partition, work in wave if partition.why is None]
        _commit_all(wave, _rewritten(sc, [work for _, work in wave], request, keys), request)
    for staging, partition in sorted(staged.items(), key=lambda one: one[0]):
        with partition.failing():
            remove_staging(storage, staging)


_Waiting = tuple[_Partition, SegmentWork]


def _fitting(works: Sequence[_Waiting], request: Request) -> Sequence[_Waiting]:
    room = room_for(request)
    for number, (_, work) in enumerate(works):
        if work.most_bytes > room.at(work.directory):
            return works[:number]
        room.take(work.directory, work.most_bytes)
    return works


def _rewritten(
    sc: SparkContext, works: Sequence[SegmentWork], request: Request, keys: SharedKeys
) -> Sequence[RewrittenSegment | Failure]:
    done = attempted(
        lambda: spread(
            sc,
            lambda work: rewrite_segment(work, keys.value),
            works,
            weights=[work.segment.log_bytes for work in works],
            name=f"erasing in {counted(len(works), 'segment')}",
            progress=request.progress,
        ),
        request.stop,
    )
    return [done] * len(works) if isinstance(done, Failure) else done


def _commit_all(
    wave: Sequence[_Waiting], outcomes: Sequence[RewrittenSegment | Failure], request: Request
) -> None:
    """Commit several partitions at a time, the segments of each in ascending order."""
    commits: dict[str, list[Callable[[], None]]] = {}
    for (partition, work), outcome in zip(wave, outcomes, strict=True):
        commit = partial(_commit, partition, work, outcome, request)
        commits.setdefault(work.directory, []).append(commit)
    request.progress.stage(
        f"committing {counted(len(commits), 'partition')}", total_tasks=len(commits)
    )

    def commit_each(segments: Sequence[Callable[[], None]]) -> None:
        for commit in segments:
            commit()

    commit_several(
        [partial(commit_each, segments) for segments in commits.values()],
        [*commits],
        done=partial(request.progress.advance, 1),
    )


def _commit(
    partition: _Partition, work: SegmentWork, outcome: RewrittenSegment | Failure, request: Request
) -> None:
    """Commit one segment. The first failure ends the partition."""
    if request.stop.reason is not None:
        partition.why = partition.why or _stopped(request)
    if isinstance(outcome, Failure):
        partition.why = partition.why or outcome
    elif partition.why is None:
        with partition.failing():
            swap_group(request.storage, work.directory, outcome.staged)
            partition.done["erased"] += outcome.erased
            partition.replaced.append(work)


def _prove_if_possible(
    spark: SparkSession, partitions: Sequence[_Partition], keys: pa.Array, request: Request
) -> None:
    """Prove. If that fails or is stopped, each partition says so: what was erased must be told."""
    try:
        why = attempted(lambda: _prove(spark, partitions, keys, request), request.stop)
    except FAILS_ONE_PARTITION as error:
        why = failure(error)
    if why is None:
        return
    if request.stop.reason is not None:
        why = _stopped(request)
    unproven = f"it is not proven what was erased: {why.message}"
    for partition in partitions:
        partition.why = partition.why or Failure(unproven, WinnowError.exit_code)


def _prove(
    spark: SparkSession, partitions: Sequence[_Partition], keys: pa.Array, request: Request
) -> None:
    """Read everything again, and hash the files that were written."""
    proofs = prove(spark, [partition.target for partition in partitions], keys, request.progress)
    hashed = spread_grouped(
        spark.sparkContext,
        hash_file,
        [partition.replaced for partition in partitions],
        weight=lambda work: work.segment.log_bytes,
        name=f"hashing {sum(len(one.replaced) for one in partitions)} rewritten segments",
        progress=request.progress,
    )
    for partition, mine in zip(partitions, hashed, strict=True):
        state = partition.target.state
        there = request.storage.list_dir(state.directory)
        partition.done |= {
            "proof": proofs[state.topic_partition],
            "bytes_after": sum(e.size for e in there if e.is_file and e.name.endswith(LOG)),
            "rewritten": tuple(one for one in mine if isinstance(one, RewrittenFile)),
        }
        failed = next((one for one in mine if isinstance(one, Failure)), None)
        if partition.done["proof"].holds:  # or else it is the worse news
            partition.why = partition.why or failed


def _stopped(request: Request) -> Failure:
    return Failure(f"the run was stopped, {request.stop.reason}", WinnowError.exit_code)
