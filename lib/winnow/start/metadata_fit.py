"""Whether the records of a metadata log fit each other, as a controller takes them.

A controller applies one record after the other, the snapshot first, and ends at one that changes
what no earlier record has made: a broker that was never registered, or at another epoch
(`ClusterControlManager`, `ClusterDelta`), a topic or a partition that does not exist
(`ReplicationControlManager`, `TopicsDelta`). So it does if the snapshot lacks its end, or is of
another cluster than the log, at a record of a kind that it does not know, and at a level of a
feature that it does not support (`FeatureControlManager`).
"""

from __future__ import annotations

from collections.abc import Mapping

from winnow.errors import CorruptLogError
from winnow.logdir.metadata_log import MetadataValue
from winnow.policy.known_version import METADATA_VERSION, UNSUPPORTED, level_name
from winnow.wire.control import QuorumRecord
from winnow.wire.fields import FieldReader
from winnow.wire.metadata_records import FRAME_VERSION, UUID_SIZE, is_known, uuid_text

_REGISTER, _UNREGISTER, _TOPIC, _PARTITION, _CHANGE, _REMOVE_TOPIC, _FEATURE = 0, 1, 2, 3, 5, 9, 12
_OF_BROKER = {_UNREGISTER: "unregistered", 7: "fenced", 8: "unfenced", 17: "changed"}
"""Kinds of records that begin with the id and the epoch of a broker."""
_KRAFT = "kraft.version"
_BEGIN, _ABORT = 23, 25
"""Records that begin and abort a transaction. What is between them is ignored."""
_WITH_MIGRATION = 2
"""The first version of RegisterBrokerRecord that says whether the broker migrates."""


class MetadataFit:
    """Looks at records in their order. `problem`: the first one that does not fit, in words.

    `features`: the levels of each feature that the broker's version supports. None: the version is
    unknown, and may be newer than all that Winnow knows.
    """

    def __init__(self, features: Mapping[str, range] | None = None) -> None:
        self.problem: str | None = None
        self._features = features
        self._brokers: dict[int, int] = {}
        self._partitions: dict[bytes, set[int]] = {}
        self._before: tuple[dict[int, int], dict[bytes, set[int]]] | None = None

    def see(self, value: MetadataValue) -> None:
        if self.problem is None and value.quorum is not None:
            self._see_quorum(value.offset, value.quorum)
        if self.problem is not None or value.quorum is not None or value.data is None:
            return
        try:
            found = self._why_not(FieldReader(value.data))
        except CorruptLogError:
            return  # `decode_metadata_record` says it
        if found is not None:
            self.problem = f"its record at offset {value.offset} does not fit: {found}"

    def _see_quorum(self, offset: int, record: QuorumRecord) -> None:
        level = record.kraft_version
        if self._features is None or level is None:
            return
        found = _why_not_supported(_KRAFT, level, self._features.get(_KRAFT, UNSUPPORTED))
        if found is not None:
            self.problem = f"its record at offset {offset} does not fit: {found}"

    def _why_not(self, fields: FieldReader) -> str | None:
        if fields.uvarint("frame version") != FRAME_VERSION:
            return None
        kind, version = fields.uvarint("api key"), fields.uvarint("version")
        if (unsupported := self._why_unsupported(fields, kind, version)) is not None:
            return unsupported
        if kind == _REGISTER:
            self._register(fields, version)
        elif kind in _OF_BROKER:
            return self._of_broker(fields, kind)
        elif kind == _TOPIC:
            fields.string("a topic name")
            self._partitions[fields.take(UUID_SIZE, "a topic id")] = set()
        elif kind in {_PARTITION, _CHANGE}:
            return self._of_partition(fields, is_new=kind == _PARTITION)
        elif kind == _REMOVE_TOPIC:
            topic_id = fields.take(UUID_SIZE, "a topic id")
            if self._partitions.pop(topic_id, None) is None:
                return f"topic id {uuid_text(topic_id)} is removed, and was never created"
        elif kind == _BEGIN:
            partitions = {topic_id: {*numbers} for topic_id, numbers in self._partitions.items()}
            self._before = {**self._brokers}, partitions
        elif kind == _ABORT and self._before is not None:
            self._brokers, self._partitions = self._before
        return None

    def _why_unsupported(self, fields: FieldReader, kind: int, version: int) -> str | None:
        """Return why the broker's version can't apply a record, whatever came before."""
        if self._features is None:
            return None
        if not is_known(kind, version):
            return f"this broker's version has no record of kind {kind} and version {version}"
        if kind != _FEATURE:
            return None
        name, level = fields.string("a feature name"), fields.number(2, "a feature level")
        return _why_not_supported(name, level, self._features.get(name, UNSUPPORTED))

    def _register(self, fields: FieldReader, version: int) -> None:
        node_id = fields.number(4, "a node id")
        if version >= _WITH_MIGRATION:
            fields.number(1, "whether the broker migrates")
        fields.take(UUID_SIZE, "an incarnation id")
        self._brokers[node_id] = fields.number(8, "a broker epoch")

    def _of_broker(self, fields: FieldReader, kind: int) -> str | None:
        node_id, epoch = fields.number(4, "a node id"), fields.number(8, "a broker epoch")
        known = self._brokers.get(node_id)
        if known is None:
            return f"broker {node_id} is {_OF_BROKER[kind]}, and was never registered"
        if known != epoch:
            return (
                f"broker {node_id} of epoch {epoch} is {_OF_BROKER[kind]}, and was registered with "
                f"epoch {known}"
            )
        if kind == _UNREGISTER:
            del self._brokers[node_id]
        return None

    def _of_partition(self, fields: FieldReader, *, is_new: bool) -> str | None:
        number = fields.number(4, "a partition id")
        topic_id = fields.take(UUID_SIZE, "a topic id")
        known = self._partitions.get(topic_id)
        what = f"partition {number} of topic id {uuid_text(topic_id)}"
        if known is None:
            done = "created" if is_new else "changed"
            return f"{what} is {done}, and no record has created the topic"
        if is_new:
            known.add(number)
        elif number not in known:
            return f"{what} is changed, and was never created"
        return None


def _why_not_supported(name: str, level: int, supported: range) -> str | None:
    if level in supported:
        return None
    if name != METADATA_VERSION:
        known = "no such feature" if supported == UNSUPPORTED else f"it up to {supported[-1]}"
        return f"feature {name} has level {level}, and this broker's version supports {known}"
    word, limit = ("newer", "newest") if level > supported[-1] else ("older", "oldest")
    bound = supported[-1 if word == "newer" else 0]
    return (
        f"metadata.version {level_name(level)} is {word} than {level_name(bound)}, the {limit} "
        "that this broker's version knows"
    )
