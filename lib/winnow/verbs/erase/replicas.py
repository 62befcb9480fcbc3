"""All replicas of the partitions of an erasure, on all brokers, as the metadata log names them.

The metadata log is that of the given log directories: it is as old as the last moment at which this
node followed the controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.state import Reassignment, TopicPartition

if TYPE_CHECKING:
    from winnow.logdir.survey import LogDir
    from winnow.policy.metadata import MetadataSettings

_NO_LOG = (
    "no metadata log is here. With KRaft, also give the log directory with __cluster_metadata-0. "
    "With ZooKeeper, `kafka-topics.sh --describe` lists the replicas"
)


@dataclass(frozen=True, slots=True)
class AssignedReplica:
    node_id: int
    directory_id: str | None = None
    """`directory.id` of its log directory. None: the controller does not know it."""
    log_dir: str | None = None
    """Its log directory, if this run was given it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedPartition:
    topic: str
    partition: int
    replicas: tuple[AssignedReplica, ...]
    """By node id. Empty: unknown."""
    reassignment: Reassignment | None = None
    """A reassignment in progress."""
    records: int | None = None
    """Records with one of the keys in the replica in these log directories. None: not searched."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    node_id: int | None = None
    """The broker of these log directories."""
    metadata_log: str | None = None
    """Its name and the offset it ends at."""
    written_at: int = -1
    """Time of its last record, in ms; -1 if unknown."""
    partitions: tuple[ReplicatedPartition, ...] = ()
    problem: str | None = None
    """Why the replicas are unknown."""

    @property
    def per_broker(self) -> Mapping[int, int]:
        """Node id -> number of replicas, in the order in which the brokers are erased: the broker
        of these log directories first.
        """
        counts = Counter(replica.node_id for p in self.partitions for replica in p.replicas)
        return {node: counts[node] for node in sorted(counts, key=lambda n: (n != self.node_id, n))}

    @property
    def other_brokers(self) -> tuple[int, ...]:
        return tuple(node for node in self.per_broker if node != self.node_id)

    @property
    def reassigned(self) -> tuple[ReplicatedPartition, ...]:
        return tuple(p for p in self.partitions if p.reassignment is not None)

    @property
    def missing(self) -> tuple[ReplicatedPartition, ...]:
        """The partitions whose replica on this broker is in none of these log directories."""
        return tuple(
            p
            for p in self.partitions
            if any(r.node_id == self.node_id and r.log_dir is None for r in p.replicas)
        )


def find_replicas(
    known: MetadataSettings | None,
    log_dirs: Sequence[LogDir],
    wants: Callable[[str], bool],
    records: Mapping[TopicPartition, int],
) -> Replicas:
    """Return the replicas of all partitions of the topics that `wants` accepts. `known`: the
    metadata log, None if there is none. `records`: how many records with one of the keys the
    partitions in `log_dirs` have, as far as they were searched.
    """
    own = [log_dir for log_dir in log_dirs if not log_dir.in_doubt]
    node_id = next((d.meta.node_id for d in own if d.meta.node_id is not None), None)
    if known is None or known.problem is not None:
        return Replicas(node_id=node_id, problem=_NO_LOG if known is None else known.problem)
    homes = {at: log_dir.path for log_dir in own for at in log_dir.partitions}
    partitions = []
    for topic, identity in sorted(known.topics.items()):
        if not wants(topic):
            continue
        for partition, nodes in sorted(identity.replicas.items()):
            at = TopicPartition(topic, partition)
            ids = identity.directories.get(partition, {})
            replicas = tuple(
                AssignedReplica(node, ids.get(node), homes.get(at) if node == node_id else None)
                for node in sorted(nodes)
            )
            partitions.append(
                ReplicatedPartition(
                    topic=topic,
                    partition=partition,
                    replicas=replicas,
                    reassignment=identity.reassigned.get(partition),
                    records=records.get(at),
                )
            )
    return Replicas(
        node_id=node_id,
        metadata_log=known.log,
        written_at=known.written_at,
        partitions=tuple(partitions),
    )
