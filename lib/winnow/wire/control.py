"""Control records: what brokers write between the records of producers (S2.3)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum

from winnow.wire.fields import FieldReader
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


def voters(value: bytes) -> Mapping[int, str]:
    """Return the `directory.id` of each voter in the value of a KRAFT_VOTERS (`VotersRecord`), by
    node. Raises CorruptLogError for any other value.
    """
    fields, found = FieldReader(value), dict[int, str]()
    fields.number(2, "a version")
    for _ in range(fields.count()):
        node = fields.number(4, "a voter")
        found[node] = uuid_text(fields.take(UUID_SIZE, "a directory id"))
        for _endpoint in range(fields.count()):
            fields.string("a listener")
            fields.string("a host")
            fields.number(2, "a port")
            fields.tagged()
        fields.number(4, "the lowest and the highest kraft.version")
        fields.tagged()  # of these versions
        fields.tagged()  # of the voter
    fields.tagged()
    return found
