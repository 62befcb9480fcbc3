"""What there is to be said of a file, as plain values: the command line turns them into lines or
into JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from winnow.logdir.snapshots import ProducerEntry
from winnow.logdir.txnindex import AbortedTransaction
from winnow.wire.internal_topics import Fields


class FileKind(StrEnum):
    LOG = "log"
    INDEX = "index"
    TIMEINDEX = "timeindex"
    TXNINDEX = "txnindex"
    SNAPSHOT = "snapshot"
    METADATA_SNAPSHOT = "metadata-snapshot"
    """A `.checkpoint` of KRaft: batches, like a log."""
    OFFSET_CHECKPOINT = "offset-checkpoint"
    LEADER_EPOCHS = "leader-epoch-checkpoint"
    PROPERTIES = "properties"
    """`meta.properties` and `partition.metadata`."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalRecord:
    """Key and value of a record in a topic of the broker's own, as far as they can be read."""

    type: str
    key: Fields
    value: Fields | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLine:
    """One record. `sequence` is -1 without a producer's; `control` names the type of a control
    record.
    """

    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    control: str | None
    coordinator_epoch: int | None
    internal: InternalRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """One batch as its header tells it (S2.1, S2.2). -1 stands for none, None for what its version
    does not have.

    v0 and v1: base and last offset are both the one in the header.
    """

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    count: int | None
    codec: str
    timestamp_type: str
    """`CreateTime`, `LogAppendTime` or `NoTimestampType` (v0)."""
    max_timestamp: int
    base_timestamp: int | None
    """None as well where the field holds the delete horizon."""
    delete_horizon: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    leader_epoch: int
    transactional: bool
    control: bool
    crc: int
    crc_valid: bool
    records: tuple[RecordLine, ...] | None = None
    """None if they were not asked for or can't be read."""


@dataclass(frozen=True, slots=True)
class OffsetLine:
    """An entry of an offset index: last offset of the batch at a position (bytes)."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class TimeLine:
    """An entry of a time index: the largest timestamp (ms) up to the batch that ends at an offset."""

    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class EpochLine:
    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class PropertyLine:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class NamesLine:
    """Whose state a log of one of the broker's own topics holds: groups or transactional ids,
    sorted.
    """

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a broker would stumble over."""

    message: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth knowing that is no damage."""

    message: str


Line: TypeAlias = (
    BatchLine
    | OffsetLine
    | TimeLine
    | AbortedTransaction
    | ProducerEntry
    | CheckpointLine
    | EpochLine
    | PropertyLine
    | NamesLine
    | Problem
    | Note
)


@dataclass(frozen=True, slots=True)
class FileDescription:
    """One file. `lines` is read, and the file with it, as it is iterated over, once."""

    path: str
    kind: FileKind
    size: int
    base_offset: int | None
    """Of its name; None where that has none."""
    lines: Iterator[Line]


@dataclass(frozen=True, slots=True)
class PlainRecord:
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionLine:
    """Where an offset or a timestamp leads in a partition."""

    directory: str
    asked: str
    """`offset` or `timestamp`"""
    value: int
    segment: str | None
    """The log file; None if the log has nothing at or after what was asked for."""
    index_offset: int | None
    index_position: int | None
    """The index entry from which the scan began; None for the start of the file."""
    batches_scanned: int
    batch: BatchLine | None
    record: RecordLine | None
    """The first record in the batch at or after what was asked for."""
    next_record: PlainRecord | None
    """The first record that a consumer gets who seeks there; None at the end of the log."""
    log_start_offset: int
    log_end_offset: int | None
    """None if the end of the log can't be read."""
    lines: tuple[Problem | Note, ...]
