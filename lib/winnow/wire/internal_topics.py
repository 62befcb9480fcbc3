"""Decode names in the records of brokers' own topics: groups, offsets, transactional ids.

Cleaning treats these topics like any other, but people want to know whose state a record is. A key
begins with its type, a value with its version, both int16. Strings have an int16 length. Later
versions of values are "flexible": a length is an unsigned varint, one more than the length itself,
0 for null. Tagged fields end each structure.

Other bytes give None, never an error: anybody may produce to these topics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
INTERNAL_TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)

Field: TypeAlias = int | str | None
Fields: TypeAlias = tuple[tuple[str, Field], ...]

TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""By the number in a value of `__transaction_state` (`TransactionState`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalKey:
    """The owner of a record. `type` and the names of `fields` are Kafka's."""

    type: str
    fields: Fields
    """The first is the group or the transactional id."""

    @property
    def name(self) -> str:
        """The group's name or the transactional id."""
        return str(self.fields[0][1])


def decode_key(topic: str, key: bytes | None) -> InternalKey | None:
    """Decode a key. None for one that is not of this topic, or of an unknown type."""
    types = _KEYS.get(topic)
    if types is None or key is None:
        return None
    try:
        reader = _Reader(key)
        name, shape = types[reader.int16()]
        fields = tuple((field, _READ[kind](reader)) for field, kind in shape)
        return InternalKey(type=name, fields=fields) if reader.at_end else None
    except _UnreadableError:
        return None
    except KeyError:
        return None


def key_types(topic: str) -> frozenset[int]:
    """Return the numbers of the key types of one of INTERNAL_TOPICS."""
    return frozenset(_KEYS[topic])


def decode_value(topic: str, key: InternalKey | None, value: bytes | None) -> Fields | None:
    """Decode offset commits, classic groups (without members), transactions; None for others."""
    if key is None or value is None:
        return None
    decode = _VALUES.get((topic, key.type))
    if decode is None:
        return None
    try:
        reader = _Reader(value)
        return decode(reader, reader.int16())
    except _UnreadableError:
        return None


class _UnreadableError(Exception):
    """The bytes are not what their topic says."""


