"""What is in the way of a broker: strangers in a log directory, partitions that have several
directories, and log directories in doubt (S1.1, S1.3, S1.11). Each concerns only itself.

A log directory is in doubt if it was given together with others, but it is not certain that it is
of the same broker. It is never locked or changed, and its files are not read. The names of its
partitions are, for one of them may be in another directory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from winnow.errors import FAILS_ONE_PARTITION, UsageError, WinnowError
from winnow.logdir.meta import MetaProperties
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    METADATA_TOPIC,
    topic_partition_of,
)
from winnow.state import TopicPartition
from winnow.storage.contract import Entry, Storage


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
            else "takes the log directory offline, for it can't remove it"
            if self.name == CLEAN_SHUTDOWN
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


def cluster_of(metas: Sequence[MetaProperties], *, to_change: bool) -> str | None:
    """Return the cluster that most of the directories name, None if none names any. Of equally
    many, the first one counts, which is too little to change anything: with `to_change`, raises
    UsageError.
    """
    clusters = Counter(meta.cluster_id for meta in metas if meta.cluster_id is not None)
    found = clusters.most_common(2)
    if to_change and len(found) == 2 and found[0][1] == found[1][1]:
        raise UsageError(
            "log directories of different cluster.id, and none of them is the one of most",
            expected="the directories of one cluster",
            found=f"{found[0][0]} and {found[1][0]}",
            hint="Work on the brokers of one cluster at a time.",
        )
    return found[0][0] if found else None


def of_another_cluster(path: str, meta: MetaProperties, cluster: str) -> UsageError:
    return UsageError(
        "a log directory of another cluster than the others",
        expected=f"cluster.id {cluster}",
        found=cluster_words(meta.cluster_id),
        where=f"{path}/{META_PROPERTIES}",
        hint="It is left alone. Give the directories of one cluster.",
    )


def cluster_words(cluster_id: str | None) -> str:
    """Return a cluster.id so that a space at its end is seen."""
    text = cluster_id or "none"
    return text if text == text.rstrip() else f"{text!r}, with a space at its end"


def without_owner(path: str) -> UsageError:
    return UsageError(
        "a log directory without an owner",
        expected="node.id and cluster.id, as the others have them",
        found="neither",
        where=f"{path}/{META_PROPERTIES}",
        hint="It is left alone. Is the file damaged? Restore it.",
    )


def why_in_doubt(error: WinnowError | OSError, path: str) -> UsageError:
    """Return the reason as an error that can be kept."""
    if isinstance(error, WinnowError):
        return error.like(UsageError)
    return UsageError(
        "a log directory can't be read",
        expected="a directory that this user may list and read",
        found=error.strerror,
        where=path,
    )


def meta_of_others(metas: Sequence[MetaProperties]) -> MetaProperties:
    """Return what is taken for the `meta.properties` of a directory in doubt: it was given with the
    others, so it is taken for another directory of their node, if they have the same node.
    """
    nodes = {meta.node_id for meta in metas}
    node_id = nodes.pop() if len(nodes) == 1 else None
    return replace(metas[0], node_id=node_id, directory_id=None)


def partitions_named(storage: Storage, path: str) -> tuple[TopicPartition, ...]:
    """Return the partitions with a directory there. None if it can't be listed."""
    try:
        entries = storage.list_dir(path)
    except FAILS_ONE_PARTITION:
        return ()
    named = [topic_partition_of(entry.name) for entry in entries if entry.is_dir]
    return tuple(sorted(one for one in named if one is not None and one.topic != METADATA_TOPIC))


def in_place_of_partitions(
    entries: Iterable[Entry], partitions: Iterable[TopicPartition], named: Container[TopicPartition]
) -> Iterator[Stranger]:
    """Yield files and links that have the name of a partition of the broker.

    A file with a date in its name, such as `kafka.log.2026-11-28`, also looks like a partition. So
    the name counts only if the partition is in `named`, which are those of the checkpoints, or if
    `partitions`, those of the log directory, have its topic.
    """
    topics = {topic_partition.topic for topic_partition in partitions}
    for entry in entries:
        topic_partition = topic_partition_of(entry.name)
        if topic_partition is None or entry.name != str(topic_partition):
            continue
        if topic_partition.topic in topics or topic_partition in named:
            what = "a link that leads to no directory" if entry.is_link else "no directory"
            found = f"{what}, but has the name of a partition"
            yield Stranger(entry.name, found, stops_broker=False)
