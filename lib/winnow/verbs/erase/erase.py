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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from winnow.cleaning.commit.several import commit_several
from winnow.cleaning.request import Request
from winnow.cleaning.space import most_index_bytes, most_log_bytes, no_space, room_for
from winnow.errors import FAILS_ONE_PARTITION, UsageError, WinnowError
from winnow.logdir.commit.kept import close_kept
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import swap_group
from winnow.logdir.names import LOG, STAGING_PREFIX
from winnow.logdir.survey import LogDir
from winnow.runtime.failed_job import failed_job
from winnow.runtime.failure import Failure, failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread, spread_grouped
from winnow.state import Segment
from winnow.verbs.erase.keys import searchable
from winnow.verbs.erase.proof import hash_file, prove
from winnow.verbs.erase.segment import (
    RewrittenSegment,
    SegmentMatches,
    SegmentWork,
    rewrite_segment,
    scan_segment,
)
from winnow.verbs.erase.targets import Target, find_targets, is_wanted
from winnow.verbs.erase.values import Amount, EraseResult, PartitionErasure, RewrittenFile
from winnow.wire.key_search import KeySet
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext
    from pyspark.sql import SparkSession

SharedKeys: TypeAlias = "Broadcast[KeySet]"
_P = ParamSpec("_P")

NO_CLOCK = -1
"""For `Request.now`. Nothing here depends on the time, so an erasure does not continue an
interrupted round of a cleaning.
"""


@dataclass(slots=True)
class _Partition:
    """A partition, what the scan found in it, and what was done to it so far."""

    target: Target
    found: Sequence[SegmentMatches] | None = None
    """By segment; None if one of them can't be read."""
    why: Failure | None = None
    """Why it is not erased, or not completely."""
    replaced: list[tuple[str, int, int]] = field(default_factory=list)
    """Directory, base offset and bytes of each segment that was replaced."""
    done: dict[str, Any] = field(default_factory=dict)
    """What was done, as fields of PartitionErasure."""

    def to_rewrite(self) -> list[tuple[Segment, int, SegmentMatches]]:
        """Return the segments to rewrite, each with its end and what was found in it."""
        by_base = {found.base_offset: found for found in self.found or ()}
        reached = [
            (segment, end, by_base[segment.base_offset]) for segment, end in self.target.reached()
        ]
        return [each for each in reached if each[2].matches.records]

    def result(self) -> PartitionErasure:
        result = replace(self.target.result(), **self.done)
        if result.erased is not None:
            result = replace(result, segments_rewritten=len(self.replaced))
        if self.why is not None:
            result = replace(result, error=self.why.message, error_code=self.why.exit_code)
        if self.found is None:
            return result
        reached = {segment.base_offset for segment, _ in self.target.reached()}
        places = [Amount(), Amount(), Amount()]
        for found in self.found:
            active = found.base_offset == self.target.state.active.base_offset
            where = 2 if active else int(found.base_offset not in reached)
            places[where] += found.matches
        return replace(
            result,
            closed=places[0],
            above_high_watermark=places[1],
            active=places[2],
            segments_with_matches=len(self.to_rewrite()),
        )


@dataclass(frozen=True, slots=True)
class _Work:
    """One segment of one partition, and the disk space it may need."""

    partition: _Partition
    segment: SegmentWork
    most_bytes: int


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
    partitions = [_Partition(target) for target in targets if isinstance(target, Target)]
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
            if one.has_records and (one.topic is None or is_wanted(one.topic, request)):
                yield f"{log_dir.path}/{one.name}: {one.why}"


def _scan(
    sc: SparkContext, partitions: Sequence[_Partition], keys: SharedKeys, progress: Progress
) -> None:
    outcomes = spread_grouped(
        sc,
        lambda item: scan_segment(item[0], item[1], keys.value, max_decompressed_bytes=item[2]),
        [
            [
                (target.state.directory, segment, target.config.max_decompressed_message_bytes)
                for segment in target.state.segments
            ]
            for target in (partition.target for partition in partitions)
        ],
        weight=lambda item: item[1].log_bytes,
        name=f"looking for the keys in {counted(len(partitions), 'partition')}",
        progress=progress,
    )
    for partition, found in zip(partitions, outcomes, strict=True):
        partition.why = next((one for one in found if isinstance(one, Failure)), None)
        if partition.why is None:
            partition.found = [one for one in found if isinstance(one, SegmentMatches)]


def _erase(
    sc: SparkContext,
    partitions: Sequence[_Partition],
    request: Request,
    keys: SharedKeys,
    run_id: str,
) -> None:
    """Rewrite and commit as many segments at a time as there is room for."""
    for partition in partitions:
        _close_undos(partition, request, run_id)
    works = [work for partition in partitions for work in _works(partition, run_id)]
    staged: dict[str, _Partition] = {}
    while works:
        works = [work for work in works if work.partition.why is None]
        wave = _fitting(works, request)
        if works and not wave:
            short, directory = works[0].most_bytes, works[0].segment.directory
            room = room_for(request).at(directory)
            works[0].partition.why = no_space(short, room, request, may_fill=False)
            continue
        works = works[len(wave) :]
        for work in wave:
            if work.segment.staging not in staged:
                # The driver makes the directory, not the tasks: a task that runs late must not find
                # a place to write to.
                staged[work.segment.staging] = work.partition
                work.partition.why = _why_failed(request.storage.mkdir, work.segment.staging)
        wave = [work for work in wave if work.partition.why is None]
        _commit_all(wave, _rewritten(sc, wave, request, keys), request)
    for staging, partition in sorted(staged.items()):
        why = _why_failed(remove_staging, request.storage, staging)
        partition.why = partition.why or why


