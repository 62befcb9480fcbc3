"""Topic ids in the logs of a broker with ZooKeeper. Only ZooKeeper knows which of them count, but
ids that contradict each other can't all be right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from winnow.errors import CorruptLogError
from winnow.logdir.names import PARTITION_METADATA, DirectoryKind
from winnow.start.loaded import LogToLoad
from winnow.start.small_files import topic_id_or_problem
from winnow.start.values import Fate, LogStart
from winnow.storage.contract import Storage, read_if_there
from winnow.words import first_few

_SHOWN = 3


def with_topic_ids(
    storage: Storage, logs: Sequence[LogToLoad], starts: Sequence[LogStart]
) -> Iterator[LogStart]:
    """Yield what a start does with each log. It is unknown if the topic id is also that of another
    topic, or if the topic has several: a broker serves no partition with another topic id than
    ZooKeeper has. `logs`: all of the broker. `starts`: of those that were looked at.
    """
    ids = {
        (log.log_dir, log.name): topic_id
        for log in logs
        if log.kind is DirectoryKind.CURRENT
        and (topic_id := _topic_id(storage, log.directory)) is not None
    }
    topics, ids_of = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for log in logs:
        if topic_id := ids.get((log.log_dir, log.name)):
            topics[topic_id].add(log.topic_partition.topic)
            ids_of[log.topic_partition.topic].add(topic_id)
    for start in starts:
        topic, own = start.topic_partition.topic, ids.get((start.log_dir, start.name))
        others = topics[own] - {topic} if own is not None else set[str]()
        several = own is not None and len(ids_of[topic]) > 1
        if not start.fate.is_harmless or not (others or several):
            yield start
            continue
        words = "the directories of its topic have several topic ids"
        if others:
            words = f"its topic id is also that of {first_few(sorted(others), _SHOWN)}"
        words += ": the broker serves only those with the id that ZooKeeper has"
        yield replace(start, fate=Fate.UNKNOWN, reason=words)


def _topic_id(storage: Storage, directory: str) -> str | None:
    with suppress(OSError, CorruptLogError):  # the log has that as its fate
        data = read_if_there(storage, f"{directory}/{PARTITION_METADATA}")
        topic_id = None if data is None else topic_id_or_problem(data)
        return topic_id if isinstance(topic_id, str) else None
    return None
