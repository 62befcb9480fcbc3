"""The contents of a log directory as plain, frozen values with no open files behind them.

`logdir.listing` makes them and `policy` decides over them. `clean` refines them with facts that
need a walk over the batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from winnow.pickling import pickled_by_fields


@pickled_by_fields
@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Section = tuple[str, str]
"""Whose settings they are, as a kind and a name: `topic` and its name, `broker` and its node id, or
`cluster` and no name for those of all brokers. `effective` and a topic's name: what the topic gets
from its broker, as `kafka-configs.sh --all` prints it: keys by a topic's names, with the precedence
of a broker's.
"""
ALL_BROKERS: Section = ("cluster", "")
Texts = Mapping[str, tuple[str, str]]
"""Kafka's key -> (the value's text, its place)."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The nodes that a reassignment removes from the replicas of a partition, and adds. Until it is
    complete, all of them are replicas.
    """

    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """Tells this topic's partition directories from those of an earlier topic of the same name, and
    a broker's own ones from those that were moved to another.
    """

    topic_id: str
    replicas: Mapping[int, frozenset[int]]
    """The nodes that have a replica, by partition. Empty: unknown."""
    isr: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Those of them that were in sync when the metadata log ended. Empty: unknown."""
    directories: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    """By partition and node: the `directory.id` of the log directory with the replica, as far as
    the controller knows it.
    """
    eligible: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """The eligible leader replicas (KIP-966), of partitions that have any."""
    reassigned: Mapping[int, Reassignment] = field(default_factory=dict)
    """By partition: the reassignments in progress."""

    @property
    def in_sync(self) -> Mapping[int, frozenset[int]]:
        """Return `in_sync_of` all partitions."""
        partitions = {**self.isr, **self.eligible} if self.eligible else ()
        return {at: self.in_sync_of(at) for at in partitions} or self.isr

    def in_sync_of(self, partition: int) -> frozenset[int]:
        """Return the nodes that had all acknowledged records: the ISR, and the eligible leader
        replicas. A controller lets each of them lead. Empty: unknown.
        """
        isr = self.isr.get(partition, frozenset[int]())
        return isr | self.eligible[partition] if partition in self.eligible else isr


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class Segment:
    """One segment, as the sizes and ends of its files describe it. The log itself is not read.

    Sizes are in bytes, timestamps and times in ms. A size is None if the file is missing.
    """

    base_offset: int
    log_bytes: int
    log_mtime_ms: int
    index_bytes: int | None
    timeindex_bytes: int | None
    txnindex_bytes: int | None
    last_timeindex_timestamp: int
    """Timestamp of the last time-index entry, -1 if there is none (S1.7)."""
    first_batch_max_timestamp: int
    """maxTimestamp of the first batch, -1 if unknown. Only for `max.compaction.lag.ms` (S3.4)."""
    log_stamp: tuple[int, ...] = field(default=(), compare=False)
    """`Entry.stamp` of the `.log`."""
    log_links: int = field(default=1, compare=False)
    """`Entry.links` of the `.log`: its bytes stay until all names are removed."""
    rebuilt: tuple[int, int] | None = field(default=None, compare=False)
    """Sizes of the `.index` and the `.timeindex` that a broker rebuilds when it recovers this
    segment (S8.2). Those on disk are then not read. None: they are used as they are.
    """
    rebuilt_txnindex: bytes | None = field(default=None, compare=False, repr=False)
    """The `.txnindex` that a broker rebuilds when it recovers this segment. None: the file is used
    as it is. With `rebuilt`: the segment has transactions, and no loader was asked yet.
    """

    @property
    def index_sizes(self) -> tuple[int | None, int | None, int | None]:
        """Sizes of the offset index, the time index and the transaction index."""
        return self.index_bytes, self.timeindex_bytes, self.txnindex_bytes

    @property
    def used_index_bytes(self) -> tuple[int, int]:
        """Sizes of the offset index and the time index that a broker uses. A missing one counts as
        empty: a broker creates it.
        """
        return self.rebuilt or (self.index_bytes or 0, self.timeindex_bytes or 0)

    @property
    def used_txnindex_bytes(self) -> int:
        """Size of the transaction index that a broker uses. 0 if there is none."""
        rebuilt = self.rebuilt_txnindex
        return (self.txnindex_bytes or 0) if rebuilt is None else len(rebuilt)

    @property
    def largest_timestamp(self) -> int:
        """The timestamp that a broker takes for the newest record: the last entry of the time
        index, or the file's mtime if there is none (S3.2).
        """
        if self.last_timeindex_timestamp >= 0:
            return self.last_timeindex_timestamp
        return self.log_mtime_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Segments that become one, with the base offset of the first."""

    sources: tuple[Segment, ...]
    """Ascending and without a gap, as they were when they were listed."""

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset

    @property
    def source_bases(self) -> tuple[int, ...]:
        return tuple(source.base_offset for source in self.sources)


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """One producer below the offset of a snapshot file (S1.9). -1 means none."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    """Last minus first offset of that batch."""
    timestamp: int
    """In ms, of that batch or of a later marker."""
    coordinator_epoch: int
    current_txn_first_offset: int


@pickled_by_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Where a log ends after an unclean shutdown, read from the recovery point on (S8.2)."""

    first_read: int
    """Base offset of the first segment that was read. Those below it were flushed."""
    end_offset: int
    """The log end offset after a broker's recovery."""
    cut_segment: int | None
    """Base offset of the segment that a broker cuts. It becomes the active one. None: no cut."""
    cut_position: int
    """Valid bytes of the last segment that a broker keeps."""
    why_cut: str | None
    removed: tuple[int, ...]
    """Base offsets of the later segments, which a broker removes."""
    lost_bytes: int
    """Bytes of `.log` files that a broker cuts off or removes."""
    producers: tuple[ProducerEntry, ...] | None = field(default=None, compare=False, repr=False)
    """Those that a broker's loader knows at the end. None: it was not asked. The snapshots on the
    disk count then.
    """


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition directory, with its entries in the log directory's checkpoints.

    `segments` ascend by base offset; the last one is the active segment (S8.3). Offsets are
    resolved as a broker's loader resolves them: `log_start_offset` = max(checkpoint, first base),
    `high_watermark` clamped to [log_start_offset, log_end_offset]. A missing checkpoint entry
    counts as log_start_offset.
    """

    log_dir: str
    topic_partition: TopicPartition
    segments: tuple[Segment, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    cleaner_checkpoint: int | None
    log_start_checkpoint: int | None
    snapshot_offsets: tuple[int, ...]
    leader_epochs: tuple[tuple[int, int], ...]
    """(epoch, start offset), ascending; empty if there is no leader-epoch-checkpoint."""
    trusted_end: int | None = None
    """Set only after an unclean shutdown (S8.2). Segments that reach beyond this offset were listed
    but not read. The high watermark is neither above it nor in the active segment. The log end
    offset is the end of the readable log. None: the whole log can be trusted.
    """

    lost_bytes: int = 0
    """After an unclean shutdown: the part of `log_bytes` behind the last whole batch, which a
    starting broker will cut off (`winnow.logdir.unflushed`).
    """
    lost_high_watermark: str | None = None
    """Why there is no high watermark although there are records: what the checkpoint lacks. The
    log start offset counts as the high watermark then. None: the high watermark is known.
    """
    future: tuple[tuple[int, int], ...] = ()
    """Of segments with a timestamp in the future: base offset, and the offset of that record. Known
    only where such a segment keeps others.
    """
    recovered: Recovered | None = None
    """Set if the log was read from the recovery point on after an unclean shutdown (S8.2). The
    segments, their `log_bytes` and the offsets are then those of the log that a broker recovers.
    The files at and behind a cut are left to the broker, and so is the active segment.
    """

    @property
    def directory(self) -> str:
        return f"{self.log_dir}/{self.topic_partition}"

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    def future_offset(self, segment: Segment) -> int | None:
        """Return the offset of the record with the segment's timestamp in the future, if known."""
        return dict(self.future).get(segment.base_offset)

    @property
    def log_bytes(self) -> int:
        """Size of all `.log` files on disk."""
        return sum(s.log_bytes for s in self.segments)

    @property
    def whole_bytes(self) -> int:
        """The size that the rules count: that of the log after a broker has started on it."""
        return self.log_bytes - self.lost_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """How a log's settings affect its entries in the checkpoints."""

    compacted: bool
    """A compacted log's first dirty offset is raised to the log start offset. For any other log the
    entry is stale and Kafka does not change it.
    """
    remote: bool
    """A part of the log may lie in remote storage. A broker then takes the log start offset from
    the checkpoint, whatever the first segment is, and 0 without an entry. So the entry is kept and
    never lowered.
    """
