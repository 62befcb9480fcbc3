"""Choose the partitions an erasure looks into, and which of their segments it reaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

from pyspark import SparkContext

from winnow.cleaning.plan.decide_listed import what_was_left
from winnow.cleaning.plan.partitions import SelectedPartition, SkippedPartition
from winnow.cleaning.plan.planning import list_known, requested
from winnow.cleaning.request import Request
from winnow.cleaning.space import most_index_bytes, most_log_bytes
from winnow.errors import FAILS_ONE_PARTITION, failure_of
from winnow.logdir.files import log_bytes_in
from winnow.logdir.names import KEPT_PREFIX, QUARANTINE_PREFIX, STAGING_PREFIX
from winnow.logdir.survey import LogDir
from winnow.policy.config import TopicConfig
from winnow.policy.retention import has_remote_storage, is_tiered
from winnow.policy.sources import Settings
from winnow.runtime.failure import Failure, failure
from winnow.state import PartitionState
from winnow.storage.contract import Storage
from winnow.survey.place import ListedPartition, PartitionPlace
from winnow.verbs.erase.segment import SegmentMatches, SegmentWork
from winnow.verbs.erase.values import (
    Amount,
    PartitionErasure,
    PartitionMatches,
    PatternMatches,
)
from winnow.wire.internal_topics import INTERNAL_TOPICS

_CUT = (
    "the broker was not shut down cleanly, and it will cut segment {} at byte {} ({}). Bytes "
    "behind the cut can't be searched. Start the broker once and stop it with SIGTERM, then run "
    "again"
)
_TIERED = (
    "remote.storage.enable: remote storage may hold segments too, and an erasure can't change those"
)


@dataclass(slots=True)
class Target:
    """A partition, what the scan found in it, and what was done to it so far."""

    state: PartitionState
    config: TopicConfig
    done: dict[str, Any]
    """What is known of it and what was done, as fields of PartitionErasure."""
    found: list[SegmentMatches] | None = None
    """By segment; None if they were not read, or one of them can't be read."""
    why: Failure | None = None
    """Why it is not erased, or not completely."""
    replaced: list[SegmentWork] = field(default_factory=list)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Fail only this partition. The first reason is kept."""
        try:
            yield
        except FAILS_ONE_PARTITION as error:
            self.why = self.why or failure(error)

    def reached(self) -> dict[int, int]:
        """Return the segments that can be rewritten: base offset -> end. It is the base offset of
        the next one, which is not above the high watermark.
        """
        bases = [segment.base_offset for segment in self.state.segments]
        return {base: end for base, end in pairwise(bases) if end <= self.state.high_watermark}

    def works(self, run_id: str) -> list[SegmentWork]:
        """Return a piece of work for each segment."""
        state, ends = self.state, self.reached()
        return [
            SegmentWork(
                directory=state.directory,
                staging=f"{state.directory}/{STAGING_PREFIX}{run_id}",
                segment=segment,
                end_offset=ends.get(segment.base_offset, state.log_end_offset),
                config=self.config,
                reached=segment.base_offset in ends,
            )
            for segment in state.segments
        ]

    def to_rewrite(self, run_id: str) -> list[SegmentWork]:
        """Return the segments to rewrite, each with the disk space that it may need."""
        works = []
        for work, found in zip(self.works(run_id), self.found or (), strict=False):
            if work.reached and found.matches.records:
                segments = (work.segment,)
                log = most_log_bytes(segments, {work.segment.base_offset} if found.legacy else ())
                most = log + most_index_bytes(segments, log, work.config)
                works.append(replace(work, most_bytes=most))
        return works

    def result(self) -> PartitionErasure:
        state, fields = self.state, self.done.copy()
        if "erased" in fields:
            fields["segments_rewritten"] = len(self.replaced)
        if self.why is not None:
            fields |= {"error": self.why.message, "error_code": self.why.exit_code}
        if self.found is not None:
            ends, matched = self.reached(), 0
            fields |= dict.fromkeys(("closed", "above_high_watermark", "active"), Amount())
            for segment, found in zip(state.segments, self.found, strict=True):
                reached = segment.base_offset in ends
                unreached = "active" if segment is state.active else "above_high_watermark"
                fields["closed" if reached else unreached] += found.matches
                matched += reached and found.matches.records > 0
            fields["segments_with_matches"] = matched
        return PartitionErasure(
            **PartitionPlace(state.log_dir, state.topic_partition).named,
            segments=len(state.segments),
            bytes_before=state.log_bytes,
            **fields,
        )


def find_targets(
    sc: SparkContext, log_dirs: Sequence[LogDir], request: Request
) -> list[Target | PartitionErasure]:
    """Return every partition that was requested, in the order of the log directories. A partition
    that is left unchanged has a result instead.
    """
    request = of_users(request)
    found = requested(log_dirs, request, resolve=Settings.resolve_for_any_policy)
    request.stop.check()
    listed = iter(
        list_known(sc, [item for item in found if isinstance(item, SelectedPartition)], request)
    )
    targets: list[Target | PartitionErasure] = []
    for item in found:
        named = item.place.named
        if isinstance(item, SkippedPartition):
            why = item.reason.words
            targets.append(PartitionErasure(**named, error=item.error, why_left_alone=why))
            continue
        try:
            targets.append(_target(*next(listed), request.storage))
        except FAILS_ONE_PARTITION as error:
            targets.append(PartitionErasure(**named, error=failure_of(error)))
    return [
        one if isinstance(one, Target) else _with_bytes(one, item.place.directory, request.storage)
        for one, item in zip(targets, found, strict=True)
    ]


def internal_targets(
    sc: SparkContext, log_dirs: Sequence[LogDir], request: Request
) -> list[Target | PartitionErasure]:
    """Return the partitions of Kafka's own topics that `request` does not name. They are only
    searched for patterns.
    """
    topics = tuple(topic for topic in INTERNAL_TOPICS if topic not in request.topics)
    if not topics:
        return []
    return find_targets(sc, log_dirs, replace(request, topics=topics, exclude=(), touch=False))


def matches_of(target: Target | PartitionErasure) -> PartitionMatches:
    """Return what the scan found of the patterns in a partition."""
    if isinstance(target, PartitionErasure):
        at = target.topic, target.partition, target.log_dir
        return PartitionMatches(*at, None, target.error or target.why_left_alone)
    topic_partition = target.state.topic_partition
    at = topic_partition.topic, topic_partition.partition, target.state.log_dir
    if target.found is None:
        return PartitionMatches(*at, None, target.why.message if target.why else None)
    return PartitionMatches(*at, sum((one.patterns for one in target.found), PatternMatches()))


def _with_bytes(left: PartitionErasure, directory: str, storage: Storage) -> PartitionErasure:
    """Return the result of a partition that is not searched, with the size of its log."""
    try:
        return replace(left, bytes_before=log_bytes_in(storage, directory))
    except FAILS_ONE_PARTITION:  # the result has the reason already
        return left


def of_users(request: Request) -> Request:
    """Return the request without Kafka's own topics, but those that it names without a wildcard."""
    return replace(
        request, exclude=tuple(topic for topic in INTERNAL_TOPICS if topic not in request.topics)
    )


