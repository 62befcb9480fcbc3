"""Decode records of the cluster's metadata log `__cluster_metadata-0` that describe topics and
their configuration (S9.3).

The value of such a record (its key is null) is

    frame version   uvarint   1
    api key         uvarint   which kind of record
    version         uvarint   of that kind's fields
    fields          ...       big-endian numbers; uuid: 16 bytes; string, array: uvarint of
                              length + 1, 0 is null
    tagged fields   uvarint count, then for each: uvarint tag, uvarint size, bytes

and ends there. Kinds that don't describe topics or settings are skipped, whatever they contain. A
record is one value, so finding the next one needs no knowledge of it.

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
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
)


@dataclass(frozen=True, slots=True)
class Decoded:
    record: MetadataRecord | None
    """None for a kind that doesn't describe topics or settings."""
    newer: str | None = None
    """Kind and version, in words, if the version is newer than the listed ones."""


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
        return Decoded(None)
    newer = version > kind.max_version
    if newer and not kind.ids_only:
        raise CorruptLogError(
            f"a {kind.name} has a version that this Winnow does not know",
            expected=f"0 to {kind.max_version}",
            found=str(version),
            hint="A newer Kafka wrote it. Upgrade Winnow or name the topics in --topic-configs "
            "FILE.",
        )
    try:
        record = kind.read(fields)
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


_INT8, _INT16, _INT32 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i")


def _topic(fields: _Fields) -> TopicRecord:
    name = fields.string("a topic name")
    if not _TOPIC_NAME.fullmatch(name):
        raise _wrong("a topic name", repr(name))
    return TopicRecord(name=name, topic_id=fields.uuid("a topic id"))


def _partition(fields: _Fields) -> PartitionRecord:
    partition = fields.number(_INT32, "a partition id")
    if partition < 0:
        raise _wrong("a partition id of 0 or more", str(partition))
    return PartitionRecord(partition=partition, topic_id=fields.uuid("a topic id"))


def _config(fields: _Fields) -> ConfigRecord:
    return ConfigRecord(
        resource_type=fields.number(_INT8, "a resource type"),
        resource_name=fields.string("a resource name"),
        name=fields.string("the name of a setting"),
        value=fields.nullable_string("the value of a setting"),
    )


def _remove_topic(fields: _Fields) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=fields.uuid("a topic id"))


def _feature_level(fields: _Fields) -> FeatureLevelRecord:
    return FeatureLevelRecord(
        name=fields.string("a feature name"), level=fields.number(_INT16, "a feature level")
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    read: Callable[[_Fields], MetadataRecord | None]
    max_version: int = 0
    ids_only: bool = False
    """Only names and ids are read, which other records confirm: a newer version is readable."""
    has_more: bool = False
    """Fields after those that are read are ignored."""


_KINDS: Mapping[int, _Kind] = {
    2: _Kind("TopicRecord", _topic, ids_only=True),
    3: _Kind("PartitionRecord", _partition, max_version=2, ids_only=True, has_more=True),
    4: _Kind("ConfigRecord", _config),
    9: _Kind("RemoveTopicRecord", _remove_topic, ids_only=True),
    12: _Kind("FeatureLevelRecord", _feature_level),
    20: _Kind("NoOpRecord", lambda _: None),
    23: _Kind("BeginTransactionRecord", lambda _: BeginTransactionRecord()),
    24: _Kind("EndTransactionRecord", lambda _: EndTransactionRecord()),
    25: _Kind("AbortTransactionRecord", lambda _: AbortTransactionRecord()),
}
"""By api key."""
