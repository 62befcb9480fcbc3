"""Decode records of the cluster's metadata log `__cluster_metadata-0` that describe topics and
their configuration (S9.3).

The value of such a record (its key is null) is

    frame version   uvarint   1
    api key         uvarint   which kind of record
    version         uvarint   of that kind's fields
    fields          ...       big-endian numbers; uuid: 16 bytes; string, array: uvarint of
                              length + 1, 0 is null
    tagged fields   uvarint count, then for each: uvarint tag, uvarint size, bytes

and ends there. Kinds that don't describe topics or settings are skipped, whatever they contain, but
for the registration of a broker, which tells its release. A record is one value, so finding the
next one needs no knowledge of it.

A newer Kafka appends or tags fields, and raises the version. If only names and ids of a kind are
read, such a version is read as far as it is known: other records confirm these ids. Nothing
confirms a setting, and it must not be read wrongly. So an unlisted version of it is an error.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import TypeAlias

from winnow.errors import CorruptLogError
from winnow.wire.fields import FieldReader, wrong

FRAME_VERSION = 1
UUID_SIZE = 16
_PARTITION_VERSION = 2
_IN_SYNC, _REPLICAS, _REMOVING, _ADDING, _ELIGIBLE, _DIRECTORIES = 0, 2, 3, 4, 6, 8
"""Tags of fields of PartitionChangeRecord."""
_ELIGIBLE_OF_NEW = 1
"""The tag of a field of PartitionRecord."""
_LOG_DIRS = 0
"""The tag of a field of RegisterBrokerRecord."""
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
"""Resource types of ConfigRecord that concern logs."""


@dataclass(frozen=True, slots=True)
class TopicRecord:
    name: str
    topic_id: str
    """As `partition.metadata` and Kafka's tools write it: base64url, 22 characters."""


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A new partition: its ids, and the nodes that have its replicas; empty: unknown."""

    partition: int
    topic_id: str
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    directories: tuple[str, ...] | None = None
    """The id of the log directory of each replica (KIP-858). None before Kafka 3.7."""
    eligible: tuple[int, ...] | None = None
    """Eligible leader replicas (KIP-966)."""
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    """The replicas that a reassignment in progress removes and adds; both are in `replicas`."""


@dataclass(frozen=True, slots=True)
class ReplicasRecord:
    """What changed of a partition: its replicas, those in sync, the ids of the log directories of
    its replicas, its eligible leader replicas, and the replicas that a reassignment removes and
    adds. None: not changed.
    """

    partition: int
    topic_id: str
    replicas: tuple[int, ...] | None = None
    in_sync: tuple[int, ...] | None = None
    directories: tuple[str, ...] | None = None
    eligible: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    resource_type: int
    resource_name: str
    """A topic; a broker's node id; or empty for the default of all brokers."""
    name: str
    value: str | None = field(repr=False)
    """None: the setting is removed. Not in `repr`: a broker's settings may be passwords."""


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    topic_id: str


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    name: str
    level: int


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord:
    """A broker's start: what it says about its release, and its log directories."""

    node_id: int
    features: Mapping[str, int]
    """Name of a feature -> the highest level that the broker supports."""
    log_dirs: tuple[str, ...] = ()
    """Each `directory.id`, from Kafka 3.7 on."""


class MigrationRecord(IntEnum):
    """How far the cluster's migration from ZooKeeper to KRaft is (Kafka's `ZkMigrationState`)."""

    NONE = 0
    MIGRATION = 1
    """The metadata is in this log and, for the brokers that still use it, in ZooKeeper."""
    PRE_MIGRATION = 2
    POST_MIGRATION = 3
    """Finished: Kafka has no way back to ZooKeeper."""
    ZK = 4


class TransactionRecord(Enum):
    """What follows the begin of a transaction counts only once the transaction has ended."""

    BEGIN = auto()
    END = auto()
    ABORT = auto()


MetadataRecord: TypeAlias = (
    TopicRecord
    | PartitionRecord
    | ReplicasRecord
    | ConfigRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | RegisterBrokerRecord
    | MigrationRecord
    | TransactionRecord
)


@dataclass(frozen=True, slots=True)
class Decoded:
    record: MetadataRecord | None
    """None for a kind that doesn't describe topics or settings."""
    newer: str | None = None
    """Kind and version, in words, if they are newer than the listed ones."""


