"""Read topics and settings from the log directory's own `__cluster_metadata-0` (S9.3): the newest
complete snapshot, then the log after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from winnow.errors import CorruptLogError
from winnow.logdir.metadata_log import (
    LogEnd,
    Value,
    list_snapshots,
    read_log,
    read_snapshot,
)
from winnow.logdir.names import METADATA_TOPIC
from winnow.state import ALL_BROKERS, Section, Texts, TopicIdentity
from winnow.storage.contract import Storage
from winnow.wire.metadata_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    MigrationRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    ReplicasRecord,
    TopicRecord,
    TransactionRecord,
    decode_metadata_record,
    uuid_text,
)

METADATA_DIR = f"{METADATA_TOPIC}-0"
METADATA_VERSION = "metadata.version"

_NO_DIRECTORY = frozenset(uuid_text(bytes(15) + bytes([last])) for last in range(100))
"""Ids that Kafka reserves, such as those of a directory that is lost or not assigned yet."""
_NODE_ID = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """The metadata at `end`: all that this node knew of the cluster when it was stopped."""

    end: LogEnd
    topics: Mapping[str, TopicIdentity]
    """By name."""
    configs: Mapping[Section, Texts] = field(repr=False)
    """Overrides of topics and dynamic configs of brokers. A topic or broker without any is
    missing. Not in `repr`: a broker's settings may be passwords.
    """
    features: Mapping[str, int]
    supported: Mapping[int, Mapping[str, int]]
    """Node id -> feature -> the highest level that the broker supported at its last start."""
    migration: MigrationRecord | None = None
    """The state of the migration from ZooKeeper. None: nothing tells it. Versions without such a
    migration write no record.
    """
    notes: tuple[str, ...] = ()

    @property
    def end_offset(self) -> int:
        return self.end.offset


def read_cluster_metadata(
    storage: Storage, directory: str, *, unclean: bool = False, as_broker: bool = False
) -> ClusterMetadata:
    """Read the state in a `__cluster_metadata-0` directory.

    Raises CorruptLogError if the state is uncertain: a batch or record is not sound, records are
    missing, or a setting has an unknown version. An incomplete snapshot is skipped, with a note, if
    an older one and the log, or the log alone, give the same state. The same holds for a torn end
    of the last segment. After an `unclean` shutdown that segment is read up to its first damage.
    `as_broker`: an incomplete snapshot is read as far as it goes, and is not skipped.
    """
    image = _Image()
    notes: list[str] = []
    before = LogEnd(offset=0, epoch=-1, timestamp=-1)
    for _, name in list_snapshots(storage, directory):
        try:
            values, before = read_snapshot(storage, f"{directory}/{name}", complete=not as_broker)
        except CorruptLogError as error:
            notes.append(f"{error}; an older snapshot or the log is read instead")
            continue
        image.apply(values, f"{METADATA_DIR} snapshot {before.offset}")
        break
    values, end = read_log(storage, directory, start=before.offset, unclean=unclean)
    torn = end.torn
    if end.epoch < 0:  # no batch follows the snapshot
        end = replace(before, torn=torn)
    if end.offset == 0:
        raise CorruptLogError(
            "the metadata log is empty",
            expected="a snapshot or records",
            found=torn or "none",
            where=directory,
        )
    image.apply(values, None)
    if torn is not None:
        notes.append(
            f"{torn}. A broker cuts them off, so {METADATA_DIR} is read up to offset "
            f"{end.offset - 1}. Settings that changed after it are unknown here"
        )
    notes += (
        f"{METADATA_DIR} has a {kind}, which is newer than this Winnow: it is read as far "
        "as it is known"
        for kind in sorted(image.newer)
    )
    if image.transaction is not None:
        notes.append(
            f"{METADATA_DIR} ends inside a transaction of the controller; "
            "the changes of that transaction are ignored"
        )
    return ClusterMetadata(
        end=end,
        topics=image.topics,
        configs={section: configs for section, configs in image.configs.items() if configs},
        features=image.features,
        supported=image.supported,
        migration=image.migration,
        notes=tuple(notes),
    )


@dataclass(slots=True)
class _Topic:
    """A topic while records are applied. All mappings but the last are those of its
    identity.
    """

    name: str
    replicas: dict[int, frozenset[int]] = field(default_factory=dict)
    in_sync: dict[int, frozenset[int]] = field(default_factory=dict)
    directories: dict[int, Mapping[int, str]] = field(default_factory=dict)
    ordered: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The replicas in the order of the record, which is that of their log directories."""

    def change(self, record: PartitionRecord | ReplicasRecord) -> None:
        at = record.partition
        if record.replicas is not None:
            self.replicas[at], self.ordered[at] = frozenset(record.replicas), record.replicas
            self.directories.pop(at, None)
        if record.in_sync is not None:
            self.in_sync[at] = frozenset(record.in_sync)
        if record.directories is not None:
            pairs = zip(self.ordered.get(at, ()), record.directories, strict=False)
            named = {node: known for node, known in pairs if known not in _NO_DIRECTORY}
            self.directories[at] = named


