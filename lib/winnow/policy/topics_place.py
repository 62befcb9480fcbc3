"""Whether a broker keeps its topics in ZooKeeper or, with KRaft, in the metadata log
(docs/reference/sources.md).

A broker with ZooKeeper writes `meta.properties` of version 0. While it migrates to KRaft it also
follows the metadata log, which stays if the migration is taken back. A broker with KRaft writes
version 1, but starts with version 0 and keeps it. So does every cluster that has migrated.
"""

from __future__ import annotations

from collections.abc import Collection

from winnow.policy.server_properties import KRAFT, ZOOKEEPER, ServerProperties


def why_on_zookeeper(
    server: ServerProperties | None,
    versions: Collection[int],
    *,
    is_anonymous: bool,
    has_left: bool,
) -> str | None:
    """Return why a broker does not use a metadata log, or may not. None if it uses one.

    `server`: its server.properties, if given. `versions`: of `meta.properties` in its log
    directories. `is_anonymous`: one of these files names no broker. `has_left`: a metadata log
    proves that the broker can't be on ZooKeeper.
    """
    mode = None if server is None else server.keeps_topics_in
    if server is not None and mode == ZOOKEEPER:
        return f"{server.file} has zookeeper.connect and no process.roles"
    if mode == KRAFT or 0 not in versions or has_left:
        return None
    if is_anonymous:
        return "meta.properties names no broker, so nothing shows that this log is the broker's"
    if set(versions) != {0}:
        return (
            "meta.properties has version 0 in one directory of the broker and version "
            f"{max(versions)} in another, so nothing shows whether its topics are in ZooKeeper"
        )
    return "meta.properties has version 0, so the broker keeps its topics in ZooKeeper"
