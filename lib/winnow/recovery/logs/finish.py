"""Write the checkpoints of a recovered log directory, and then the marker of a clean shutdown, as a
broker does when it stops (S8.9). The marker is for a directory on which a broker starts.

Every log is synced before this begins. Until the marker is there, a broker recovers the directory
again, from the recovery points that it finds. Snapshots that are not needed any more go last.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from winnow.errors import FAILS_ONE_PARTITION
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
from winnow.recovery.logs.values import RecoveredLog
from winnow.storage.contract import Storage

MARKER = b'{"version":0,"brokerEpoch":-1}'
"""As a broker writes it, but with no broker's epoch. Recovery is skipped, and the controller still
treats the shutdown as unclean: acknowledged records may be lost (KIP-966).
"""


def finish_log_dir(
    storage: Storage, log_dir: LogDir, logs: Sequence[RecoveredLog], *, whole: bool
) -> None:
    """Write what is known of the recovered logs into the checkpoints. `whole`: all logs of the
    directory are recovered. Only then the checkpoints lose the entries of other partitions.
    """
    path, own = log_dir.path, f"{log_dir.path}/{META_PROPERTIES}"
    sound = [(log, log.loaded) for log in logs if log.error is None and log.loaded is not None]
    loaded = {log.topic_partition: one for log, one in sound if log.is_counted}
    # Each high watermark moves into its log, as when a broker starts.
    watermarks = f"{path}/{HIGH_WATERMARK_CHECKPOINT}"
    highs = {
        partition: max(
            loaded[partition].log_start_offset, min(high, loaded[partition].log_end_offset)
        )
        for partition, high in read_offset_checkpoint(storage, watermarks).items()
        if partition in loaded
    }
    update_offset_checkpoint(storage, watermarks, highs)
    starts = {partition: one.log_start_to_write for partition, one in loaded.items()}
    ends = {partition: one.log_end_offset for partition, one in loaded.items()}
    for name, offsets in ((LOG_START_CHECKPOINT, starts), (RECOVERY_POINT_CHECKPOINT, ends)):
        if whole:
            lines = [f"{p.topic} {p.partition} {o}" for p, o in offsets.items() if o is not None]
            write_checkpoint(storage, f"{path}/{name}", lines, attributes_of=own)
        else:
            update_offset_checkpoint(storage, f"{path}/{name}", offsets)


def write_marker(storage: Storage, path: str) -> None:
    """Write the marker of a clean shutdown."""
    marker = f"{path}/{CLEAN_SHUTDOWN}"
    if storage.exists(marker):
        storage.unlink(marker)
    storage.create(marker, MARKER)
    storage.copy_attributes(f"{path}/{META_PROPERTIES}", marker)
    storage.fsync_file(marker)
    storage.fsync_dir(path)


def remove_marker(storage: Storage, path: str) -> None:
    """Remove the marker, if it can be removed."""
    with suppress(FAILS_ONE_PARTITION):
        storage.unlink(f"{path}/{CLEAN_SHUTDOWN}")
        storage.fsync_dir(path)


def remove_old_snapshots(storage: Storage, path: str, logs: Sequence[RecoveredLog]) -> None:
    for log in logs:
        if log.error is None and log.loaded is not None:
            snapshots = log.loaded.truncation.old_snapshots
            remove_files(storage, f"{path}/{log.name}", snapshots)