def decode_metadata_record(value: bytes | None) -> Decoded:
    """Decode a record. Raises CorruptLogError, without `where`, for bytes that are no metadata
    record, and for a setting in an unknown version.
    """
    if value is None:
        raise CorruptLogError(
            "a metadata record without a value", expected="a frame version", found="null"
        )
    fields = FieldReader(value)
    frame = fields.uvarint("frame version")
    if frame != FRAME_VERSION:
        raise wrong(f"frame version {FRAME_VERSION}", str(frame))
    key = fields.uvarint("api key")
    version = fields.uvarint("version")
    kind = _KINDS.get(key)
    if kind is None:
        return Decoded(None, f"record of kind {key}")
    newer = f"{kind.name} of version {version}" if version > kind.max_version else None
    if kind.read is None or (newer and kind.optional):
        return Decoded(None, newer)
    if newer and not kind.ids_only:
        raise CorruptLogError(
            f"a {kind.name} has a version that this Winnow does not know",
            expected=f"0 to {kind.max_version}",
            found=str(version),
            hint="A newer Kafka wrote it. Upgrade Winnow or name the topics in --topic-configs "
            "FILE.",
        )
    if len(value) > kind.most_bytes:
        raise CorruptLogError(
            f"a {kind.name} is too large",
            expected=f"at most {kind.most_bytes} bytes",
            found=f"{len(value)} bytes",
        )
    try:
        record = kind.read(fields, version)
        if not newer and not kind.has_more:
            fields.tagged()
            fields.end()
    except CorruptLogError as error:
        problem = f"a {kind.name} can't be read"
        raise error.like(CorruptLogError, problem, where=None) from error
    return Decoded(record, newer)


def is_known(kind: int, version: int) -> bool:
    """Return whether Kafka has this version of this kind of record, by its api key."""
    known = _KINDS.get(kind)
    return known is not None and version <= known.max_version


