"""Which nodes have a partition, as the metadata log says."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from winnow.advice import Copies
from winnow.logdir.survey import LogDir
from winnow.policy.sources import Settings
from winnow.state import TopicIdentity, TopicPartition


def copies_known(
    key: TopicPartition,
    settings: Settings,
    log_dirs: Sequence[LogDir],
    node_id: int | None,
    *,
    lost: Collection[int] = (),
) -> Copies:
    """`settings`: with the metadata log that counts. `lost`: nodes that were given and have no
    sound replica.
    """
    if settings.metadata is None or not any(log_dir.meta.version > 0 for log_dir in log_dirs):
        return Copies.UNKNOWN
    return copies_of(settings.metadata.topics.get(key.topic), key.partition, node_id, lost=lost)


def copies_of(
    topic: TopicIdentity | None,
    partition: int,
    node_id: int | None,
    *,
    lost: Collection[int] = (),
) -> Copies:
    """`topic`: None if the metadata log has no such topic. `lost`: nodes that were given and have
    no sound replica.
    """
    nodes = None if topic is None else topic.replicas.get(partition)
    if topic is None or not nodes or node_id not in nodes:
        return Copies.UNKNOWN
    if len(nodes) == 1:
        return Copies.NONE
    in_sync = topic.in_sync_of(partition)
    if not in_sync:
        return Copies.UNKNOWN
    others = in_sync - {node_id}
    if not others:
        return Copies.BEHIND
    return Copies.OTHERS if others - {*lost} else Copies.DAMAGED
