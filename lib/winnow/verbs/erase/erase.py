"""Erase every record of some keys from all segments that can be rewritten. A second reading proves
it.

Each segment is replaced separately, one at a time, in the same way as a cleaned one (S6.4). After a
crash each segment is either old or new, and the next erasure does the rest. Only the segments
change: no checkpoint, no delete horizon, no offset. Before the first segment of a partition is
replaced, undo is closed for everything that earlier runs kept: an undo would bring erased records
back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, ParamSpec, TypeAlias

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from winnow.cleaning.request import Request
from winnow.cleaning.space import most_index_bytes, most_log_bytes, no_space, room_for
from winnow.errors import FAILS_ONE_PARTITION, WinnowError
from winnow.logdir.commit.kept import close_kept
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import swap_group
from winnow.logdir.names import LOG, STAGING_PREFIX
from winnow.logdir.survey import LogDir
from winnow.runtime.failed_job import failed_job
from winnow.runtime.failure import Failure, failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread
from winnow.state import Segment
from winnow.verbs.erase.hashes import hash_files
from winnow.verbs.erase.keys import searchable
from winnow.verbs.erase.proof import prove
from winnow.verbs.erase.rewrite import RewrittenSegment, SegmentWork, rewrite_segment
from winnow.verbs.erase.scan import SegmentMatches, scan_segment
from winnow.verbs.erase.targets import Target, find_targets
from winnow.verbs.erase.values import EraseResult, Matches, PartitionErasure, RewrittenFile
from winnow.wire.key_search import KeySet
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext
    from pyspark.sql import SparkSession

SharedKeys: TypeAlias = "Broadcast[KeySet]"
_P = ParamSpec("_P")
_TASK_BYTES = 2**30

NO_CLOCK = -1
"""For `Request.now`. Nothing here depends on the time, so an erasure does not continue an
interrupted round of a cleaning.
"""


@dataclass(frozen=True, slots=True)
class _Found:
    """A partition, and what the scan found in it."""

    target: Target
    segments: Sequence[SegmentMatches]

    def rewritten(self) -> list[tuple[Segment, int, SegmentMatches]]:
        """Return the segments to rewrite, each with its end and what was found in it."""
        by_base = {found.base_offset: found for found in self.segments}
        reached = [
            (segment, end, by_base[segment.base_offset]) for segment, end in self.target.reached()
        ]
        return [each for each in reached if each[2].matches.records]

    def result(self) -> PartitionErasure:
        reached = {segment.base_offset for segment, _ in self.target.reached()}
        places = [Matches(), Matches(), Matches()]
        for found in self.segments:
            active = found.base_offset == self.target.state.active.base_offset
            where = 2 if active else int(found.base_offset not in reached)
            places[where] += found.matches
        return replace(
            self.target.result(),
            closed=places[0],
            above_high_watermark=places[1],
            active=places[2],
            segments_with_matches=len(self.rewritten()),
        )


@dataclass(frozen=True, slots=True)
class _Work:
    """One segment of one partition, and the disk space it may need."""

    partition: int
    segment: SegmentWork
    most_bytes: int


@dataclass(slots=True)
class _Progressed:
    """What was done to a partition so far."""

    erased: Matches
    rewritten: list[tuple[int, int]] = field(default_factory=list)
    """Base offset and bytes of each segment that was replaced."""
    why: Failure | None = None
    closed_undos: tuple[str, ...] = ()


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
    targets = find_targets(sc, log_dirs, request)
    looked_into = [target for target in targets if isinstance(target, Target)]
    shared = sc.broadcast(searchable(keys))
    try:
        results = _scan(sc, looked_into, shared, progress)
        seen = np.zeros(len(keys), np.bool_)
        found = [result for result in results if isinstance(result, _Found)]
        for segment in (segment for one in found for segment in one.segments):
            seen[np.frombuffer(segment.keys, np.uint32)] = True
        done = [result.result() if isinstance(result, _Found) else result for result in results]
        if request.touch:
            sound = [number for number, result in enumerate(results) if isinstance(result, _Found)]
            erased = _erase(sc, found, request, shared, run_id)
            proven = [one.target for one in found]
            proofs = prove(spark, proven, keys, progress)
            for number, target, one in zip(sound, proven, erased, strict=True):
                done[number] = replace(
                    _with_outcome(done[number], target, one, request),
                    proof=proofs[target.state.topic_partition],
                )
            for number, files in zip(sound, _hashed(sc, proven, erased, progress), strict=True):
                failed = next((file for file in files if isinstance(file, Failure)), None)
                good = tuple(file for file in files if isinstance(file, RewrittenFile))
                done[number] = replace(done[number], rewritten=good)
                if failed is not None and done[number].error is None:
                    done[number] = replace(done[number], error=failed.message)
    finally:
        shared.destroy()
    rest = iter(done)
    return EraseResult(
        run_id=run_id,
        dry_run=not request.touch,
        keys=len(keys),
        keys_found=int(seen.sum()),
        partitions=tuple(
            next(rest) if isinstance(target, Target) else target for target in targets
        ),
        kafka=request.settings.kafka,
    )


def _scan(
    sc: SparkContext, targets: Sequence[Target], keys: SharedKeys, progress: Progress
) -> list[_Found | PartitionErasure]:
    """Return what the segments of each partition hold; a result with its first failure, if any."""
    items = [
        (target.state.directory, segment, target.config.max_decompressed_message_bytes)
        for target in targets
        for segment in target.state.segments
    ]
    outcomes = iter(
        spread(
            sc,
            lambda item: scan_segment(item[0], item[1], keys.value, max_decompressed_bytes=item[2]),
            items,
            weights=[segment.log_bytes for _, segment, _ in items],
            per_task=_TASK_BYTES,
            name=f"looking for the keys in {counted(len(targets), 'partition')}",
            progress=progress,
        )
    )
    results: list[_Found | PartitionErasure] = []
    for target in targets:
        found = list(islice(outcomes, len(target.state.segments)))
        why = next((one for one in found if isinstance(one, Failure)), None)
        results.append(
            _Found(target, [one for one in found if isinstance(one, SegmentMatches)])
            if why is None
            else replace(target.result(), error=why.message, error_code=why.exit_code)
        )
    return results


def _erase(
    sc: SparkContext, found: Sequence[_Found], request: Request, keys: SharedKeys, run_id: str
) -> list[_Progressed]:
    """Rewrite and commit as many segments at a time as there is room for."""
    done = [_close_undos(one, request, run_id) for one in found]
    works = [work for number, one in enumerate(found) for work in _works(number, one, run_id)]
    staged: set[str] = set()
    while works:
        works = [work for work in works if done[work.partition].why is None]
        wave = _fitting(works, request)
        if works and not wave:
            short, directory = works[0].most_bytes, works[0].segment.directory
            room = room_for(request).at(directory)
            done[works[0].partition].why = no_space(short, room, request)
            continue
        works = works[len(wave) :]
        for work in wave:
            if work.segment.staging not in staged:
                # The driver makes the directory, not the tasks: a task that runs late must not find
                # a place to write to.
                staged.add(work.segment.staging)
                done[work.partition].why = _why_failed(request.storage.mkdir, work.segment.staging)
        wave = [work for work in wave if done[work.partition].why is None]
        for work, outcome in zip(wave, _rewritten(sc, wave, request, keys), strict=True):
            _commit(done[work.partition], work.segment, outcome, request)
    for staging in sorted(staged):
        owner = next(
            n for n, one in enumerate(found) if staging.startswith(f"{one.target.state.directory}/")
        )
        why = _why_failed(remove_staging, request.storage, staging)
        done[owner].why = done[owner].why or why
    return done


def _why_failed(do: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> Failure | None:
    try:
        do(*args, **kwargs)
    except FAILS_ONE_PARTITION as error:
        return failure(error)
    return None


def _close_undos(found: _Found, request: Request, run_id: str) -> _Progressed:
    """Close undo for what earlier runs kept.

    This is also done where no segment has one of the keys: what was kept may have them.
    """
    done = _Progressed(Matches())
    try:
        done.closed_undos = close_kept(
            request.storage, found.target.state.directory, why=f"an erasure (run {run_id})"
        )
    except FAILS_ONE_PARTITION as error:
        done.why = failure(error)
    return done


def _works(number: int, found: _Found, run_id: str) -> list[_Work]:
    state, config = found.target.state, found.target.config
    works = []
    for segment, end_offset, matches in found.rewritten():
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
        most = log_bytes + most_index_bytes((segment,), log_bytes, config)
        works.append(_Work(number, work, most))
    return works


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
            per_task=_TASK_BYTES,
            name=f"erasing in {counted(len(wave), 'segment')}",
            progress=request.progress,
        )
    except (Py4JError, PySparkException) as error:
        return [failed_job(error)] * len(wave)


def _commit(
    done: _Progressed, work: SegmentWork, outcome: RewrittenSegment | Failure, request: Request
) -> None:
    """Commit one segment, in ascending order. The first failure ends the partition."""
    if request.stop.reason is not None:
        done.why = done.why or _stopped(request)
    if done.why is not None:
        return
    if isinstance(outcome, Failure):
        done.why = outcome
        return
    done.why = _why_failed(swap_group, request.storage, work.directory, outcome.staged)
    if done.why is None:
        done.erased += outcome.erased
        done.rewritten.append((work.segment.base_offset, work.segment.log_bytes))


def _hashed(
    sc: SparkContext, targets: Sequence[Target], done: Sequence[_Progressed], progress: Progress
) -> list[list[RewrittenFile | Failure]]:
    """Return the files that were written for each partition, with their hashes."""
    files = [
        (target.state.directory, base, size)
        for target, one in zip(targets, done, strict=True)
        for base, size in one.rewritten
    ]
    hashed = iter(hash_files(sc, files, progress))
    return [list(islice(hashed, len(one.rewritten))) for one in done]


def _stopped(request: Request) -> Failure:
    return Failure(f"the run was stopped, {request.stop.reason}", WinnowError.exit_code)


def _with_outcome(
    result: PartitionErasure, target: Target, done: _Progressed, request: Request
) -> PartitionErasure:
    files = request.storage.list_dir(target.state.directory)
    result = replace(
        result,
        erased=done.erased,
        closed_undos=done.closed_undos,
        bytes_after=sum(
            entry.size for entry in files if entry.is_file and entry.name.endswith(LOG)
        ),
    )
    if done.why is None:
        return result
    return replace(result, error=done.why.message, error_code=done.why.exit_code)
