"""Write the checkpoints of a recovered log directory, and then the marker of a clean shutdown, as a
broker does when it stops (S8.9).

Every log is synced before this begins. Until the marker is there, a broker recovers the directory
again, from the recovery points that it finds. Snapshots that are not needed any more go last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from winnow.logdir.checkpoints import (
    read_offset_checkpoint,
    update_offset_checkpoint,
    write_checkpoint,
)
from winnow.logdir.files import remove_files
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
)
from winnow.logdir.survey import LogDir
from winnow.recovery.logs.values import LoadedLog, RecoveredLog
from winnow.state import TopicPartition
from winnow.storage.contract import Storage

MARKER = b'{"version":0,"brokerEpoch":-1}'
"""As a broker writes it, but with no broker's epoch. Recovery is skipped, and the controller still
treats the shutdown as unclean: acknowledged records may be lost (KIP-966).
"""


def finish_log_dir(
    storage: Storage, log_dir: LogDir, logs: Sequence[RecoveredLog], *, whole: bool
) -> None:
    """Write what is known of the recovered logs. `whole`: all logs of the directory are recovered.

    Only then the checkpoints lose the entries of other partitions, and the marker is written.
    """
    loaded = {
        log.topic_partition: log.loaded
        for log in logs
        if log.is_counted and log.error is None and log.loaded is not None
    }
    path = log_dir.path
    _bound_high_watermarks(storage, path, loaded)
    starts = {
        partition: log.log_start_offset if _is_told(log) else None
        for partition, log in loaded.items()
    }
    ends = {partition: log.log_end_offset for partition, log in loaded.items()}
    _write(storage, path, LOG_START_CHECKPOINT, starts, whole=whole)
    _write(storage, path, RECOVERY_POINT_CHECKPOINT, ends, whole=whole)
    if whole:
        _write_marker(storage, path)
    for log in logs:
        if log.error is None and log.loaded is not None:
            names = log.loaded.truncation.old_snapshots
            remove_files(storage, f"{path}/{log.name}", names)


def _is_told(log: LoadedLog) -> bool:
    """A broker writes a log start only if the segments don't show it."""
    return log.tiered or log.log_start_offset > log.first_base_offset


def _bound_high_watermarks(
    storage: Storage, path: str, loaded: Mapping[TopicPartition, LoadedLog]
) -> None:
    """Move each high watermark into its log, as a broker does when it starts."""
    file = f"{path}/{HIGH_WATERMARK_CHECKPOINT}"
    before = read_offset_checkpoint(storage, file)
    update_offset_checkpoint(
        storage,
        file,
        {
            partition: max(log.log_start_offset, min(before[partition], log.log_end_offset))
            for partition, log in loaded.items()
            if partition in before
        },
    )


def _write(
    storage: Storage,
    path: str,
    name: str,
    offsets: Mapping[TopicPartition, int | None],
    *,
    whole: bool,
) -> None:
    file = f"{path}/{name}"
    if not whole:
        update_offset_checkpoint(storage, file, offsets)
        return
    lines = [
        f"{partition.topic} {partition.partition} {offset}"
        for partition, offset in offsets.items()
        if offset is not None
    ]
    write_checkpoint(storage, file, lines, attributes_of=f"{path}/{META_PROPERTIES}")


def _write_marker(storage: Storage, path: str) -> None:
    marker = f"{path}/{CLEAN_SHUTDOWN}"
    if storage.exists(marker):
        storage.unlink(marker)
    storage.create(marker, MARKER)
    storage.copy_attributes(f"{path}/{META_PROPERTIES}", marker)
    storage.fsync_file(marker)
    storage.fsync_dir(path)