def _target(
    known: SelectedPartition, listed: ListedPartition | Failure, storage: Storage
) -> Target | PartitionErasure:
    place, topic = known.place, known.place.topic_partition.topic
    left = partial(PartitionErasure, **place.named)
    if isinstance(listed, Failure):
        return left(error=listed.message, error_code=listed.exit_code)
    if listed.log_end_offset is None:
        return left(why_left_alone=what_was_left(storage, listed.listing))
    if is_tiered(topic, known.config):
        return left(why_left_alone=_TIERED)
    state = known.state_of(listed, listed.log_end_offset)
    found = state.recovered
    if found is not None and found.why_cut is not None:
        words = _CUT.format(found.cut_segment, found.cut_position, found.why_cut)
        return left(why_left_alone=words)
    copies = tuple(
        f"{place.directory}/{entry.name}"
        for entry in storage.list_dir(place.directory)
        if entry.is_dir and entry.name.startswith((KEPT_PREFIX, QUARANTINE_PREFIX))
    )
    remote = has_remote_storage(topic, known.config)
    return Target(state, known.config, done={"copies": copies, "remote": remote})


def skipped(log_dirs: Sequence[LogDir], request: Request) -> tuple[list[str], list[str]]:
    """Return the directories that are not searched, each with the reason: those that may have
    records, and notes about the others.
    """
    request, not_searched, notes = of_users(request), [], []
    for log_dir in log_dirs:
        not_searched += [f"{log_dir.path}: {log_dir.error}"] if log_dir.in_doubt else []
        not_searched += [
            f"{log_dir.path}/{stranger.name}: it is {stranger.found}"
            for stranger in log_dir.strangers
        ]
        for one in log_dir.skipped:
            path = f"{log_dir.path}/{one.name}"
            if one.has_records and (one.topic is None or request.wants(one.topic)):
                not_searched.append(f"{path}: {one.why}")
            else:
                notes.append(f"{path} is not searched: {one.why}")
    return not_searched, notes
