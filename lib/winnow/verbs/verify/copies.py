"""Who else has the records of a damaged partition, as the metadata log that counts says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from winnow.advice import Copies
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import METADATA_TOPIC, partitions_beneath
from winnow.start.copies import copies_of
from winnow.start.node_files import is_only_voter
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.verbs.verify.findings import Finding
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.sources import choice_of, log_dirs_of


def with_copies(
    storage: Storage, findings: Iterable[Finding], log_dirs: Sequence[str]
) -> Iterator[Finding]:
    """Yield the findings with `copies`. The metadata logs are read at the first one that needs it.

    `log_dirs`: all that were given.
    """
    replicas: _Replicas | None = None
    found = [*findings]
    for finding in found:
        if not (finding.kind.needs_copy or finding.kind in {Kind.METADATA, Kind.GONE}):
            yield finding
            continue
        replicas = replicas or _Replicas(storage, log_dirs, found)
        yield replace(finding, copies=replicas.copies_of(finding))


class _Replicas:
    def __init__(self, storage: Storage, paths: Sequence[str], findings: Sequence[Finding]) -> None:
        self._storage = storage
        log_dirs = log_dirs_of(storage, paths)
        self._metas = {log_dir.path: log_dir.meta for log_dir in log_dirs}
        self._metadata = choice_of(storage, log_dirs).metadata
        self._present: dict[tuple[str | None, int], set[TopicPartition]] = {}
        for path, meta in self._metas.items():
            if meta.node_id is not None:
                own = self._present.setdefault((meta.cluster_id, meta.node_id), set())
                with suppress(FAILS_ONE_PARTITION):
                    own |= partitions_beneath(entry.name for entry in storage.list_dir(path))
        self._damaged = {
            (self._metas[finding.log_dir].node_id, finding.topic, finding.partition)
            for finding in findings
            if finding.is_damage and finding.log_dir in self._metas
        }

    def _lost(self, topic: str, partition: int, cluster_id: str | None) -> set[int]:
        """Return the nodes that were given and have no sound replica."""
        return {
            node_id
            for (cluster, node_id), present in self._present.items()
            if cluster == cluster_id
            if TopicPartition(topic, partition) not in present
            or (node_id, topic, partition) in self._damaged
        }

    def copies_of(self, finding: Finding) -> Copies:
        meta = self._metas.get(finding.log_dir)
        if meta is None or not meta.version:  # ZooKeeper knows, and no file
            return Copies.UNKNOWN
        if finding.kind is Kind.METADATA or finding.topic == METADATA_TOPIC:
            directory = f"{finding.log_dir}/{METADATA_DIR}"
            alone = is_only_voter(self._storage, directory, meta.node_id)
            return Copies.UNKNOWN if alone is None else Copies.NONE if alone else Copies.OTHERS
        if finding.topic is None or finding.partition is None:
            return Copies.UNKNOWN
        topic = None if self._metadata is None else self._metadata.topics.get(finding.topic)
        lost = self._lost(finding.topic, finding.partition, meta.cluster_id)
        return copies_of(topic, finding.partition, meta.node_id, lost=lost)
