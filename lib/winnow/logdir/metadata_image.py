"""Topics and settings while the records of a metadata log are applied, one after the other (S9.3).

Equal lists of nodes and of directories are kept once: of a million partitions, most have replicas
on the same few nodes. What is kept is counted, so a log of small records can't fill the memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from winnow.budget import Budget
from winnow.errors import CorruptLogError, OversizedBatchError
from winnow.logdir.metadata_log import MetadataValue
from winnow.state import ALL_BROKERS, Reassignment, Section, TopicIdentity
from winnow.wire.control import QuorumRecord
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

_NO_DIRECTORY = frozenset(uuid_text(bytes(15) + bytes([last])) for last in range(100))
"""Ids that Kafka reserves, such as those of a directory that is lost or not assigned yet."""
_NODE_ID = re.compile(r"[0-9]{1,10}")

_MOST_NEWER, _MOST_NOTES = 100, 5
_MAX_STATE_BYTES = 2**30
"""About two million partitions."""
_RECORD_BYTES = 512
"""Of a record that is kept: about what its entries in dictionaries take."""
_NODE_BYTES, _DIRECTORY_BYTES = 160, 192
_TEXT_RATIO = 4
"""Bytes in memory for each byte of a text in UTF-8, at most."""
_WAITING_RATIO = 32
"""The same for a decoded record that waits for the end of its transaction."""


@dataclass(slots=True)
class _Topic:
    """A topic while records are applied. All mappings but `ordered` are those of its identity."""

    name: str
    replicas: dict[int, frozenset[int]] = field(default_factory=dict)
    isr: dict[int, frozenset[int]] = field(default_factory=dict)
    directories: dict[int, Mapping[int, str]] = field(default_factory=dict)
    eligible: dict[int, frozenset[int]] = field(default_factory=dict)
    reassigned: dict[int, Reassignment] = field(default_factory=dict)
    ordered: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The replicas in the order of the record, which is that of their log directories."""