class _Image:
    """The state while records are applied, one after the other."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicIdentity] = {}
        self.configs: dict[Section, dict[str, tuple[str, str]]] = {}
        self.features: dict[str, int] = {}
        self.supported: dict[int, Mapping[str, int]] = {}
        self._by_id: dict[str, _Topic] = {}
        self.migration: MigrationRecord | None = None
        self.newer: set[str] = set()
        self.transaction: list[tuple[MetadataRecord, str, str]] | None = None

    def apply(self, values: Iterable[Value], where: str | None) -> None:
        """Apply records; those of a transaction together at its end, or not at all. `where`: the
        place of their settings; None: each record's own offset.
        """
        for value in values:
            try:
                decoded = decode_metadata_record(value.data)
            except CorruptLogError as error:
                raise error.at(f"{value.where}, offset {value.offset}") from error
            if decoded.newer is not None:
                self.newer.add(decoded.newer)
            places = where or f"{METADATA_DIR} offset {value.offset}", value.where
            match decoded.record:
                case None:
                    pass
                case TransactionRecord.BEGIN:
                    if self.transaction is not None:
                        what, expected = "a transaction begins", "the end of the one before"
                        raise _senseless(what, expected, value.where)
                    self.transaction = []
                case TransactionRecord.END | TransactionRecord.ABORT:
                    if self.transaction is None:
                        raise _senseless("a transaction ends", "its begin", value.where)
                    pending, self.transaction = self.transaction, None
                    if decoded.record is TransactionRecord.END:
                        for each in pending:
                            self._now(*each)
                case record if self.transaction is not None:
                    self.transaction.append((record, *places))
                case record:
                    self._now(record, *places)

    def _now(self, record: MetadataRecord, where: str, place: str) -> None:
        """`where`: its place as shown to people. `place`: that in its file, for errors."""
        match record:
            case TopicRecord():
                if record.name in self.topics or record.topic_id in self._by_id:
                    raise _senseless(
                        f"topic {record.name} is created", "none of this name or id", place
                    )
                topic = _Topic(record.name)
                self._by_id[record.topic_id] = topic
                self.topics[record.name] = TopicIdentity(
                    record.topic_id, topic.replicas, topic.in_sync, topic.directories
                )
            case PartitionRecord() | ReplicasRecord():
                what = "a partition" if isinstance(record, PartitionRecord) else "a change"
                self._topic(record.topic_id, what, place).change(record)
            case RemoveTopicRecord():
                name = self._topic(record.topic_id, "a removal", place).name
                del self._by_id[record.topic_id], self.topics[name]
                self.configs.pop(("topic", name), None)
            case ConfigRecord():
                self._configure(record, where, place)
            case FeatureLevelRecord():
                self.features[record.name] = record.level
            case RegisterBrokerRecord():
                self.supported[record.node_id] = record.features
            case MigrationRecord():
                self.migration = record

    def _topic(self, topic_id: str, what: str, place: str) -> _Topic:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise _senseless(f"{what} of topic id {topic_id}", "its creation", place)
        return topic

    def _configure(self, record: ConfigRecord, where: str, place: str) -> None:
        name = record.resource_name
        if record.resource_type == TOPIC_RESOURCE:
            section = "topic", name
        elif record.resource_type != BROKER_RESOURCE:
            return
        elif not name:
            section = ALL_BROKERS
        elif _NODE_ID.fullmatch(name):
            section = "broker", str(int(name))
        else:
            raise _senseless(f"a setting of broker {name!r}", "a node id", place)
        configs = self.configs.setdefault(section, {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value, where


def _senseless(what: str, expected: str, place: str) -> CorruptLogError:
    return CorruptLogError(
        f"the metadata log is invalid: {what}",
        expected=f"{expected} before",
        found="none",
        where=place,
    )