def uuid_text(raw: bytes) -> str:
    """Return Kafka's spelling of a uuid."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def _topic_id(fields: FieldReader) -> str:
    return uuid_text(fields.take(UUID_SIZE, "a topic id"))


def _topic(fields: FieldReader, _version: int) -> TopicRecord:
    name = fields.string("a topic name")
    if not _TOPIC_NAME.fullmatch(name):
        raise wrong("a topic name", repr(name))
    return TopicRecord(name=name, topic_id=_topic_id(fields))


def _partition(fields: FieldReader, version: int) -> PartitionRecord:
    partition = fields.number(4, "a partition id")
    if partition < 0:
        raise wrong("a partition id of 0 or more", str(partition))
    topic_id = _topic_id(fields)
    if version > _PARTITION_VERSION:
        return PartitionRecord(partition, topic_id)
    replicas = fields.numbers("replicas")
    in_sync = fields.numbers("in-sync replicas")
    moves = [fields.numbers(what) for what in ("removed replicas", "added replicas")]
    if not version:
        return PartitionRecord(partition, topic_id, replicas, in_sync, None, None, *moves)
    for what in ("a leader", "a leader epoch", "a partition epoch"):
        fields.number(4, what)
    directories, eligible = _ids(fields), fields.tagged().get(_ELIGIBLE_OF_NEW)
    elr = None if eligible is None else FieldReader(eligible).numbers("eligible replicas")
    return PartitionRecord(partition, topic_id, replicas, in_sync, directories, elr, *moves)


def _partition_change(fields: FieldReader, _version: int) -> ReplicasRecord | None:
    """Only a change of the replicas, of those in sync or eligible, or of their log directories
    matters here.
    """
    partition, topic_id = fields.number(4, "a partition id"), _topic_id(fields)
    changed = fields.tagged()
    fields.end()
    replicas, in_sync, eligible, removing, adding = (
        FieldReader(changed[tag]).numbers("replicas") if tag in changed else None
        for tag in (_REPLICAS, _IN_SYNC, _ELIGIBLE, _REMOVING, _ADDING)
    )
    directories = _ids(FieldReader(changed[_DIRECTORIES])) if _DIRECTORIES in changed else None
    found = replicas, in_sync, directories, eligible, removing, adding
    if all(one is None for one in found):
        return None
    return ReplicasRecord(partition, topic_id, *found)


def _ids(fields: FieldReader) -> tuple[str, ...]:
    count = fields.uvarint("a count of directories") - 1
    return tuple(uuid_text(fields.take(UUID_SIZE, "a directory id")) for _ in range(count))


def _config(fields: FieldReader, _version: int) -> ConfigRecord:
    return ConfigRecord(
        resource_type=fields.number(1, "a resource type"),
        resource_name=fields.string("a resource name"),
        name=fields.string("the name of a setting"),
        value=fields.text("the value of a setting"),
    )


def _remove_topic(fields: FieldReader, _version: int) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=_topic_id(fields))


def _feature_level(fields: FieldReader, _version: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(
        name=fields.string("a feature name"), level=fields.number(2, "a feature level")
    )


def _migration(fields: FieldReader, _version: int) -> MigrationRecord:
    state = fields.number(1, "the state of a migration")
    if state not in set(MigrationRecord):
        raise wrong(f"a state of {min(MigrationRecord)} to {max(MigrationRecord)}", str(state))
    return MigrationRecord(state)


def _register_broker(fields: FieldReader, version: int) -> RegisterBrokerRecord:
    node_id = fields.number(4, "a node id")
    if version >= 2:
        fields.number(1, "whether the broker migrates")
    fields.take(UUID_SIZE, "an incarnation id")
    fields.number(8, "a broker epoch")
    for _ in range(fields.uvarint("a count of end points") - 1):
        fields.string("the name of an end point")
        fields.string("a host")
        fields.number(2, "a port")
        fields.number(2, "a security protocol")
        fields.tagged()
    features = {}
    for _ in range(fields.uvarint("a count of features") - 1):
        name = fields.string("a feature name")
        fields.number(2, "the lowest supported level")
        features[name] = fields.number(2, "the highest supported level")
        fields.tagged()
    fields.text("a rack")
    fields.number(1, "whether the broker is fenced")
    if version >= 1:
        fields.number(1, "whether the broker shuts down")
    log_dirs = fields.tagged().get(_LOG_DIRS)
    return RegisterBrokerRecord(node_id, features, _ids(FieldReader(log_dirs)) if log_dirs else ())


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    read: Callable[[FieldReader, int], MetadataRecord | None] | None = None
    """Reads the fields of a version. None: the kind does not matter here."""
    max_version: int = 0
    ids_only: bool = False
    """Only names and ids are read, which other records confirm: a newer version is readable."""
    has_more: bool = False
    """Fields after those that are read are ignored."""
    most_bytes: int = 2**20
    """Of its value. A partition of 10,000 replicas has less."""
    optional: bool = False
    """No setting and no topic depends on it: a newer version is left out."""


_KINDS: Mapping[int, _Kind] = {
    0: _Kind("RegisterBrokerRecord", _register_broker, max_version=4, has_more=True, optional=True),
    1: _Kind("UnregisterBrokerRecord"),
    2: _Kind("TopicRecord", _topic, ids_only=True),
    3: _Kind(
        "PartitionRecord",
        _partition,
        max_version=_PARTITION_VERSION,
        ids_only=True,
        has_more=True,
    ),
    4: _Kind("ConfigRecord", _config, most_bytes=2**24),
    5: _Kind(
        "PartitionChangeRecord", _partition_change, max_version=2, has_more=True, optional=True
    ),
    6: _Kind("AccessControlRecord"),
    7: _Kind("FenceBrokerRecord"),
    8: _Kind("UnfenceBrokerRecord"),
    9: _Kind("RemoveTopicRecord", _remove_topic, ids_only=True),
    10: _Kind("DelegationTokenRecord"),
    11: _Kind("UserScramCredentialRecord"),
    12: _Kind("FeatureLevelRecord", _feature_level),
    14: _Kind("ClientQuotaRecord"),
    15: _Kind("ProducerIdsRecord"),
    16: _Kind("RemoveFeatureLevelRecord"),
    17: _Kind("BrokerRegistrationChangeRecord", max_version=3),
    18: _Kind("AccessControlEntryRecord"),
    19: _Kind("RemoveAccessControlEntryRecord"),
    20: _Kind("NoOpRecord", lambda *_: None),
    21: _Kind("ZkMigrationStateRecord", _migration, optional=True),
    22: _Kind("RemoveUserScramCredentialRecord"),
    23: _Kind("BeginTransactionRecord", lambda *_: TransactionRecord.BEGIN),
    24: _Kind("EndTransactionRecord", lambda *_: TransactionRecord.END),
    25: _Kind("AbortTransactionRecord", lambda *_: TransactionRecord.ABORT),
    26: _Kind("RemoveDelegationTokenRecord"),
    27: _Kind("RegisterControllerRecord"),
    28: _Kind("ClearElrRecord"),
    29: _Kind("UnregisterControllerRecord"),
}
"""By api key: all of Kafka 4.4 (`MetadataRecordType`), and those that earlier versions had."""