class _Shared:
    """What many partitions have alike, each kept once."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._nodes: dict[tuple[int, ...], tuple[tuple[int, ...], frozenset[int]]] = {}
        self._directories: dict[tuple[tuple[int, ...], tuple[str, ...]], Mapping[int, str]] = {}

    def nodes(self, ids: tuple[int, ...], where: str) -> tuple[tuple[int, ...], frozenset[int]]:
        """Return the nodes in their order, and as a set."""
        found = self._nodes.get(ids)
        if found is None:
            self._budget.take(_RECORD_BYTES + _NODE_BYTES * len(ids), where)
            found = self._nodes[ids] = ids, frozenset(ids)
        return found

    def directories(
        self, nodes: tuple[int, ...], ids: tuple[str, ...], where: str
    ) -> Mapping[int, str]:
        """Return the directory of each node that has one."""
        found = self._directories.get((nodes, ids))
        if found is None:
            size = _NODE_BYTES * len(nodes) + _DIRECTORY_BYTES * len(ids)
            self._budget.take(_RECORD_BYTES + size, where)
            pairs = zip(nodes, ids, strict=False)
            found = {node: known for node, known in pairs if known not in _NO_DIRECTORY}
            self._directories[nodes, ids] = found
        return found


class MetadataImage:
    """The state after the records that were given to `take`."""

    def __init__(self, name: str, *, snapshot: int | None = None) -> None:
        """`name`: of the log, for people. `snapshot`: the offset of the one that is read; None: the
        log is read.
        """
        self.topics: dict[str, TopicIdentity] = {}
        self.configs: dict[Section, dict[str, tuple[str, str]]] = {}
        self.features: dict[str, int] = {}
        self.supported: dict[int, Mapping[str, int]] = {}
        self.log_dirs: dict[int, tuple[str, ...]] = {}
        self._by_id: dict[str, _Topic] = {}
        self.migration: MigrationRecord | None = None
        self.voters: Mapping[int, str] = {}
        self.kraft_version = 0
        self.newer: set[str] = set()
        """Kinds of records that are newer than this Winnow, at most `_MOST_NEWER`."""
        self.transaction: list[tuple[MetadataRecord, str, str]] | None = None
        self._name, self._snapshot = name, snapshot
        self._error: CorruptLogError | None = None
        self._budget = Budget(
            _MAX_STATE_BYTES,
            "bytes of memory",
            "the topics and settings of a metadata log take too much memory",
            hint="Name the topics in --topic-configs FILE.",
            error=OversizedBatchError,
        )
        self._waiting = 0
        self._shared = _Shared(self._budget)

    @property
    def newer_notes(self) -> tuple[str, ...]:
        """Return what is newer than this Winnow: a note for each kind of record, or for many."""
        kinds = sorted(self.newer)
        if len(kinds) <= _MOST_NOTES:
            return tuple(
                f"{self._name} has a {kind}, which is newer than this Winnow: it is read as far as "
                "it is known"
                for kind in kinds
            )
        least = "at least " if len(kinds) == _MOST_NEWER else ""
        many = (
            f"{self._name} has {least}{len(kinds)} kinds of records that are newer than this "
            f"Winnow, such as a {kinds[0]}: they are read as far as they are known"
        )
        return (many,)

    def of_log(self) -> Self:
        """Return this state, to go on with the records of the log."""
        self.check()
        self._snapshot = None
        return self

    def take(self, value: MetadataValue) -> None:
        """Apply a record; those of a transaction together at its end, or not at all. `check` raises
        the first error. Records after it are ignored.
        """
        if value.quorum is not None:
            self._see_quorum(value.quorum)
        elif self._error is None:
            try:
                self._apply(value)
            except CorruptLogError as error:
                self._error = error

    def _see_quorum(self, record: QuorumRecord) -> None:
        """No transaction of the controller has control records."""
        self.voters = self.voters if record.voters is None else record.voters
        self.kraft_version = record.kraft_version or self.kraft_version

    def check(self) -> None:
        """Raise CorruptLogError if a record could not be applied."""
        if self._error is not None:
            raise self._error

    def _apply(self, value: MetadataValue) -> None:
        try:
            decoded = decode_metadata_record(value.data)
        except CorruptLogError as error:
            raise error.at(f"{value.where}, offset {value.offset}") from error
        if decoded.newer is not None and len(self.newer) < _MOST_NEWER:
            self.newer.add(decoded.newer)
        size = len(value.data or b"")
        places = self._place(value), value.where
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
                self._budget.give_back(self._waiting)
                self._waiting = 0
                if decoded.record is TransactionRecord.END:
                    for each in pending:
                        self._now(*each)
            case record if self.transaction is not None:
                kept = _RECORD_BYTES + _WAITING_RATIO * size
                self._budget.take(kept, value.where)
                self._waiting += kept
                self.transaction.append((record, *places))
            case record:
                self._now(record, *places)

    def _place(self, value: MetadataValue) -> str:
        if self._snapshot is not None:
            return f"{self._name} snapshot {self._snapshot}"
        return f"{self._name} offset {value.offset}"

    def _now(self, record: MetadataRecord, where: str, place: str) -> None:
        """`where`: its place as shown to people. `place`: that in its file, for errors."""
        match record:
            case TopicRecord():
                self._budget.take(2 * _RECORD_BYTES + _TEXT_RATIO * len(record.name), place)
                if record.name in self.topics or record.topic_id in self._by_id:
                    raise _senseless(
                        f"topic {record.name} is created", "none of this name or id", place
                    )
                topic = _Topic(record.name)
                self._by_id[record.topic_id] = topic
                self.topics[record.name] = TopicIdentity(
                    record.topic_id,
                    topic.replicas,
                    topic.isr,
                    topic.directories,
                    topic.eligible,
                    topic.reassigned,
                )
            case PartitionRecord() | ReplicasRecord():
                what = "a partition" if isinstance(record, PartitionRecord) else "a change"
                self._change(self._topic(record.topic_id, what, place), record, place)
            case RemoveTopicRecord():
                name = self._topic(record.topic_id, "a removal", place).name
                del self._by_id[record.topic_id], self.topics[name]
                self.configs.pop(("topic", name), None)
            case ConfigRecord():
                self._configure(record, where, place)
            case FeatureLevelRecord():
                self._budget.take(_RECORD_BYTES + _TEXT_RATIO * len(record.name), place)
                self.features[record.name] = record.level
            case RegisterBrokerRecord():
                self._budget.take(
                    _RECORD_BYTES * (1 + len(record.features) + len(record.log_dirs)), place
                )
                self.supported[record.node_id] = record.features
                self.log_dirs[record.node_id] = record.log_dirs
            case MigrationRecord():
                self.migration = record

    def _topic(self, topic_id: str, what: str, place: str) -> _Topic:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise _senseless(f"{what} of topic id {topic_id}", "its creation", place)
        return topic

    def _change(self, topic: _Topic, record: PartitionRecord | ReplicasRecord, place: str) -> None:
        at = record.partition
        if at not in topic.ordered and at not in topic.isr and at not in topic.directories:
            self._budget.take(_RECORD_BYTES, place)
        if record.replicas is not None:
            nodes = self._shared.nodes(record.replicas, place)
            topic.ordered[at], topic.replicas[at] = nodes
            topic.directories.pop(at, None)
        if record.in_sync is not None:
            topic.isr[at] = self._shared.nodes(record.in_sync, place)[1]
        if record.eligible:
            topic.eligible[at] = self._shared.nodes(record.eligible, place)[1]
        elif record.eligible is not None:
            topic.eligible.pop(at, None)
        if record.directories is not None:
            ordered = topic.ordered.get(at, ())
            topic.directories[at] = self._shared.directories(ordered, record.directories, place)
        self._reassign(topic, record, place)

    def _reassign(
        self, topic: _Topic, record: PartitionRecord | ReplicasRecord, place: str
    ) -> None:
        at = record.partition
        old = topic.reassigned.pop(at, Reassignment())
        removing = old.removing if record.removing is None else record.removing
        adding = old.adding if record.adding is None else record.adding
        if removing or adding:
            nodes = (self._shared.nodes(ids, place)[0] for ids in (removing, adding))
            topic.reassigned[at] = Reassignment(*nodes)

    def _configure(self, record: ConfigRecord, where: str, place: str) -> None:
        name = record.resource_name
        if record.resource_type == TOPIC_RESOURCE:
            section = "topic", name
        elif record.resource_type != BROKER_RESOURCE:
            return
        elif not name:
            section = ALL_BROKERS
        elif _NODE_ID.fullmatch(name):
            section = "broker", name  # a broker compares texts: 01 is not its id 1
        else:
            raise _senseless(f"a setting of broker {name!r}", "a node id", place)
        configs = self.configs.setdefault(section, {})
        old = configs.pop(record.name, None) if record.value is None else configs.get(record.name)
        if old is not None:
            self._budget.give_back(_setting_bytes(name, record.name, old[0]))
        if record.value is not None:
            self._budget.take(_setting_bytes(name, record.name, record.value), place)
            configs[record.name] = record.value, where


def _setting_bytes(section: str, name: str, value: str) -> int:
    return _RECORD_BYTES + _TEXT_RATIO * (len(section) + len(name) + len(value))


def _senseless(what: str, expected: str, place: str) -> CorruptLogError:
    return CorruptLogError(
        f"the metadata log is invalid: {what}",
        expected=f"{expected} before",
        found="none",
        where=place,
    )
