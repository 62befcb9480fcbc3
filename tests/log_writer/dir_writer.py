"""Write a whole log directory: several partitions, and the files that a cleanly stopped broker
leaves beside them.
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.log_writer.segment_writer import SegmentConfig
from tests.log_writer.writer import LogWriter
from winnow.errors import UsageError
from winnow.logdir.checkpoints import read_offset_checkpoint, update_offset_checkpoint
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.meta import read_meta
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    parse_partition_dir,
)
from winnow.state import TopicPartition
from winnow.storage.creating import ensure_directories
from winnow.storage.local import LocalStorage


class LogDirWriter:
    """A log directory, new or of a broker that is stopped, whose `.lock` is held until `close()`.

    with LogDirWriter("/logs", clock=lambda: 1_800_000_000_000) as log_dir:
        log_dir.partition("t", 0).append_records([Record(0, 1_800_000_000_000, b"key", b"value")])

    `node_id`, `cluster_id` and `directory_id` (base64url uuids) go to `meta.properties` if there is
    none; the last has a value derived from the others unless given. `clock`: ms since the epoch.
    Without the topics in the cluster's metadata a broker takes the partitions for strays;
    `__cluster_metadata-0` is not written here.

    While it is open, and after an error, there is no `.kafka_cleanshutdown`, as beside a running
    broker. Raises LogDirInUseError if the lock is held, UsageError if `meta.properties` is of
    another node or cluster.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], int],
        node_id: int = 1,
        cluster_id: str = "V2lubm93T3JhY2xlMDAwMQ",
        directory_id: str | None = None,
        broker_epoch: int = -1,
    ) -> None:
        self.path = os.path.realpath(path)
        self.high_watermarks: dict[TopicPartition, int] = {}
        """Where it is not the log end offset."""
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        """First dirty offsets to write to the cleaner's checkpoint."""
        self._clock = clock
        self._cluster_id = cluster_id
        self._storage = LocalStorage()
        self._broker_epoch = broker_epoch
        self._logs: dict[TopicPartition, LogWriter] = {}
        self._is_open = True
        ensure_directories(self.path)
        self._lock = lock_log_dir(self.path)
        try:
            self._identify(node_id, directory_id)
            self._log_starts = read_offset_checkpoint(
                self._storage, f"{self.path}/{LOG_START_CHECKPOINT}"
            )
            if self._storage.exists(self._marker):
                self._storage.unlink(self._marker)
        except BaseException:
            self._lock.close()
            raise

    def partition(
        self,
        topic: str,
        partition: int,
        config: SegmentConfig | None = None,
        *,
        topic_id: str | None = None,
        log_start_offset: int = 0,
        leader_epoch: int = 0,
    ) -> LogWriter:
        """The log of one partition; opened on first use, when the other arguments count, and closed
        with the directory.

        `log_start_offset`: of a new log, or to raise it. `topic_id` (base64url uuid): for all
        partitions of a topic the same one, derived from its name unless given.
        """
        key = TopicPartition(topic, partition)
        if key not in self._logs:
            if not parse_partition_dir(str(key)).has_legal_topic:
                raise UsageError(
                    "no topic can have this name",
                    expected="1 to 249 of a-z A-Z 0-9 . _ -",
                    found=repr(topic),
                )
            self._logs[key] = LogWriter(
                f"{self.path}/{key}",
                config,
                clock=self._clock,
                log_start_offset=max(log_start_offset, self._log_starts.get(key, 0)),
                leader_epoch=leader_epoch,
                topic_id=topic_id or _uuid(f"{self._cluster_id}/{topic}"),
            )
        return self._logs[key]

    def close(self) -> None:
        """Closes all logs, then writes the checkpoints and, last, the marker of a clean
        shutdown.
        """
        if self._close_logs():
            self._write_checkpoints()
            self._storage.create(
                self._marker, f'{{"version":0,"brokerEpoch":{self._broker_epoch}}}'.encode()
            )
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif self._close_logs():
            self._lock.close()

    @property
    def _marker(self) -> str:
        return f"{self.path}/{CLEAN_SHUTDOWN}"

    def _identify(self, node_id: int, directory_id: str | None) -> None:
        path = f"{self.path}/{META_PROPERTIES}"
        if self._storage.exists(path):
            meta = read_meta(self._storage, self.path)
            if (meta.node_id, meta.cluster_id) != (node_id, self._cluster_id):
                raise UsageError(
                    "a log directory of somebody else",
                    expected=f"node {node_id} of cluster {self._cluster_id}",
                    found=f"node {meta.node_id} of cluster {meta.cluster_id}",
                    where=path,
                )
            return
        directory = directory_id or _uuid(
            f"{self._cluster_id}/{node_id}{os.path.abspath(self.path)}"
        )
        lines = (
            "#",
            f"node.id={node_id}",
            f"directory.id={directory}",
            "version=1",
            f"cluster.id={self._cluster_id}",
        )
        self._storage.create(path, "".join(f"{line}\n" for line in lines).encode())

    def _close_logs(self) -> bool:
        """False if they were closed before."""
        was_open, self._is_open = self._is_open, False
        if was_open:
            for log in self._logs.values():
                log.close()
        return was_open

    def _write_checkpoints(self) -> None:
        ends = {key: log.log_end_offset for key, log in self._logs.items()}
        starts: dict[TopicPartition, int | None] = {
            key: log.log_start_offset if log.log_start_offset > log.segment_bases[0] else None
            for key, log in self._logs.items()
        }
        for name, offsets in (
            (RECOVERY_POINT_CHECKPOINT, ends),
            (HIGH_WATERMARK_CHECKPOINT, ends | self.high_watermarks),
            (LOG_START_CHECKPOINT, starts),
            (CLEANER_CHECKPOINT, self.cleaner_offsets),
        ):
            update_offset_checkpoint(self._storage, f"{self.path}/{name}", offsets)


def _uuid(name: str) -> str:
    """22 characters of base64url, as Kafka writes a uuid; the same ones for the same name."""
    return base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_URL, name).bytes).decode().rstrip("=")
