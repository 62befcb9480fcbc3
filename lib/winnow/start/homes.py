"""Partitions that have no directory, several, or one of another topic: what that means for the
broker as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from winnow.logdir.names import DirectoryKind
from winnow.logdir.survey import LogDir
from winnow.start.beside import partitions_in, registered_besides
from winnow.start.loaded import LogToLoad
from winnow.start.named import Named
from winnow.start.values import Fate, KnownTopics, LogStart
from winnow.storage.contract import Storage
from winnow.words import first_few

_MOST = 5


@dataclass(frozen=True, slots=True)
class WithoutDirectory:
    """Partitions whose only replica is on this broker, and that have no directory. At most one of
    the two is set.
    """

    made_anew: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Nothing shows whether the broker has other log directories."""

    @property
    def fate(self) -> Fate:
        """That of the broker, which starts anyway: see `BrokerStart.is_safe`."""
        return Fate.UNKNOWN if self.unknown else Fate.LOADS

    def words(self) -> Iterator[str]:
        what = "no directory, and no other node has a replica"
        if self.made_anew:
            yield (
                f"{first_few(self.made_anew, _MOST)}: {what}. The broker makes it anew, without a "
                "record"
            )
        if self.unknown:
            yield (
                f"{first_few(self.unknown, _MOST)}: {what}. Nothing shows whether the broker has "
                "log directories besides those that were given. If it has not, it makes such a "
                "partition anew, without a record. Give all of its log directories, and its "
                "--server-properties FILE"
            )


def without_directory(
    storage: Storage,
    node_id: int | None,
    log_dirs: Sequence[LogDir],
    logs: Sequence[LogToLoad],
    topics: KnownTopics,
    named: Named,
    *,
    offline: Collection[str],
) -> WithoutDirectory:
    """Return the partitions whose only replica this broker has, and no directory for.

    What the broker does is known only if it is known which log directories it has, and all of them
    can be listed: its server.properties names them, or the metadata log has the `directory.id` of
    each (`_are_all`). With log directories that are `offline`, a broker makes a partition anew if
    the controller means one that is not (`Partition.createLogInAssignedDirectoryId`).
    """
    given = {log_dir.path for log_dir in log_dirs}
    beside = [partitions_in(storage, path) for path in named.log_dirs if path not in given]
    found = {
        (log.topic_partition.topic, log.topic_partition.partition)
        for log in logs
        if log.kind in {DirectoryKind.CURRENT, DirectoryKind.FUTURE}
    }
    found |= {(at.topic, at.partition) for listed in beside for at in listed or ()}
    lost = {log_dir.path for log_dir in log_dirs if log_dir.in_doubt or log_dir.path in offline}
    usable = {one.meta.directory_id for one in log_dirs if one.path not in lost} - {None}
    missing = tuple(
        sorted(
            f"{topics.names[topic_id]}-{partition}"
            for topic_id, partitions in (topics.replicas or {}).items()
            for partition, nodes in partitions.items()
            if nodes == {node_id} and (topics.names[topic_id], partition) not in found
            if not lost or _meant(topics, topic_id, partition, node_id) in usable
        )
    )
    registered = () if node_id is None else topics.log_dirs.get(node_id, ())
    if named.unclear or None in beside:
        return WithoutDirectory()  # `unseen` has them
    if named.log_dirs or _are_all(log_dirs, registered):
        return WithoutDirectory(made_anew=missing)
    others = registered_besides(log_dirs, registered)
    return WithoutDirectory(unknown=() if others else missing)  # `unseen` has the others


def _are_all(log_dirs: Sequence[LogDir], registered: Sequence[str]) -> bool:
    """Return whether these are all the log directories with which the broker started last."""
    return bool(registered) and {*registered} <= {one.meta.directory_id for one in log_dirs}


def _meant(topics: KnownTopics, topic_id: str, partition: int, node_id: int | None) -> str | None:
    """Return the `directory.id` that the controller means."""
    meant = topics.directories.get(topic_id, {}).get(partition, {})
    return None if node_id is None else meant.get(node_id)


def doubled_in(logs: Sequence[LogToLoad]) -> list[str]:
    """Return why the broker does not start: partitions in two of its directories. `logs`: without
    those that it sets aside before it compares.
    """
    current = [log for log in logs if log.kind is DirectoryKind.CURRENT]
    counts = Counter(log.topic_partition for log in current)
    return [
        f"{partition} is in {count} directories: "
        + " and ".join(log.directory for log in current if log.topic_partition == partition)
        for partition, count in counts.items()
        if count > 1
    ]


def without_leader(starts: Iterable[LogStart]) -> str | None:
    """Return why partitions may have no leader whose own logs are sound, or None.

    A broker makes leaders one after the other, in the order of a hash. At a log with the id of
    another topic it ends with that ("Tried to assign topic ID"), so later ones never come.
    """
    names = [start.name for start in starts if start.fate is Fate.NOT_SERVED]
    if not names:
        return None
    return (
        f'at {first_few(names, _MOST)} the broker gives up making leaders ("Tried to assign topic '
        'ID ... to log"): other partitions that it leads stay without a leader, too, possibly all'
    )
