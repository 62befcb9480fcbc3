"""One replica of a partition before its records are read: its bounds, and the bytes to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from winnow.kafka_log.options import MAX_LONG
from winnow.kafka_log.ranges import ReadRange, half_swapped, ranges_of
from winnow.kafka_log.stable import read_stable
from winnow.logdir.lookup import Segments
from winnow.logdir.meta import read_topic_id
from winnow.logdir.survey import LogDir
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.verbs.compare.values import Replica


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """The place of a replica, what the checkpoints of its log directory say about it, and what
    `look` finds there. `ranges` cover its whole log, ascending.
    """

    topic_partition: TopicPartition
    replica: Replica
    topic_id: str | None = None
    ranges: tuple[ReadRange, ...] = field(default=(), repr=False)
    log_bytes: int = 0

    @property
    def directory(self) -> str:
        return f"{self.replica.log_dir}/{self.topic_partition}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of a partition that are compared; see `compare.values.Comparison`."""

    start: int
    end: int
    every_record_from: int
    cleaned_to: tuple[int, ...]
    """First dirty offset of each replica; 0 for one that was never cleaned."""
    compacted: bool
    """True if any replica has been cleaned. Then a record that a later one of its key supersedes
    may be missing at any offset.
    """


def home_of(log_dir: LogDir, topic_partition: TopicPartition) -> ReplicaLog:
    checkpoints = log_dir.checkpoints
    return ReplicaLog(
        topic_partition,
        Replica(
            log_dir=log_dir.path,
            node_id=log_dir.meta.node_id,
            log_start=checkpoints.log_start.get(topic_partition),
            high_watermark=checkpoints.high_watermark.get(topic_partition, 0),
            last_stable_offset=None,
            cleaned_to=checkpoints.cleaner.get(topic_partition),
        ),
    )


def look(storage: Storage, home: ReplicaLog) -> ReplicaLog:
    """Look at one replica.

    Raises CorruptLogError or OSError where a consumer could not read it either.
    """
    for error in half_swapped(storage, home.directory):
        raise error
    segments = Segments(storage, home.directory)
    stable, aborted = read_stable(segments)
    log_start = max(home.replica.log_start or 0, segments.bases[0])
    return replace(
        home,
        replica=replace(home.replica, log_start=log_start, last_stable_offset=stable),
        topic_id=read_topic_id(storage, home.directory),
        ranges=tuple(ranges_of(segments, home.topic_partition, 0, MAX_LONG, aborted=aborted)),
        log_bytes=sum(segments.log(number).size for number in range(len(segments.bases))),
    )


def bounds_of(replicas: Sequence[Replica]) -> Bounds:
    """Return the bounds on which all replicas must agree: empty if `start` is not below `end`."""
    start = max(replica.log_start or 0 for replica in replicas)
    end = min(
        min(r.high_watermark, MAX_LONG if r.last_stable_offset is None else r.last_stable_offset)
        for r in replicas
    )
    cleaned = tuple(replica.cleaned_to or 0 for replica in replicas)
    return Bounds(
        start=start,
        end=end,
        every_record_from=min(max(start, *cleaned), max(start, end)),
        cleaned_to=cleaned,
        compacted=any(replica.cleaned_to is not None for replica in replicas),
    )


def to_read(home: ReplicaLog, bounds: Bounds, number: int) -> Iterator[ReadRange]:
    """Yield the ranges of replica `number` that may hold offsets within the bounds."""
    # Records between the end and where the replica was cleaned may supersede the missing ones.
    end = max(bounds.end, bounds.cleaned_to[number])
    for one, later in zip_longest(home.ranges, home.ranges[1:]):
        if one.least_offset < end and (later is None or later.least_offset > bounds.start):
            yield replace(one, first=bounds.start, end=end)
