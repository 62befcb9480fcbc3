"""Entries of a log directory that are in the way of its broker: strangers, and partitions that have
several directories (S1.1, S1.11). Each concerns a name or a partition, never the other partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from winnow.state import TopicPartition


@dataclass(frozen=True, slots=True)
class Stranger:
    """An entry of a log directory that its broker did not make."""

    name: str
    found: str
    """What it is, in words."""
    stops_broker: bool
    """A broker does not start on the log directory. If False, a broker that has this partition
    takes the log directory offline.
    """

    def words(self, log_dir: str) -> str:
        """Return what it is, what a broker does, and what to do."""
        does = (
            'does not start on this log directory ("not in the form of topic-partition")'
            if self.stops_broker
            else "that has this partition takes the log directory offline"
        )
        return f"{log_dir}/{self.name} is {self.found}: a broker {does}. Move it elsewhere"


@dataclass(frozen=True, slots=True)
class Copy:
    """One of several directories of the same partition, all of one broker."""

    log_dir: str
    name: str
    """The name of the directory. A broker reads `t-007` as t-7."""
    directory_id: str | None
    """`directory.id` of the log directory."""
    log_start_checkpoint: int

    @property
    def path(self) -> str:
        return f"{self.log_dir}/{self.name}"


def duplicates_of(
    found: Iterable[tuple[int | None, TopicPartition, Copy]],
) -> dict[tuple[int | None, TopicPartition], tuple[Copy, ...]]:
    """Return the partitions that have several directories on one node.

    `found`: the node id, the partition and the directory of every replica.
    """
    homes = defaultdict[tuple[int | None, TopicPartition], list[Copy]](list)
    for node_id, topic_partition, copy in found:
        homes[node_id, topic_partition].append(copy)
    return {home: tuple(copies) for home, copies in homes.items() if len(copies) > 1}
