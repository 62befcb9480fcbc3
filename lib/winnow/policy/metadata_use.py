"""Whether a broker keeps its topics in ZooKeeper or, with KRaft, in the metadata log
(docs/reference/sources.md).

A broker with ZooKeeper writes `meta.properties` of version 0. While it migrates to KRaft it also
follows the metadata log, which stays if the migration is taken back. A broker with KRaft writes
version 1, but starts with version 0 and keeps it. So does every cluster that has migrated.
"""

from __future__ import annotations

from collections.abc import Sequence

from winnow.logdir.meta import MetaProperties
from winnow.logdir.metadata import METADATA_VERSION, ClusterMetadata
from winnow.policy.known_version import never_with_zookeeper
from winnow.policy.server_properties import KRAFT, ZOOKEEPER, ServerProperties
from winnow.wire.metadata_records import MigrationRecord


def why_on_zookeeper(
    server: ServerProperties | None,
    metas: Sequence[MetaProperties],
    logs: Sequence[ClusterMetadata],
) -> str | None:
    """Return why a broker does not use a metadata log, or may not. None if it uses one.

    `server`: its server.properties, if given. `metas`: those of its log directories. `logs`: the
    metadata logs beside them, also those of other nodes.
    """
    mode = None if server is None else server.keeps_topics_in
    if server is not None and mode == ZOOKEEPER:
        return f"{server.file} has zookeeper.connect and no process.roles"
    versions = {meta.version for meta in metas}
    if mode == KRAFT or 0 not in versions:
        return None
    if any(_has_left_zookeeper(log, meta.node_id) for log in logs for meta in metas):
        return None
    if any(meta.is_anonymous for meta in metas):
        return "meta.properties names no broker, so nothing shows that this log is the broker's"
    if versions != {0}:
        return (
            "meta.properties has version 0 in one directory of the broker and version "
            f"{max(versions)} in another, so nothing shows whether its topics are in ZooKeeper"
        )
    return "meta.properties has version 0, so the broker keeps its topics in ZooKeeper"


def _has_left_zookeeper(log: ClusterMetadata, node_id: int | None) -> bool:
    """Return whether a log proves that this broker can't be on ZooKeeper: the migration was
    finished, or the broker was started with a version that has no ZooKeeper.
    """
    if log.migration is MigrationRecord.POST_MIGRATION:
        return True
    supported = {} if node_id is None else log.supported.get(node_id, {})
    return never_with_zookeeper(supported.get(METADATA_VERSION, 0))
