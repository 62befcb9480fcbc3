"""Erase every record of some keys from all segments that can be rewritten. A second reading proves
it.

Each segment is replaced separately, those of a partition one at a time, in the same way as a
cleaned one (S6.4). After a crash each segment is either old or new, and the next erasure does the
rest. Only the segments change: no checkpoint, no delete horizon, no offset. Before the first
segment of a partition is replaced, undo is closed for everything that earlier runs kept: an undo
would bring erased records back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import SparkSession

from winnow.cleaning.commit.commit import commit_several
from winnow.cleaning.request import Request
from winnow.cleaning.space import no_space, room_for
from winnow.errors import FAILS_ONE_PARTITION, UsageError, WinnowError
from winnow.logdir.commit.kept import close_kept
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import StagedGroup, Swaps
from winnow.logdir.names import LOG
from winnow.logdir.survey import LogDir
from winnow.runtime.cancel import attempted
from winnow.runtime.failure import Failure, all_or_failure, failure
from winnow.runtime.spread import spread, spread_grouped
from winnow.state import TopicPartition
from winnow.verbs.erase.keys import searchable
from winnow.verbs.erase.patterns import automaton_of
from winnow.verbs.erase.proof import hash_file, prove
from winnow.verbs.erase.replicas import find_replicas
from winnow.verbs.erase.segment import SegmentWork, Sought, rewrite_segment, scan_segment
from winnow.verbs.erase.targets import (
    Target,
    find_targets,
    internal_targets,
    matches_of,
    of_users,
    skipped,
)
from winnow.verbs.erase.values import Amount, EraseResult, PatternSearch, RewrittenFile
from winnow.words import counted

_Waiting: TypeAlias = tuple[Target, SegmentWork]
_Rewritten: TypeAlias = tuple[StagedGroup, Amount]

NO_CLOCK = -1
"""For `Request.now`. Nothing here depends on the time, so an erasure does not continue an
interrupted round of a cleaning.
"""


def erase_from(
    spark: SparkSession,
    log_dirs: Sequence[LogDir],
    request: Request,
    keys: pa.Array,
    *,
    patterns: Sequence[bytes] = (),
    run_id: str,
) -> EraseResult:
    """Erase from log directories whose locks the caller holds.

    `keys` come from `different_keys`, `patterns` from `different_patterns`. `request.touch` is
    False for a dry run.
    """
    sc, progress = spark.sparkContext, request.progress
    progress.stage(f"looking at {counted(sum(len(d.partitions) for d in log_dirs), 'partition')}")
    targets = find_targets(sc, log_dirs, request)
    not_searched, notes = skipped(log_dirs, request)
    if not targets and not not_searched:
        raise UsageError(
            "there is no partition to erase from",
            expected="a log directory with partitions of these topics",
            found="none",
            hint="Kafka's own topics are searched if --topics names them without a wildcard.",
        )
    only_searched = internal_targets(sc, log_dirs, request) if patterns else []
    partitions, internal = (
        [target for target in some if isinstance(target, Target)]
        for some in (targets, only_searched)
    )
    shared = sc.broadcast(Sought(searchable(keys), automaton_of(patterns)))
    seen = np.zeros(len(keys), np.bool_)
    try:
        doubled = any(log_dir.duplicates for log_dir in log_dirs)
        erasure = _Erasure(spark, request, run_id, keys, shared, doubled)
        erasure.scan([*partitions, *internal])
        scanned = [partition for partition in partitions if partition.found is not None]
        for segment in (segment for one in scanned for segment in one.found or ()):
            seen[np.frombuffer(segment.keys, np.uint32)] = True
        if request.touch:
            erasure.erase(scanned)
            erasure.prove_if_possible(scanned)
    finally:
        shared.destroy()
    results = tuple(one.result() if isinstance(one, Target) else one for one in targets)
    records = {
        TopicPartition(one.topic, one.partition): (one.closed + one.left).records
        for one in results
        if one.closed is not None
    }
    search = None
    if patterns:
        every = tuple(matches_of(one) for one in (*targets, *only_searched))
        search = PatternSearch(len(patterns), every)
    return EraseResult(
        run_id=run_id,
        dry_run=not request.touch,
        keys=len(keys),
        keys_found=int(seen.sum()),
        partitions=results,
        not_searched=tuple(not_searched),
        notes=tuple(notes),
        kafka=request.settings.kafka,
        replicas=find_replicas(
            request.settings.metadata, log_dirs, of_users(request).wants, records
        ),
        patterns=search,
    )


@dataclass(frozen=True, slots=True)
class _Erasure:
    spark: SparkSession
    request: Request
    run_id: str
    keys: pa.Array
    shared: Broadcast[Sought]
    """The same keys, and the patterns, for tasks."""
    doubled: bool
    """Some partitions have several directories."""

    def scan(self, partitions: Sequence[Target]) -> None:
        sought = self.shared
        outcomes = spread_grouped(
            self.spark.sparkContext,
            lambda work: scan_segment(work, sought.value),
            [partition.works(self.run_id) for partition in partitions],
            weight=lambda work: work.segment.log_bytes,
            name=f"looking for the keys in {counted(len(partitions), 'partition')}",
            progress=self.request.progress,
        )
        for partition, outcome in zip(partitions, outcomes, strict=True):
            found = all_or_failure(outcome)
            if isinstance(found, Failure):
                partition.why = found
            else:
                partition.found = found

    def erase(self, partitions: Sequence[Target]) -> None:
        """Rewrite and commit as many segments at a time as there is room for."""
        request, why = self.request, f"an erasure (run {self.run_id})"
        storage = request.storage
        for partition in partitions:
            partition.done["erased"] = Amount()
            # Also where no segment has one of the keys: what was kept may have them.
            with partition.failing():
                closed = close_kept(storage, partition.state.directory, why=why)
                partition.done["closed_undos"] = closed
        works = [(one, work) for one in partitions for work in one.to_rewrite(self.run_id)]
        staged: dict[str, Target] = {}
        while works := [(partition, work) for partition, work in works if partition.why is None]:
            batch = self._fitting(works)
            if not batch:
                partition, work = works[0]
                room = room_for(request).at(work.directory)
                partition.why = no_space(work.most_bytes, room, request, may_fill=False)
                continue
            works = works[len(batch) :]
            for partition, work in batch:
                if work.staging not in staged:
                    # The driver makes the directory, not the tasks: a task that runs late must not
                    # find a place to write to.
                    staged[work.staging] = partition
                    with partition.failing():
                        storage.mkdir(work.staging)
            batch = [(partition, work) for partition, work in batch if partition.why is None]
            self._commit_all(batch, self._rewritten([work for _, work in batch]))
        for staging, partition in sorted(staged.items(), key=lambda one: one[0]):
            with partition.failing():
                remove_staging(storage, staging)

    def _fitting(self, works: Sequence[_Waiting]) -> Sequence[_Waiting]:
        room = room_for(self.request)
        for number, (_, work) in enumerate(works):
            if work.most_bytes > room.at(work.directory):
                return works[:number]
            room.take(work.directory, work.most_bytes)
        return works

    def _rewritten(self, works: Sequence[SegmentWork]) -> Sequence[_Rewritten | Failure]:
        sought = self.shared
        done = attempted(
            lambda: spread(
                self.spark.sparkContext,
                lambda work: rewrite_segment(work, sought.value.keys),
                works,
                weights=[work.segment.log_bytes for work in works],
                name=f"erasing in {counted(len(works), 'segment')}",
                progress=self.request.progress,
            ),
            self.request.stop,
        )
        return [done] * len(works) if isinstance(done, Failure) else done

    def _commit_all(
        self, batch: Sequence[_Waiting], outcomes: Sequence[_Rewritten | Failure]
    ) -> None:
        """Commit several partitions at a time, the segments of each in ascending order."""
        segments: dict[str, list[tuple[Target, SegmentWork, _Rewritten | Failure]]] = {}
        for (partition, work), outcome in zip(batch, outcomes, strict=True):
            segments.setdefault(work.directory, []).append((partition, work, outcome))
        commit_several(
            [partial(self._commit, each) for each in segments.values()],
            [*segments],
            self.request.progress,
            doing=f"committing {counted(len(segments), 'partition')}",
        )

    def _commit(self, segments: Sequence[tuple[Target, SegmentWork, _Rewritten | Failure]]) -> None:
        """Commit segments of one partition. The first failure ends it."""
        swaps: Swaps | None = None
        for partition, work, outcome in segments:
            if self.request.stop.reason is not None:
                partition.why = partition.why or self._stopped()
            if isinstance(outcome, Failure):
                partition.why = partition.why or outcome
            elif partition.why is None:
                staged, erased = outcome
                with partition.failing():
                    swaps = swaps or Swaps(self.request.storage, work.directory)
                    swaps.swap(staged)
                    partition.done["erased"] += erased
                    partition.replaced.append(work)

    def prove_if_possible(self, partitions: Sequence[Target]) -> None:
        """Prove the erasure. If the proof fails or is stopped, report that for each partition: the
        result must still list what was erased.
        """
        try:
            why = attempted(lambda: self._prove(partitions), self.request.stop)
        except FAILS_ONE_PARTITION as error:
            why = failure(error)
        if why is None:
            return
        if self.request.stop.reason is not None:
            why = self._stopped()
        unproven = f"it is not proven what was erased: {why.message}"
        for partition in partitions:
            partition.why = partition.why or Failure(unproven, WinnowError.exit_code)

    def _prove(self, partitions: Sequence[Target]) -> None:
        """Read everything again, and hash the files that were written."""
        progress = self.request.progress
        proofs = prove(self.spark, partitions, self.keys, progress, each=self.doubled)
        hashed = spread_grouped(
            self.spark.sparkContext,
            hash_file,
            [partition.replaced for partition in partitions],
            weight=lambda work: work.segment.log_bytes,
            name=f"hashing {sum(len(one.replaced) for one in partitions)} rewritten segments",
            progress=progress,
        )
        for partition, mine in zip(partitions, hashed, strict=True):
            there = self.request.storage.list_dir(partition.state.directory)
            proof = proofs[partition.state.topic_partition]
            partition.done |= {
                "proof": proof,
                "bytes_after": sum(e.size for e in there if e.is_file and e.name.endswith(LOG)),
                "rewritten": tuple(one for one in mine if isinstance(one, RewrittenFile)),
            }
            failed = next((one for one in mine if isinstance(one, Failure)), None)
            if proof.holds:  # or else it is the worse news
                partition.why = partition.why or failed

    def _stopped(self) -> Failure:
        return Failure(f"the run was stopped, {self.request.stop.reason}", WinnowError.exit_code)
