"""Decode names in the records of brokers' own topics: groups, offsets, transactional ids.

Cleaning treats these topics like any other, but people want to know whose state a record is. A key
begins with its type, a value with its version, both int16. The latest version of a value is
"flexible" (`FieldReader`); nothing else is.

Other bytes give None, never an error: anybody may produce to these topics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from winnow.errors import CorruptLogError
from winnow.wire.fields import FieldReader, wrong

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
        reader = FieldReader(key, flexible=False)
        name, shape = types[reader.number(2, "a type")]
        fields = tuple((field, read(reader)) for field, read in shape)
        return None if reader.left else InternalKey(type=name, fields=fields)
    except (CorruptLogError, KeyError):
        return None


def key_types(topic: str) -> frozenset[int]:
    """Return the numbers of the key types of one of INTERNAL_TOPICS."""
    return frozenset(_KEYS[topic])


def decode_value(topic: str, key: InternalKey | None, value: bytes | None) -> Fields | None:
    """Decode offset commits, classic groups (without members), transactions; None for others."""
    if key is None or value is None:
        return None
    decode, latest = _VALUES.get((topic, key.type), (None, 0))
    if decode is None:
        return None
    try:
        reader = FieldReader(value)
        version = reader.number(2, "a version")
        if not 0 <= version <= latest:
            raise wrong(f"version 0 to {latest}", str(version))
        reader.flexible = version == latest
        return decode(reader, version)
    except CorruptLogError:
        return None


def _int32(reader: FieldReader) -> Field:
    return reader.number(4)


def _uuid(reader: FieldReader) -> Field:
    return reader.take(16, "a uuid").hex()


_Shape: TypeAlias = tuple[tuple[str, Callable[[FieldReader], Field]], ...]
_string = FieldReader.string
_OFFSET: _Shape = (("group", _string), ("topic", _string), ("partition", _int32))
_GROUP: _Shape = (("group", _string),)
_MEMBER: _Shape = (("group", _string), ("member", _string))
_SHARE: _Shape = (("group", _string), ("topicId", _uuid), ("partition", _int32))

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
            (("group", _string), ("regularExpression", _string)),
        ),
        17: ("StreamsGroupMetadata", _GROUP),
        19: ("StreamsGroupMemberMetadata", _MEMBER),
        20: ("StreamsGroupTargetAssignmentMetadata", _GROUP),
        21: ("StreamsGroupTargetAssignmentMember", _MEMBER),
        22: ("StreamsGroupCurrentMemberAssignment", _MEMBER),
        23: ("StreamsGroupTopology", _GROUP),
    },
    TRANSACTION_STATE: {0: ("TransactionLog", (("transactionalId", _string),))},
    SHARE_GROUP_STATE: {0: ("ShareSnapshot", _SHARE), 1: ("ShareUpdate", _SHARE)},
}
"""As of Kafka 4.3 (`CoordinatorRecordType` of the three coordinators)."""


def _offset_commit(reader: FieldReader, version: int) -> Fields:
    offset = reader.number(8)
    leader_epoch = reader.number(4) if version >= 3 else -1
    metadata = reader.text()
    committed = reader.number(8)
    if version == 1:
        reader.number(8)  # the expiry time, which a broker setting replaced long ago
    reader.tagged()
    reader.end()
    return (
        ("offset", offset),
        ("leaderEpoch", leader_epoch),
        ("metadata", metadata),
        ("commitTimestamp", committed),
    )


def _group_metadata(reader: FieldReader, version: int) -> Fields:
    protocol_type = reader.text()
    generation = reader.number(4)
    protocol, leader = reader.text(), reader.text()
    if version >= 2:
        reader.number(8)  # when it entered its state
    return (
        ("protocolType", protocol_type),
        ("generation", generation),
        ("protocol", protocol),
        ("leader", leader),
        ("members", reader.count()),
    )


def _transaction(reader: FieldReader, _version: int) -> Fields:
    producer_id, epoch = reader.number(8), reader.number(2)
    timeout_ms, state = reader.number(4), reader.number(1)
    if not 0 <= state < len(TRANSACTION_STATES):
        raise wrong("a known state", str(state))
    partitions = []
    for _ in range(reader.count()):
        topic = reader.text()
        partitions += [f"{topic}-{reader.number(4)}" for _ in range(reader.count())]
        reader.tagged()
    updated, started = reader.number(8), reader.number(8)
    reader.tagged()
    reader.end()
    return (
        ("producerId", producer_id),
        ("producerEpoch", epoch),
        ("transactionTimeoutMs", timeout_ms),
        ("state", TRANSACTION_STATES[state]),
        ("partitions", " ".join(partitions)),
        ("lastUpdateTimestamp", updated),
        ("startTimestamp", started),
    )


_VALUES: dict[tuple[str, str], tuple[Callable[[FieldReader, int], Fields], int]] = {
    (CONSUMER_OFFSETS, "LegacyOffsetCommit"): (_offset_commit, 4),
    (CONSUMER_OFFSETS, "OffsetCommit"): (_offset_commit, 4),
    (CONSUMER_OFFSETS, "GroupMetadata"): (_group_metadata, 4),
    (TRANSACTION_STATE, "TransactionLog"): (_transaction, 1),
}
"""The decoder of a value and the latest version that it knows, by topic and type of the key."""
