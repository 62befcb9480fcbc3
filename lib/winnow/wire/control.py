"""Control records: what brokers write between the records of producers (S2.3)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from winnow.wire.fields import FieldReader, wrong
from winnow.wire.metadata_records import UUID_SIZE, uuid_text

_KEY = struct.Struct(">hh")
"""version, type; longer keys are accepted, higher versions are read as version 0."""
_END_MARKER = struct.Struct(">hi")
"""version, coordinator epoch"""
KEY_SIZE, VALUE_SIZE = _KEY.size, _END_MARKER.size
"""The least bytes of the key, and of the value of an ABORT or a COMMIT."""


class ControlType(IntEnum):
    """`ControlRecordType`; types from LEADER_CHANGE on appear only in KRaft logs."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @property
    def ends_transaction(self) -> bool:
        return self in (ControlType.ABORT, ControlType.COMMIT)


def control_type(key: bytes | None) -> ControlType:
    """Return the type in the key of a control record; UNKNOWN if Kafka could not read it."""
    if key is None or len(key) < _KEY.size:
        return ControlType.UNKNOWN
    version, kind = _KEY.unpack_from(key)
    if version < 0 or kind not in _KINDS:
        return ControlType.UNKNOWN
    return ControlType(kind)


_KINDS = frozenset(ControlType)


def coordinator_epoch(value: bytes | None) -> int | None:
    """Return the epoch in the value of an ABORT or a COMMIT (`EndTxnMarker`), else None."""
    if value is None or len(value) < _END_MARKER.size:
        return None
    version, epoch = _END_MARKER.unpack_from(value)
    return int(epoch) if version >= 0 else None


@dataclass(frozen=True, slots=True)
class QuorumRecord:
    """A control record of a KRaft log. None: the record is of another kind."""

    voters: Mapping[int, str] | None = None
    """The `directory.id` of each voter, by node."""
    kraft_version: int | None = None


def read_quorum_record(key: bytes | None, value: bytes | None) -> QuorumRecord:
    """Parse a control record of the metadata log, as `ControlRecord.of` does. Fields of later
    versions are ignored.

    Raises CorruptLogError for a record with which a node does not start.
    """
    kind = control_type(key)
    if kind not in _FIELDS:
        raise wrong("a control record of a metadata log", f"the key {(key or b'').hex()}")
    fields = FieldReader(value or b"")
    fields.number(2, "a version")
    return _FIELDS[kind](fields)


def _voters(fields: FieldReader) -> QuorumRecord:
    found = dict[int, str]()
    for _ in range(_length(fields)):
        node = fields.number(4, "a voter")
        found[node] = uuid_text(fields.take(UUID_SIZE, "a directory id"))
        for _endpoint in range(_length(fields)):
            fields.string("a listener")
            fields.string("a host")
            fields.number(2, "a port")
            fields.tagged()
        fields.number(4, "the lowest and the highest kraft.version")
        fields.tagged()  # of these versions
        fields.tagged()  # of the voter
    fields.tagged()
    return QuorumRecord(voters=found)


def _kraft_version(fields: FieldReader) -> QuorumRecord:
    level = fields.number(2, "kraft.version")
    fields.tagged()
    return QuorumRecord(kraft_version=level)


def _of_leader(fields: FieldReader) -> QuorumRecord:
    fields.number(4, "a leader")
    return QuorumRecord()


def _of_header(fields: FieldReader) -> QuorumRecord:
    fields.number(8, "a timestamp")
    return QuorumRecord()


def _of_footer(_: FieldReader) -> QuorumRecord:
    return QuorumRecord()


def _length(fields: FieldReader) -> int:
    found = fields.uvarint("a count") - 1
    if not 0 <= found <= fields.left:
        raise wrong("a count that the value has room for", "null" if found < 0 else str(found))
    return found


_FIELDS: Mapping[ControlType, Callable[[FieldReader], QuorumRecord]] = {
    ControlType.LEADER_CHANGE: _of_leader,
    ControlType.SNAPSHOT_HEADER: _of_header,
    ControlType.SNAPSHOT_FOOTER: _of_footer,
    ControlType.KRAFT_VERSION: _kraft_version,
    ControlType.KRAFT_VOTERS: _voters,
}
