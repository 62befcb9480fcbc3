"""Which log directory the controller means for a partition, for verbs without settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from winnow.logdir.metadata import ClusterMetadata
from winnow.logdir.survey import LogDir
from winnow.policy.sources import Settings
from winnow.start.metadata_choice import choose_metadata
from winnow.state import TopicPartition
from winnow.storage.contract import Storage


class Assigned:
    """Reads the metadata log that counts at the first question."""

    def __init__(self, storage: Storage, log_dirs: Callable[[], Sequence[LogDir]]) -> None:
        self._storage, self._log_dirs = storage, log_dirs
        self._read: tuple[ClusterMetadata | None] | None = None

    def directory_of(self, at: TopicPartition, node_id: int | None) -> str | None:
        """Return the `directory.id`, None if it is unknown."""
        if self._read is None:
            choice = choose_metadata(Settings(), self._storage, self._log_dirs())
            self._read = (choice.metadata,)
        [metadata] = self._read
        topic = None if metadata is None else metadata.topics.get(at.topic)
        if topic is None or node_id is None:
            return None
        return topic.directories.get(at.partition, {}).get(node_id)