def _why_failed(do: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> Failure | None:
    try:
        do(*args, **kwargs)
    except FAILS_ONE_PARTITION as error:
        return failure(error)
    return None


def _close_undos(partition: _Partition, request: Request, run_id: str) -> None:
    """Close undo for what earlier runs kept.

    This is also done where no segment has one of the keys: what was kept may have them.
    """
    directory, why = partition.target.state.directory, f"an erasure (run {run_id})"
    partition.done["erased"] = Amount()
    try:
        partition.done["closed_undos"] = close_kept(request.storage, directory, why=why)
    except FAILS_ONE_PARTITION as error:
        partition.why = failure(error)


def _works(partition: _Partition, run_id: str) -> Iterator[_Work]:
    state, config = partition.target.state, partition.target.config
    for segment, end_offset, matches in partition.to_rewrite():
        log_bytes = most_log_bytes((segment,), {segment.base_offset} if matches.legacy else ())
        work = SegmentWork(
            directory=state.directory,
            staging=f"{state.directory}/{STAGING_PREFIX}{run_id}",
            segment=segment,
            end_offset=end_offset,
            index_interval_bytes=config.index_interval_bytes,
            max_decompressed_bytes=config.max_decompressed_message_bytes,
            converts=config.rules.converts_old_formats,
        )
        yield _Work(partition, work, log_bytes + most_index_bytes((segment,), log_bytes, config))


def _fitting(works: Sequence[_Work], request: Request) -> list[_Work]:
    room, wave = room_for(request), list[_Work]()
    for work in works:
        if work.most_bytes > room.at(work.segment.directory):
            break
        room.take(work.segment.directory, work.most_bytes)
        wave.append(work)
    return wave


def _rewritten(
    sc: SparkContext, wave: Sequence[_Work], request: Request, keys: SharedKeys
) -> Sequence[RewrittenSegment | Failure]:
    if request.stop.reason is not None:
        return [_stopped(request)] * len(wave)
    try:
        return spread(
            sc,
            lambda work: rewrite_segment(work, keys.value),
            [work.segment for work in wave],
            weights=[work.segment.segment.log_bytes for work in wave],
            name=f"erasing in {counted(len(wave), 'segment')}",
            progress=request.progress,
        )
    except (Py4JError, PySparkException) as error:
        return [failed_job(error)] * len(wave)


def _commit_all(
    wave: Sequence[_Work], outcomes: Sequence[RewrittenSegment | Failure], request: Request
) -> None:
    """Commit several partitions at a time, the segments of each in ascending order."""
    rewritten: dict[str, list[tuple[_Work, RewrittenSegment | Failure]]] = {}
    for work, outcome in zip(wave, outcomes, strict=True):
        rewritten.setdefault(work.segment.directory, []).append((work, outcome))
    request.progress.stage(
        f"committing {counted(len(rewritten), 'partition')}", total_tasks=len(rewritten)
    )

    def commit(segments: Sequence[tuple[_Work, RewrittenSegment | Failure]]) -> None:
        for work, outcome in segments:
            _commit(work, outcome, request)

    commit_several(
        [partial(commit, segments) for segments in rewritten.values()],
        [*rewritten],
        done=partial(request.progress.advance, 1),
    )


def _commit(work: _Work, outcome: RewrittenSegment | Failure, request: Request) -> None:
    """Commit one segment. The first failure ends the partition."""
    partition, directory = work.partition, work.segment.directory
    if request.stop.reason is not None:
        partition.why = partition.why or _stopped(request)
    if partition.why is not None:
        return
    if isinstance(outcome, Failure):
        partition.why = outcome
        return
    partition.why = _why_failed(swap_group, request.storage, directory, outcome.staged)
    if partition.why is None:
        partition.done["erased"] += outcome.erased
        segment = work.segment.segment
        partition.replaced.append((directory, segment.base_offset, segment.log_bytes))


def _prove_if_possible(
    spark: SparkSession, partitions: Sequence[_Partition], keys: pa.Array, request: Request
) -> None:
    """Prove. If that fails or is stopped, each partition says so: what was erased must be told."""
    try:
        _prove(spark, partitions, keys, request)
    except (Py4JError, PySparkException) as error:
        why = failed_job(error)
    except FAILS_ONE_PARTITION as error:
        why = failure(error)
    else:
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
        lambda file: hash_file(file[0], file[1]),
        [partition.replaced for partition in partitions],
        weight=lambda file: file[2],
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
