"""Partitions that have no directory, several, or one of another topic: what that means for the
broker as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from winnow.logdir.names import DirectoryKind
from winnow.logdir.survey import LogDir
from winnow.start.beside import partitions_in
from winnow.start.loaded import LogToLoad
from winnow.start.named import Named
from winnow.start.values import Fate, KnownTopics, LogStart
from winnow.storage.contract import Storage
from winnow.words import first_few

_MOST = 5


def made_anew(
    storage: Storage,
    node_id: int | None,
    log_dirs: Sequence[LogDir],
    logs: Sequence[LogToLoad],
    topics: KnownTopics,
    named: Named,
) -> list[str]:
    """Return the partitions whose only replica this broker has, and no directory for. That is known
    only if its server.properties names its log directories, and all of them can be listed.
    """
    given = {log_dir.path for log_dir in log_dirs}
    beside = [partitions_in(storage, path) for path in named.log_dirs if path not in given]
    in_doubt = any(log_dir.in_doubt for log_dir in log_dirs)
    if not named.log_dirs or named.unclear or in_doubt or None in beside:
        return []
    found = {
        (log.topic_partition.topic, log.topic_partition.partition)
        for log in logs
        if log.kind in {DirectoryKind.CURRENT, DirectoryKind.FUTURE}
    }
    found |= {(at.topic, at.partition) for listed in beside for at in listed or ()}
    return sorted(
        f"{topics.names[topic_id]}-{partition}"
        for topic_id, partitions in (topics.replicas or {}).items()
        for partition, nodes in partitions.items()
        if nodes == {node_id} and (topics.names[topic_id], partition) not in found
    )


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
