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
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from winnow.errors import CorruptLogError

FRAME_VERSION = 1
UUID_SIZE = 16
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
MAX_UVARINT_SIZE = 5

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
    """Only its ids: the places of the replicas don't matter here."""

    partition: int
    topic_id: str


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
    """A broker's start: what it says about its release."""

    node_id: int
    features: Mapping[str, int]
    """Name of a feature -> the highest level that the broker supports."""


@dataclass(frozen=True, slots=True)
class BeginTransactionRecord:
    """What follows counts only once the transaction has ended."""


@dataclass(frozen=True, slots=True)
class EndTransactionRecord:
    pass


@dataclass(frozen=True, slots=True)
class AbortTransactionRecord:
    pass


MetadataRecord: TypeAlias = (
    TopicRecord
    | PartitionRecord
    | ConfigRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | RegisterBrokerRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
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
    fields = _Fields(value)
    frame = fields.uvarint("frame version")
    if frame != FRAME_VERSION:
        raise _wrong(f"frame version {FRAME_VERSION}", str(frame))
    key = fields.uvarint("api key")
    version = fields.uvarint("version")
    kind = _KINDS.get(key)
    if kind is None:
        return Decoded(None, f"record of kind {key}")
    newer = version > kind.max_version
    if kind.read is None or (newer and kind.optional):
        return Decoded(None, f"{kind.name} of version {version}" if newer else None)
    if newer and not kind.ids_only:
        raise CorruptLogError(
            f"a {kind.name} has a version that this Winnow does not know",
            expected=f"0 to {kind.max_version}",
            found=str(version),
            hint="A newer Kafka wrote it. Upgrade Winnow or name the topics in --topic-configs "
            "FILE.",
        )
    try:
        record = kind.read(fields, version)
        if not newer and not kind.has_more:
            fields.tagged()
            fields.end()
    except CorruptLogError as error:
        raise CorruptLogError(
            f"a {kind.name} can't be read",
            expected=error.expected,
            found=error.found,
            hint=error.hint,
        ) from error
    return Decoded(record, f"{kind.name} of version {version}" if newer else None)


class _Fields:
    """Reads a value from front to back; every length is checked before use."""

    __slots__ = ("_data", "_pos")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0

    def uvarint(self, what: str) -> int:
        value = 0
        for i in range(MAX_UVARINT_SIZE):
            if self._pos >= len(self._data):
                raise _wrong(what, "the end of the value")
            byte = self._data[self._pos]
            self._pos += 1
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return value
        raise _wrong(f"{what} of at most {MAX_UVARINT_SIZE} bytes", "more")

    def number(self, format_: struct.Struct, what: str) -> int:
        (value,) = format_.unpack(self._take(format_.size, what))
        return int(value)

    def uuid(self, what: str) -> str:
        return uuid_text(self._take(UUID_SIZE, what))

    def string(self, what: str) -> str:
        text = self.nullable_string(what)
        if text is None:
            raise _wrong(what, "null")
        return text

    def nullable_string(self, what: str) -> str | None:
        length = self.uvarint(f"the length of {what}") - 1
        if length < 0:
            return None
        data = self._take(length, what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _wrong(f"{what} in UTF-8", f"{error.reason} at its byte {error.start}") from None

    def tagged(self) -> None:
        """Skip the tagged fields: none of them holds names, ids or settings."""
        for _ in range(self.uvarint("a count of tagged fields")):
            self.uvarint("a tag")
            self._take(self.uvarint("the size of a tagged field"), "a tagged field")

    def end(self) -> None:
        if self._pos != len(self._data):
            raise _wrong(
                "the end of the value after its fields", f"{len(self._data) - self._pos} bytes more"
            )

    def _take(self, size: int, what: str) -> bytes:
        if size > len(self._data) - self._pos:
            raise _wrong(
                f"{what} of {size} bytes",
                f"{len(self._data) - self._pos} up to the end of the value",
            )
        start, self._pos = self._pos, self._pos + size
        return self._data[start : self._pos]


def uuid_text(raw: bytes) -> str:
    """Return Kafka's spelling of a uuid."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def _wrong(expected: str, found: str) -> CorruptLogError:
    return CorruptLogError("a metadata record can't be read", expected=expected, found=found)


_INT8, _INT16 = struct.Struct(">b"), struct.Struct(">h")
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")


def _topic(fields: _Fields, _version: int) -> TopicRecord:
    name = fields.string("a topic name")
    if not _TOPIC_NAME.fullmatch(name):
        raise _wrong("a topic name", repr(name))
    return TopicRecord(name=name, topic_id=fields.uuid("a topic id"))


def _partition(fields: _Fields, _version: int) -> PartitionRecord:
    partition = fields.number(_INT32, "a partition id")
    if partition < 0:
        raise _wrong("a partition id of 0 or more", str(partition))
    return PartitionRecord(partition=partition, topic_id=fields.uuid("a topic id"))


def _config(fields: _Fields, _version: int) -> ConfigRecord:
    return ConfigRecord(
        resource_type=fields.number(_INT8, "a resource type"),
        resource_name=fields.string("a resource name"),
        name=fields.string("the name of a setting"),
        value=fields.nullable_string("the value of a setting"),
    )


def _remove_topic(fields: _Fields, _version: int) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=fields.uuid("a topic id"))


def _feature_level(fields: _Fields, _version: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(
        name=fields.string("a feature name"), level=fields.number(_INT16, "a feature level")
    )


def _register_broker(fields: _Fields, version: int) -> RegisterBrokerRecord:
    node_id = fields.number(_INT32, "a node id")
    if version >= 2:
        fields.number(_INT8, "whether the broker migrates")
    fields.uuid("an incarnation id")
    fields.number(_INT64, "a broker epoch")
    for _ in range(fields.uvarint("a count of end points") - 1):
        fields.string("the name of an end point")
        fields.string("a host")
        fields.number(_INT16, "a port")
        fields.number(_INT16, "a security protocol")
        fields.tagged()
    features = {}
    for _ in range(fields.uvarint("a count of features") - 1):
        name = fields.string("a feature name")
        fields.number(_INT16, "the lowest supported level")
        features[name] = fields.number(_INT16, "the highest supported level")
        fields.tagged()
    return RegisterBrokerRecord(node_id, features)


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    read: Callable[[_Fields, int], MetadataRecord | None] | None = None
    """Reads the fields of a version. None: the kind does not matter here."""
    max_version: int = 0
    ids_only: bool = False
    """Only names and ids are read, which other records confirm: a newer version is readable."""
    has_more: bool = False
    """Fields after those that are read are ignored."""
    optional: bool = False
    """No setting and no topic depends on it: a newer version is left out."""


_KINDS: Mapping[int, _Kind] = {
    0: _Kind("RegisterBrokerRecord", _register_broker, max_version=4, has_more=True, optional=True),
    1: _Kind("UnregisterBrokerRecord"),
    2: _Kind("TopicRecord", _topic, ids_only=True),
    3: _Kind("PartitionRecord", _partition, max_version=2, ids_only=True, has_more=True),
    4: _Kind("ConfigRecord", _config),
    5: _Kind("PartitionChangeRecord", max_version=2),
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
    21: _Kind("ZkMigrationStateRecord"),
    22: _Kind("RemoveUserScramCredentialRecord"),
    23: _Kind("BeginTransactionRecord", lambda *_: BeginTransactionRecord()),
    24: _Kind("EndTransactionRecord", lambda *_: EndTransactionRecord()),
    25: _Kind("AbortTransactionRecord", lambda *_: AbortTransactionRecord()),
    26: _Kind("RemoveDelegationTokenRecord"),
    27: _Kind("RegisterControllerRecord"),
    28: _Kind("ClearElrRecord"),
    29: _Kind("UnregisterControllerRecord"),
}
"""By api key: all of Kafka 4.4 (`MetadataRecordType`), and those that earlier versions had."""
