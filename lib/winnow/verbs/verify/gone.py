"""Partitions whose directory is gone: the metadata log expects them on a node, and the node has
none. What a checkpoint says of such a partition is a trace of the loss.

A healthy node may lack a directory, too: of a topic that was just created or deleted, of a replica
that is being added or moved. So a partition counts as gone only where the newest metadata log that
was given has a replica of it on the node, and either a checkpoint has an offset above 0 of it, or
the node was in sync and had reported the log directory with the replica, which was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from winnow.logdir.copies import renamed_copies, words_of_renamed
from winnow.logdir.metadata import ClusterMetadata
from winnow.logdir.names import HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from winnow.logdir.survey import LogDir
from winnow.logdir.topic_globs import is_wanted
from winnow.state import TopicIdentity, TopicPartition
from winnow.storage.contract import Storage
from winnow.storage.live.read_view import view_of
from winnow.verbs.verify.directories import LogDirCheck
from winnow.verbs.verify.findings import Finding, Scope
from winnow.verbs.verify.kinds import Kind

_TRACES = (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT)


def gone_directories(
    storage: Storage,
    checked: Mapping[str, LogDirCheck],
    log_dirs: Sequence[LogDir],
    metadata: ClusterMetadata | None,
    cluster_id: str | None,
    *,
    topics: Sequence[str],
) -> Iterator[Finding]:
    """Yield a finding for each partition of a node whose directory is gone.

    `checked`: by path. `metadata`: the newest of the cluster `cluster_id`. `topics`: globs; empty
    means all topics.
    """
    if metadata is None:
        return
    by_node: dict[int, list[LogDir]] = {}
    for log_dir in log_dirs:
        meta = log_dir.meta
        if meta.node_id is not None and meta.version > 0 and meta.cluster_id == cluster_id:
            by_node.setdefault(meta.node_id, []).append(log_dir)
    for node_id, own in by_node.items():
        if any(view_of(log_dir.path) is not None for log_dir in own):
            continue  # a broker makes and removes directories while it runs
        present = {at for log_dir in own for at in checked[log_dir.path].present}
        renamed = renamed_copies(storage, [log_dir.path for log_dir in own])
        for name, topic in metadata.topics.items():
            for partition, nodes in topic.replicas.items():
                at = TopicPartition(name, partition)
                if node_id in nodes and at not in present and is_wanted(name, topics):
                    words = words_of_renamed(str(at), renamed.get((topic.topic_id, partition), ()))
                    for found in _gone(at, topic, node_id, own, checked, metadata):
                        yield replace(found, message=f"{found.message}{words}")


def _gone(
    at: TopicPartition,
    topic: TopicIdentity,
    node_id: int,
    own: Sequence[LogDir],
    checked: Mapping[str, LogDirCheck],
    metadata: ClusterMetadata,
) -> Iterator[Finding]:
    registered = metadata.log_dirs.get(node_id, ())
    meant = topic.directories.get(at.partition, {}).get(node_id)
    given = {log_dir.meta.directory_id: log_dir.path for log_dir in own}
    all_given = bool(registered) and {*registered} <= given.keys()
    if meant not in given and (meant is not None or not all_given):
        return  # it may be in a log directory that was not given
    for log_dir in own:
        checkpoints = checked[log_dir.path].checkpoints
        for name in _TRACES:
            offset = checkpoints.get(name, {}).get(at, 0)
            if offset > 0:
                found = f"found none, and offset {offset} of it in {name}"
                yield _finding(log_dir.path, at, f"{found}: its directory is lost", offset)
                return
    # With one log directory, the controller knows it before the broker has made the replica.
    if meant in given and len(registered) > 1 and node_id in topic.in_sync_of(at.partition):
        yield _finding(given[meant], at, "found none, although this node was in sync", None)


def _finding(log_dir: str, at: TopicPartition, found: str, end: int | None) -> Finding:
    scope = Scope(log_dir, str(at), at.topic, at.partition)
    what = f"expected a directory, for the metadata log has a replica on this node, {found}"
    offsets = (None, None) if end is None else (0, end - 1)
    return scope.finding(Kind.GONE, "", what, offsets=offsets)
