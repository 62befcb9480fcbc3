"""The description of a file as plain values: the command line prints them as lines or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from winnow.logdir.indexes.txnindex import AbortedTransaction
from winnow.logdir.lookup import IndexEntry
from winnow.state import ProducerEntry
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
    """Key and value of a record in a topic of the broker's own, as far as they can be decoded."""

    type: str
    key: Fields
    value: Fields | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLine:
    """One record. `sequence`: -1 without a producer. `control`: the type of a control record."""

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
    """One batch as described by its header (S2.1, S2.2). -1 means none, None that its version has
    no such field.

    v0 and v1: base offset and last offset are both the one in the header.
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
    """Also None if the field holds the delete horizon."""
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
    """None if they were not requested or can't be read."""


@dataclass(frozen=True, slots=True)
class TimeLine:
    """A time index entry: the largest timestamp (ms) up to the batch that ends at an offset."""

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
    """The names in a log of one of the broker's own topics, sorted: groups or transactional ids."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Something that a broker can't handle."""

    message: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth knowing that is not damage."""

    message: str


Line: TypeAlias = (
    BatchLine
    | IndexEntry
    | TimeLine
    | AbortedTransaction
    | ProducerEntry
    | CheckpointLine
    | EpochLine
    | PropertyLine
    | NamesLine
    | FileProblem
    | Note
)


@dataclass(frozen=True, slots=True)
class FileDescription:
    """One file. `lines` reads it while it is iterated over, which works only once."""

    path: str
    kind: FileKind
    size: int
    base_offset: int | None
    """The base offset in its name; None if there is none."""
    lines: Iterator[Line]


@dataclass(frozen=True, slots=True)
class PlainRecord:
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionLine:
    directory: str
    asked: str
    """`offset` or `timestamp`"""
    value: int
    segment: str | None = None
    """The log file; None if the log ends before what was asked for."""
    index_offset: int | None = None
    index_position: int | None = None
    """The index entry from which the scan began; None for the start of the file."""
    batches_scanned: int = 0
    batch: BatchLine | None = None
    record: RecordLine | None = None
    """The first record in the batch at or after what was asked for."""
    next_record: PlainRecord | None
    """The first record that a consumer gets after seeking there; None at the end of the log."""
    log_start_offset: int
    log_end_offset: int | None
    """None if the end of the log can't be read."""
    lines: tuple[FileProblem | Note, ...]
