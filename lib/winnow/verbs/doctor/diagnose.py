"""Find what is wrong, what would free space, and what to run next. Changes nothing."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from pyspark import SparkContext

from winnow.cleaning.plan.partitions import Planned, PlannedPartition, SkippedPartition, states_of
from winnow.cleaning.plan.planning import plan_partitions
from winnow.cleaning.predict import predict
from winnow.cleaning.prepared.status import preparations_of
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.cleaning.rewrite.compaction import estimate
from winnow.errors import FAILS_ONE_PARTITION, NoSpaceError, optional
from winnow.logdir.batches import first_headers
from winnow.logdir.cleaner_entries import Misplaced, misplaced_entries
from winnow.logdir.files import log_bytes_in
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import CLEANER_CHECKPOINT, LOCK, LOG, segment_file
from winnow.logdir.survey import LogDir, strangers_in
from winnow.logdir.torn import behind_in
from winnow.policy.cleanable import CleanableRange, segments_between
from winnow.policy.free import linked_note
from winnow.policy.sources import REPLACE_CLEANER
from winnow.runtime.throttle import BESIDE_BROKER
from winnow.start.broker import expected_starts
from winnow.start.metadata_choice import choose_metadata
from winnow.state import PartitionState, Segment
from winnow.storage.live.read_view import view_of, views
from winnow.storage.segment_io import map_range
from winnow.verbs.doctor.advise import advise
from winnow.verbs.doctor.attention import with_attention
from winnow.verbs.doctor.census import take_census
from winnow.verbs.doctor.disk_use import disk_use, gain_of_zeros
from winnow.verbs.doctor.held import held_in
from winnow.verbs.doctor.left import left_behind
from winnow.verbs.doctor.other_disk import other_disk
from winnow.verbs.doctor.unknown_settings import usual_files
from winnow.verbs.doctor.values import (
    Diagnosis,
    Disk,
    Gain,
    HeldBack,
    MisplacedEntry,
    Reading,
    Topic,
    Trouble,
    Unfreed,
)
from winnow.verbs.doctor.waiting import expired_in, overdue_in, uncommitted_in
from winnow.verbs.explain.partition import trusted
from winnow.wire.inflate import inflate_parts
from winnow.wire.records import scan_records

_Sure: TypeAlias = tuple[PlannedPartition, PartitionResult]
"""A partition that can be worked on, and what `clean` would do."""

_RETENTION_SECONDS = 0.01
"""Time that retention takes for one partition: a few renames and their syncs."""
_SAMPLE_BYTES = 32 * 2**20
_SAMPLE_ROWS = 65_536
_LEAST_SECONDS = 1e-3
_TIMES_READ = 2.0
"""A compaction reads twice. Writing what is kept takes about as long as reading the rest."""


def diagnose(
    sc: SparkContext, log_dirs: Sequence[LogDir], request: Request, *, deep: bool
) -> Diagnosis:
    """Diagnose all partitions that `request` selects. `request` must not allow changes.

    `deep`: also read all records.
    """
    planned = plan_partitions(sc, log_dirs, request)
    expected = predict(planned, request, partial(estimate, sc, request=request)).partitions
    sure = [
        (item, result)
        for item, result in zip(planned, expected, strict=True)
        if isinstance(item, PlannedPartition)
    ]
    items, states = [item for item, _ in sure], states_of(planned)
    starts = {view.root: view.started_ms for view in views()}
    request.progress.stage("measuring the read rate")
    compacted = [item for item, _ in sure if item.config.cleanup_compact]
    # If some partitions are due for compaction, measure only those: the batches of the others have
    # not been read.
    rate = _scan_rate([item for item in compacted if item.plan.compaction is not None] or compacted)
    rate_of_all = None if rate is None else rate * sc.defaultParallelism
    if rate_of_all is not None and views():
        rate_of_all = min(rate_of_all, BESIDE_BROKER)
    left = left_behind(sc, [item.place.directory for item in planned], progress=request.progress)
    usable = [log_dir for log_dir in log_dirs if not log_dir.in_doubt]
    space = disk_use(request.storage, [log_dir.path for log_dir in usable])
    read = sum(segment.log_bytes for item in compacted for segment in trusted(item.state))
    results = [_with_bytes(*pair, request) for pair in zip(planned, expected, strict=True)]
    found = Diagnosis(
        now=request.now,
        disks=tuple(
            replace(_disk(log_dir, results, request), behind=behind_in(log_dir, states))
            for log_dir in usable
        ),
        space=space,
        topics=_topics(results, items),
        gains=(*gain_of_zeros(space, usable), *left, *_gains(sure, rate_of_all)),
        unfreed=_unfreed(sure),
        overdue=overdue_in(items, starts),
        expired=expired_in(items, starts, now=request.now),
        held_back=tuple(
            sorted(_held_back(sure), key=lambda h: (-h.held_bytes, h.topic, h.partition))
        ),
        # What is damaged comes first.
        troubles=tuple(
            sorted(_troubles(planned, expected, sure), key=lambda one: one.error is None)
        ),
        held=(
            *held_in(items, now=request.now),
            *uncommitted_in(planned, starts, now=request.now),
        ),
        preparations=preparations_of(usable, request.stop),
        strangers=strangers_in(log_dirs),
        misplaced=tuple(map(_misplaced, misplaced_entries(log_dirs))),
        short_of_space=sum(
            result.error is not None and result.error_code == NoSpaceError.exit_code
            for _, result in sure
        ),
        notes=tuple(linked_note(states.values())),
        deep=Reading(bytes=read, seconds=None if rate_of_all is None else read / rate_of_all),
        census=take_census(sc, compacted, now=request.now, progress=request.progress)
        if deep
        else None,
        kafka=request.settings.kafka,
        zookeeper=choose_metadata(request.settings, request.storage, log_dirs).zookeeper,
        starts=expected_starts(
            sc,
            log_dirs,
            request.settings,
            now=request.now,
            known=states,
            wanted=request.wants,
            progress=request.progress,
        ),
    )
    replaced = any(
        item.config.sources["log.cleaner.enable"] == REPLACE_CLEANER for item in compacted
    )
    found = with_attention(found, has_cleaner=not replaced)
    advice = advise(
        found,
        have_broker_file=bool(request.settings.servers),
        nearby=usual_files(request.storage),
        started_with=_started_with(),
        other_disk=other_disk(request.storage, [log_dir.path for log_dir in usable])
        if found.short_of_space
        else None,
        cleaner_off=sum(result.cleaner_off for _, result in sure),
    )
    return replace(found, advice=advice)


def _started_with() -> str | None:
    """Return the properties file that the running broker was started with. None: it is unknown, or
    the log directories belong to several brokers.
    """
    found = {view.properties for view in views()}
    return found.pop() if len(found) == 1 else None


def _held_back(sure: Iterable[_Sure]) -> Iterator[HeldBack]:
    for item, _ in sure:
        if item.transactions is None or (undecided := item.transactions.undecided) is None:
            continue
        state = item.state
        held = segments_between(state.segments, undecided.first_offset, state.active.base_offset)
        producer = item.transactions.producers.producers.get(undecided.producer_id)
        yield HeldBack(
            **item.place.named,
            producer_id=undecided.producer_id,
            first_offset=undecided.first_offset,
            last_seen=producer.timestamp if producer and producer.timestamp >= 0 else None,
            held_bytes=sum(segment.log_bytes for segment in held),
            words=str(undecided),
            is_open=undecided.marker_offset is None,
        )


def _troubles(
    planned: Sequence[Planned], expected: Sequence[PartitionResult], sure: Iterable[_Sure]
) -> Iterator[Trouble]:
    for item, result in zip(planned, expected, strict=True):
        # Only the error of a partition that has changed meanwhile is not that of its result.
        if isinstance(item, SkippedPartition) and item.error == result.error:
            rule, words = item.reason.rule, item.reason.words
            yield Trouble(**item.place.named, rule=rule, reason=words, error=item.error)
    for work, result in sure:
        if result.error is not None:
            rule, words = work.plan.rule, work.plan.reason
            yield Trouble(**work.place.named, rule=rule, reason=words, error=result.error)


def _misplaced(entry: Misplaced) -> MisplacedEntry:
    files = " and ".join(f"{place}/{CLEANER_CHECKPOINT}" for place in entry.named_in)
    if entry.doubled:
        words = (
            f"{files} list this partition: a broker's cleaner fails when it starts "
            '("Duplicate key")'
        )
    else:
        words = (
            f"{files} lists this partition, but it is in {entry.home}: when a broker cleans it, it "
            'adds a second entry, and then its cleaner fails ("Duplicate key")'
        )
    if entry.home is None:
        words += (
            "; the partition is in none of the given directories: remove its lines by hand while "
            "the broker is stopped"
        )
    return MisplacedEntry(
        topic=entry.topic_partition.topic,
        partition=entry.topic_partition.partition,
        log_dir=entry.home,
        named_in=entry.named_in,
        stops_cleaner=entry.doubled,
        words=words,
    )


def _by_topic(results: Iterable[PartitionResult]) -> Mapping[str, list[PartitionResult]]:
    found = defaultdict[str, list[PartitionResult]](list)
    for result in results:
        found[result.topic].append(result)
    return found


def _bytes(results: Iterable[PartitionResult]) -> int:
    return sum(result.bytes_before or 0 for result in results)


def _unfreed(sure: Iterable[_Sure]) -> tuple[Unfreed, ...]:
    found = []
    for topic, results in _by_topic(result for _, result in sure).items():
        if not any(result.acts or result.error is not None for result in results):
            why = max(results, key=lambda result: result.bytes_before or 0).reason
            total = _bytes(results)
            found.append(Unfreed(topic=topic, partitions=len(results), log_bytes=total, reason=why))
    return tuple(sorted(found, key=lambda one: (-one.log_bytes, one.topic)))


def _gains(sure: Sequence[_Sure], rate: float | None) -> Iterator[Gain]:
    """Yield what each verb would free. `rate`: bytes per second that all cores together read."""
    retained = [item.plan.retention for item, _ in sure if item.plan.retention is not None]
    if retained:
        yield Gain(
            what="retention",
            partitions=len(retained),
            freed_bytes=sum(
                segment.log_bytes
                for plan in retained
                for segment in plan.deleted
                if segment.log_links == 1
            ),
            freed_inodes=sum(_files(segment) for plan in retained for segment in plan.deleted),
            seconds=_RETENTION_SECONDS * len(retained),
        )
    compacted = [
        (result, sum(segment.log_bytes for segment in item.plan.compaction.segments))
        for item, result in sure
        if item.plan.compaction is not None and result.error is None
    ]
    if compacted and rate is not None:
        read = sum(cleaned for _, cleaned in compacted)
        yield Gain(
            what="compaction",
            partitions=len(compacted),
            freed_bytes=sum(
                cleaned
                if result.bytes_after is None
                else (result.bytes_before or 0) - result.bytes_after
                for result, cleaned in compacted
            ),
            at_most=any(result.bytes_after is None for result, _ in compacted),
            read_bytes=read,
            seconds=_TIMES_READ * read / rate,
        )


def _files(segment: Segment) -> int:
    indexes = (segment.index_bytes, segment.timeindex_bytes, segment.txnindex_bytes)
    return 1 + sum(size is not None for size in indexes)


def _with_bytes(item: Planned, result: PartitionResult, request: Request) -> PartitionResult:
    """Return the result, also with the log bytes of a partition that could not be read."""
    if item.state is not None:
        return result
    try:
        log_bytes = log_bytes_in(request.storage, item.place.directory)
    except FAILS_ONE_PARTITION:  # `left alone` gives the reason
        return result
    return replace(result, bytes_before=log_bytes)


def _disk(log_dir: LogDir, results: Sequence[PartitionResult], request: Request) -> Disk:
    volume = request.storage.volume(log_dir.path)
    path = f"{log_dir.path}/{CLEANER_CHECKPOINT}"
    return Disk(
        log_dir=log_dir.path,
        log_bytes=_bytes(result for result in results if result.log_dir == log_dir.path),
        free_bytes=volume.free_bytes,
        total_bytes=volume.total_bytes,
        free_files=volume.free_files,
        used_files=volume.used_files,
        read_only=volume.read_only,
        clean_shutdown=log_dir.clean_shutdown,
        is_of_controller=log_dir.is_of_controller,
        broker_runs=view_of(log_dir.path) is not None,
        lacks_lock=not request.storage.exists(f"{log_dir.path}/{LOCK}"),
        metadata_log_bytes=_metadata_log_bytes(log_dir, request),
        # A broker makes an empty file when it starts.
        cleaner_checkpoint_ms=request.storage.entry(path).mtime_ms
        if log_dir.cleaner_file
        else None,
    )


def _metadata_log_bytes(log_dir: LogDir, request: Request) -> int | None:
    try:
        return log_bytes_in(request.storage, f"{log_dir.path}/{METADATA_DIR}")
    except FAILS_ONE_PARTITION:
        return None


def _topics(
    results: Iterable[PartitionResult], items: Iterable[PlannedPartition]
) -> tuple[Topic, ...]:
    dirty = defaultdict[str, list[CleanableRange]](list)
    for item in items:
        if item.plan.cleanable is not None:
            dirty[item.place.topic_partition.topic].append(item.plan.cleanable)
    found = (
        Topic(
            topic=topic,
            policy=own[0].policy,
            partitions=len(own),
            segments=sum(result.segments_before or 0 for result in own),
            log_bytes=_bytes(own),
            uncounted=sum(result.bytes_before is None for result in own),
            dirty_bytes=sum(part.cleanable_bytes for part in dirty[topic])
            if topic in dirty
            else None,
            dirty_ratio=max((part.ratio or 0.0 for part in dirty.get(topic, ())), default=None),
        )
        for topic, own in _by_topic(results).items()
    )
    return tuple(sorted(found, key=lambda t: (-t.log_bytes, t.topic)))


def _scan_rate(items: Sequence[PlannedPartition]) -> float | None:
    """Return the log bytes that one core parses per second, decompression included.

    Measured on at most _SAMPLE_BYTES of the largest closed segment of these logs. None if there is
    no sound batch.
    """
    found = [(segment, item) for item in items for segment in item.state.segments[:-1]]
    if not found:
        return None
    segment, item = max(found, key=lambda one: one[0].log_bytes)
    state, limit = item.state, item.config.max_decompressed_message_bytes
    done, seconds = 0, _LEAST_SECONDS
    with optional("measuring the speed"):  # a run reports what is wrong with this partition
        _parse(state, segment, 2**20, limit)  # loads the compiled kernels before the clock starts
        began = time.perf_counter()
        done = _parse(state, segment, _SAMPLE_BYTES, limit)
        seconds = max(time.perf_counter() - began, _LEAST_SECONDS)
    return done / seconds if done else None


def _parse(state: PartitionState, segment: Segment, most: int, limit: int) -> int:
    """Parse whole batches from the start of the segment and return their log bytes."""
    path = f"{state.directory}/{segment_file(segment.base_offset, LOG)}"
    with map_range(path, 0, min(segment.log_bytes, most)) as buf:
        batches = first_headers(buf, 0, segment.base_offset, most=_SAMPLE_ROWS)
        try:
            for blocks in inflate_parts(buf, batches, limit=limit):
                scan_records(blocks, (1, 2))
                del blocks
        finally:
            del buf
    return int(batches["size"].sum())
