"""Control records: what brokers write between the records of producers (S2.3)."""

from __future__ import annotations

import struct
from enum import IntEnum

_KEY = struct.Struct(">hh")
"""version, type; longer keys are tolerated, higher versions read as version 0."""
_END_MARKER = struct.Struct(">hi")
"""version, coordinator epoch"""


class ControlType(IntEnum):
    """`ControlRecordType`; those from LEADER_CHANGE on appear in KRaft logs only."""

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
    """What the key of a control record says it is; UNKNOWN for what Kafka would not know or not
    read.
    """
    if key is None or len(key) < _KEY.size:
        return ControlType.UNKNOWN
    version, kind = _KEY.unpack_from(key)
    if version < 0 or kind not in _KINDS:
        return ControlType.UNKNOWN
    return ControlType(kind)


_KINDS = frozenset(ControlType)


def coordinator_epoch(value: bytes | None) -> int | None:
    """Of the value of an ABORT or a COMMIT (`EndTxnMarker`); None if there is none to read."""
    if value is None or len(value) < _END_MARKER.size:
        return None
    version, epoch = _END_MARKER.unpack_from(value)
    return int(epoch) if version >= 0 else None
