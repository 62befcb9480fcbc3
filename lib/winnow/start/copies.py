"""Who else has the records of a partition, as the metadata log says."""

from __future__ import annotations

from winnow.advice import Copies
from winnow.state import TopicIdentity


def copies_of(topic: TopicIdentity | None, partition: int, node_id: int | None) -> Copies:
    """`topic`: None if the metadata log has no such topic."""
    nodes = None if topic is None else topic.replicas.get(partition)
    if topic is None or not nodes or node_id not in nodes:
        return Copies.UNKNOWN
    if len(nodes) == 1:
        return Copies.NONE
    in_sync = topic.in_sync.get(partition)
    if not in_sync:
        return Copies.UNKNOWN
    return Copies.OTHERS if in_sync - {node_id} else Copies.BEHIND