class _Reader:
    """Reads fields one by one; each length is checked before use."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise _UnreadableError
        part = self._data[self._at : end]
        self._at = end
        return part

    def int8(self) -> int:
        return int.from_bytes(self.take(1), signed=True)

    def int16(self) -> int:
        return int.from_bytes(self.take(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), signed=True)

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise _UnreadableError

    def text(self, *, flexible: bool = False) -> str | None:
        size = self.uvarint() - 1 if flexible else self.int16()
        if size == -1:
            return None
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise _UnreadableError from None

    def string(self) -> str:
        found = self.text()
        if found is None:
            raise _UnreadableError
        return found

    def uuid(self) -> str:
        return self.take(16).hex()

    def count(self, *, flexible: bool) -> int:
        """Return the length of an array: at most the number of bytes left, 0 for null."""
        found = (self.uvarint() - 1) if flexible else self.int32()
        if found > len(self._data) - self._at:
            raise _UnreadableError
        return max(found, 0)

    def tags(self) -> None:
        for _ in range(self.count_of_tags()):
            self.uvarint()
            self.take(self.uvarint())

    def count_of_tags(self) -> int:
        found = self.uvarint()
        if found > len(self._data) - self._at:
            raise _UnreadableError
        return found


_READ: dict[str, Callable[[_Reader], Field]] = {
    "string": _Reader.string,
    "int32": _Reader.int32,
    "uuid": _Reader.uuid,
}

_Shape: TypeAlias = tuple[tuple[str, str], ...]
_OFFSET: _Shape = (("group", "string"), ("topic", "string"), ("partition", "int32"))
_GROUP: _Shape = (("group", "string"),)
_MEMBER: _Shape = (("group", "string"), ("member", "string"))
_SHARE: _Shape = (("group", "string"), ("topicId", "uuid"), ("partition", "int32"))

_KEYS: dict[str, dict[int, tuple[str, _Shape]]] = {
    CONSUMER_OFFSETS: {
        0: ("LegacyOffsetCommit", _OFFSET),
        1: ("OffsetCommit", _OFFSET),
        2: ("GroupMetadata", _GROUP),
        3: ("ConsumerGroupMetadata", _GROUP),
        4: ("ConsumerGroupPartitionMetadata", _GROUP),
        5: ("ConsumerGroupMemberMetadata", _MEMBER),
        6: ("ConsumerGroupTargetAssignmentMetadata", _GROUP),
        7: ("ConsumerGroupTargetAssignmentMember", _MEMBER),
        8: ("ConsumerGroupCurrentMemberAssignment", _MEMBER),
        10: ("ShareGroupMemberMetadata", _MEMBER),
        11: ("ShareGroupMetadata", _GROUP),
        12: ("ShareGroupTargetAssignmentMetadata", _GROUP),
        13: ("ShareGroupTargetAssignmentMember", _MEMBER),
        14: ("ShareGroupCurrentMemberAssignment", _MEMBER),
        15: ("ShareGroupStatePartitionMetadata", _GROUP),
        16: (
            "ConsumerGroupRegularExpression",
            (("group", "string"), ("regularExpression", "string")),
        ),
        17: ("StreamsGroupMetadata", _GROUP),
        19: ("StreamsGroupMemberMetadata", _MEMBER),
        20: ("StreamsGroupTargetAssignmentMetadata", _GROUP),
        21: ("StreamsGroupTargetAssignmentMember", _MEMBER),
        22: ("StreamsGroupCurrentMemberAssignment", _MEMBER),
        23: ("StreamsGroupTopology", _GROUP),
    },
    TRANSACTION_STATE: {0: ("TransactionLog", (("transactionalId", "string"),))},
    SHARE_GROUP_STATE: {0: ("ShareSnapshot", _SHARE), 1: ("ShareUpdate", _SHARE)},
}
"""As of Kafka 4.3 (`CoordinatorRecordType` of the three coordinators)."""


def _offset_commit(reader: _Reader, version: int) -> Fields:
    if not 0 <= version <= 4:
        raise _UnreadableError
    flexible = version == 4
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.text(flexible=flexible)
    committed = reader.int64()
    if version == 1:
        reader.int64()  # the expiry time, which a broker setting replaced long ago
    if flexible:
        reader.tags()
    if not reader.at_end:
        raise _UnreadableError
    return (
        ("offset", offset),
        ("leaderEpoch", leader_epoch),
        ("metadata", metadata),
        ("commitTimestamp", committed),
    )


def _group_metadata(reader: _Reader, version: int) -> Fields:
    if not 0 <= version <= 4:
        raise _UnreadableError
    flexible = version == 4
    protocol_type = reader.text(flexible=flexible)
    generation = reader.int32()
    protocol, leader = reader.text(flexible=flexible), reader.text(flexible=flexible)
    if version >= 2:
        reader.int64()  # when it entered its state
    return (
        ("protocolType", protocol_type),
        ("generation", generation),
        ("protocol", protocol),
        ("leader", leader),
        ("members", reader.count(flexible=flexible)),
    )


def _transaction(reader: _Reader, version: int) -> Fields:
    if not 0 <= version <= 1:
        raise _UnreadableError
    flexible = version == 1
    producer_id, epoch = reader.int64(), reader.int16()
    timeout_ms, state = reader.int32(), reader.int8()
    if not 0 <= state < len(TRANSACTION_STATES):
        raise _UnreadableError
    partitions = []
    for _ in range(reader.count(flexible=flexible)):
        topic = reader.text(flexible=flexible)
        partitions += [f"{topic}-{reader.int32()}" for _ in range(reader.count(flexible=flexible))]
        if flexible:
            reader.tags()
    updated, started = reader.int64(), reader.int64()
    if flexible:
        reader.tags()
    if not reader.at_end:
        raise _UnreadableError
    return (
        ("producerId", producer_id),
        ("producerEpoch", epoch),
        ("transactionTimeoutMs", timeout_ms),
        ("state", TRANSACTION_STATES[state]),
        ("partitions", " ".join(partitions)),
        ("lastUpdateTimestamp", updated),
        ("startTimestamp", started),
    )


_VALUES: dict[tuple[str, str], Callable[[_Reader, int], Fields]] = {
    (CONSUMER_OFFSETS, "LegacyOffsetCommit"): _offset_commit,
    (CONSUMER_OFFSETS, "OffsetCommit"): _offset_commit,
    (CONSUMER_OFFSETS, "GroupMetadata"): _group_metadata,
    (TRANSACTION_STATE, "TransactionLog"): _transaction,
}
