"""Find what is wrong, what would free space, and what to run next. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from winnow.cleaning.plan.estimate import weigh
from winnow.cleaning.plan.prepare import prepare
from winnow.cleaning.plan.prepared import LeftAlone, PartitionWork, Prepared
from winnow.cleaning.preview import preview
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.errors import FAILS_ONE_PARTITION, NoSpaceError
from winnow.logdir.batches import first_headers
from winnow.logdir.cleaner_entries import Misplaced, misplaced_entries
from winnow.logdir.names import CLEANER_CHECKPOINT, LOG, segment_file
from winnow.policy.cleanable import oldest_first_batch, segments_between
from winnow.state import PartitionState, Segment
from winnow.storage.segment_io import map_range
from winnow.verbs.doctor.advise import advise
from winnow.verbs.doctor.census import readable, take_census
from winnow.verbs.doctor.left import left_behind
from winnow.verbs.doctor.values import (
    Diagnosis,
    Disk,
    Gain,
    HeldBack,
    MisplacedEntry,
    Overdue,
    Reading,
    Topic,
    Trouble,
    Unfreed,
)
from winnow.wire.inflate import inflate_parts
from winnow.wire.records import scan_records
from winnow.words import counted, duration

if TYPE_CHECKING:
    from pyspark import SparkContext

    from winnow.logdir.survey import LogDir

_DAY_MS = 86_400_000
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
    prepared = prepare(sc, log_dirs, request)
    weighing = partial(weigh, sc, now=request.now, progress=request.progress)
    expected = preview(prepared, request, weigh=weighing).partitions
    works = [item for item in prepared if isinstance(item, PartitionWork)]
    sure = [
        (item, result)
        for item, result in zip(prepared, expected, strict=True)
        if isinstance(item, PartitionWork)
    ]
    request.progress.stage("measuring the read rate")
    overdue = sorted(_overdue(works), key=lambda o: (-o.dirty_bytes, o.topic, o.partition))
    held = sorted(_held_back(works), key=lambda h: (-h.held_bytes, h.topic, h.partition))
    troubles = (
        *(
            Trouble(
                **item.place.named,
                rule=item.reason.rule,
                reason=item.reason.words,
                error=item.error,
            )
            for item in prepared
            if isinstance(item, LeftAlone)
        ),
        *(
            Trouble(
                **item.place.named, rule=item.plan.rule, reason=item.plan.reason, error=result.error
            )
            for item, result in sure
            if result.error is not None
        ),
    )
    compacted = [item for item in works if item.config.cleanup_compact]
    # If some partitions are due for compaction, measure only those: the batches of the others have
    # not been read.
    rate = _scan_rate([item for item in compacted if item.plan.compaction is not None] or compacted)
    rate_of_all = None if rate is None else rate * sc.defaultParallelism
    left = left_behind(sc, [item.place.directory for item in prepared], progress=request.progress)
    gains = (*left, *_gains(sure, rate_of_all))
    short = sum(
        result.error is not None and result.error_code == NoSpaceError.exit_code
        for _, result in sure
    )
    read = sum(segment.log_bytes for item in compacted for segment in readable(item.state))
    reading = Reading(bytes=read, seconds=None if rate_of_all is None else read / rate_of_all)
    bytes_of = {id(item): _log_bytes(item, request) for item in prepared}
    misplaced = tuple(map(_misplaced, misplaced_entries(log_dirs)))
    disks = tuple(_disk(log_dir, prepared, bytes_of, request) for log_dir in log_dirs)
    return Diagnosis(
        now=request.now,
        disks=disks,
        topics=_topics(prepared, bytes_of),
        gains=gains,
        unfreed=_unfreed(sure),
        overdue=tuple(overdue),
        held_back=tuple(held),
        troubles=troubles,
        misplaced=misplaced,
        dead_cleaner=_dead_cleaner(disks, overdue, request.now),
        short_of_space=short,
        advice=advise(
            *(disks, gains, held, troubles, misplaced, None if deep else reading),
            short_of_space=short,
            have_broker_file=bool(request.settings.servers),
        ),
        deep=reading,
        census=take_census(sc, compacted, now=request.now, progress=request.progress)
        if deep
        else None,
        kafka=request.settings.kafka,
    )


def _overdue(items: Iterable[PartitionWork]) -> Iterable[Overdue]:
    for item in items:
        plan = item.plan
        if plan.compaction is None or plan.dirty_ratio is None or plan.first_dirty_offset is None:
            continue
        dirty = segments_between(
            item.state.segments, plan.first_dirty_offset, plan.compaction.end_offset
        )
        yield Overdue(
            **item.place.named,
            rule=plan.rule,
            reason=plan.reason,
            dirty_ratio=plan.dirty_ratio,
            dirty_bytes=plan.compaction.cleanable_bytes,
            dirty_since=oldest_first_batch(dirty),
        )


def _held_back(items: Iterable[PartitionWork]) -> Iterable[HeldBack]:
    for item in items:
        undecided = item.transactions.undecided if item.transactions else None
        if item.transactions is None or undecided is None:
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
        )


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


def _unfreed(sure: Iterable[tuple[PartitionWork, PartitionResult]]) -> tuple[Unfreed, ...]:
    by_topic: dict[str, list[PartitionResult]] = {}
    for item, result in sure:
        by_topic.setdefault(item.place.topic_partition.topic, []).append(result)
    found = []
    for topic, results in by_topic.items():
        if not any(result.acts or result.error is not None for result in results):
            largest = max(results, key=lambda result: result.bytes_before or 0)
            total = sum(result.bytes_before or 0 for result in results)
            found.append(
                Unfreed(
                    topic=topic, partitions=len(results), log_bytes=total, reason=largest.reason
                )
            )
    return tuple(sorted(found, key=lambda one: (-one.log_bytes, one.topic)))


def _gains(
    sure: Sequence[tuple[PartitionWork, PartitionResult]], rate: float | None
) -> tuple[Gain, ...]:
    """Return what each verb would free. `rate`: bytes per second that all cores together read."""
    retained = [item.plan.retention for item, _ in sure if item.plan.retention is not None]
    gains = []
    if retained:
        deleted_bytes = sum(segment.log_bytes for plan in retained for segment in plan.deleted)
        gains.append(
            Gain(
                what="retention",
                partitions=len(retained),
                freed_bytes=deleted_bytes,
                at_most=False,
                read_bytes=0,
                seconds=_RETENTION_SECONDS * len(retained),
            )
        )
    compacted = [
        (result, item.plan.compaction)
        for item, result in sure
        if item.plan.compaction is not None and result.error is None
    ]
    if compacted and rate is not None:
        read = sum(segment.log_bytes for _, plan in compacted for segment in plan.segments)
        freed = sum(
            sum(segment.log_bytes for segment in plan.segments)
            if result.bytes_after is None
            else (result.bytes_before or 0) - result.bytes_after
            for result, plan in compacted
        )
        gains.append(
            Gain(
                what="compaction",
                partitions=len(compacted),
                freed_bytes=freed,
                at_most=any(result.bytes_after is None for result, _ in compacted),
                read_bytes=read,
                seconds=_TIMES_READ * read / rate,
            )
        )
    return tuple(gains)


def _log_bytes(item: Prepared, request: Request) -> int:
    if item.state is not None:
        return item.state.log_bytes
    try:
        entries = request.storage.list_dir(item.place.directory)
    except FAILS_ONE_PARTITION:  # `left alone` gives the reason
        return 0
    return sum(entry.size for entry in entries if entry.is_file and entry.name.endswith(LOG))


def _disk(
    log_dir: LogDir, prepared: Sequence[Prepared], bytes_of: dict[int, int], request: Request
) -> Disk:
    volume = request.storage.volume(log_dir.path)
    path = f"{log_dir.path}/{CLEANER_CHECKPOINT}"
    return Disk(
        log_dir=log_dir.path,
        log_bytes=sum(
            bytes_of[id(item)] for item in prepared if item.place.log_dir == log_dir.path
        ),
        free_bytes=volume.free_bytes,
        total_bytes=volume.total_bytes,
        free_files=volume.free_files,
        read_only=volume.read_only,
        clean_shutdown=log_dir.clean_shutdown,
        # A broker makes an empty file when it starts.
        cleaner_checkpoint_ms=request.storage.entry(path).mtime_ms
        if log_dir.cleaner_file
        else None,
    )


def _topics(prepared: Sequence[Prepared], bytes_of: dict[int, int]) -> tuple[Topic, ...]:
    by_topic: dict[str, list[Prepared]] = {}
    for item in prepared:
        by_topic.setdefault(item.place.topic_partition.topic, []).append(item)
    found = [
        Topic(
            topic=topic,
            policy=items[0].policy if isinstance(items[0], LeftAlone) else items[0].config.policy,
            partitions=len(items),
            segments=sum(len(item.state.segments) for item in items if item.state is not None),
            log_bytes=sum(bytes_of[id(item)] for item in items),
        )
        for topic, items in by_topic.items()
    ]
    return tuple(sorted(found, key=lambda t: (-t.log_bytes, t.topic)))


def _dead_cleaner(disks: Sequence[Disk], overdue: Sequence[Overdue], now: int) -> str | None:
    """Say why the broker's cleaner seems dead, or return None.

    A cleaner looks for work every 15 s and records each partition that it has finished. A day
    without a record is too long.
    """
    for disk in disks:
        waiting = [o for o in overdue if o.log_dir == disk.log_dir]
        if not waiting:
            continue
        where = f" in {disk.log_dir}" if len(disks) > 1 else ""
        many = (
            f"{counted(len(waiting), 'partition')}{where} "
            f"{'is' if len(waiting) == 1 else 'are'} due"
        )
        if disk.cleaner_checkpoint_ms is None:
            return f"{many}, and no cleaner has ever finished a partition there"
        since = now - disk.cleaner_checkpoint_ms
        if since > _DAY_MS:
            return f"{many}, and no cleaner has finished a partition there for {duration(since)}"
    return None


def _scan_rate(items: Sequence[PartitionWork]) -> float | None:
    """Return the log bytes that one core parses per second, decompression included.

    Measured on at most _SAMPLE_BYTES of the largest closed segment of these logs. None if there is
    no sound batch.
    """
    found = [(segment, item) for item in items for segment in item.state.segments[:-1]]
    if not found:
        return None
    segment, item = max(found, key=lambda one: one[0].log_bytes)
    state, limit = item.state, item.config.max_decompressed_message_bytes
    try:
        _parse(state, segment, 2**20, limit)  # loads the compiled kernels before the clock starts
        began = time.perf_counter()
        done = _parse(state, segment, _SAMPLE_BYTES, limit)
    except FAILS_ONE_PARTITION:  # a run reports what is wrong with this partition
        return None
    return done / max(time.perf_counter() - began, _LEAST_SECONDS) if done else None


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
