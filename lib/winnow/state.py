"""What a log directory holds, as plain values: read once, never changed, no file behind them.

`logdir.listing` makes them, `policy` decides over them, `engine` refines them with what only a walk
over the batches can tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from winnow.pickling import pickled_by_fields


@pickled_by_fields
@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class Segment:
    """One segment as its files' sizes and ends tell it, without reading the log.

    Sizes in bytes, timestamps and times in ms. A size is None where the file is missing.
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
    """maxTimestamp of the first batch, -1 if unknown or empty; for `max.compaction.lag.ms` only
    (S3.4).
    """
    log_stamp: tuple[int, ...] = field(default=(), compare=False)
    """`Entry.stamp` of the `.log`."""

    @property
    def largest_timestamp(self) -> int:
        """What a broker takes for the newest record: the time index's last entry, else the file's
        age (S3.2).
        """
        return (
            self.last_timeindex_timestamp
            if self.last_timeindex_timestamp >= 0
            else self.log_mtime_ms
        )


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition directory, with what the log directory's checkpoints say of it.

    `segments` ascend by base offset; the last one is the active segment (S8.3). Offsets are
    resolved as a broker's loader would: `log_start_offset` = max(checkpoint, first base),
    `high_watermark` clamped to [log_start_offset, log_end_offset], missing checkpoint entry =
    log_start_offset.
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
    """After an unclean shutdown (S8.2): segments that reach beyond it were listed and not looked
    into, the high watermark is not above it or in the active segment, and the log end offset is as
    far as the log can be read. None: all is sound.
    """

    lost_bytes: int = 0
    """After an unclean shutdown: of `log_bytes`, those that a starting broker will cut off behind
    the last whole batch (`winnow.logdir.after_crash`).
    """

    @property
    def directory(self) -> str:
        return f"{self.log_dir}/{self.topic_partition}"

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def log_bytes(self) -> int:
        """On the disk."""
        return sum(s.log_bytes for s in self.segments)

    @property
    def whole_bytes(self) -> int:
        """Those that rules count: what the log has once a broker has started on it."""
        return self.log_bytes - self.lost_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """What the settings of a log say about its entries in the checkpoints."""

    compacted: bool
    """Its first dirty offset is raised to the log start offset. That of any other log is stale:
    Kafka leaves it.
    """
    remote: bool
    """A part of it may lie in remote storage. A broker then takes the log start offset from the
    checkpoint, whatever the first segment is, and 0 if there is no entry: so the entry is kept, and
    never lowered.
    """
