"""Find the log directory that holds a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from winnow.errors import UsageError
from winnow.logdir.listing import LogDir
from winnow.logdir.names import parse_partition_dir


def home_of(dirs: Sequence[LogDir], partition: str) -> LogDir:
    """Return the log directory that holds the partition, as if it held only this one."""
    wanted = parse_partition_dir(partition).topic_partition
    for log_dir in dirs:
        if wanted is not None and wanted in log_dir.partitions:
            return replace(log_dir, partitions=(wanted,))
        for skipped in log_dir.skipped:
            if skipped.name == partition:
                raise UsageError(
                    f"{partition} is never cleaned: {skipped.why}",
                    where=log_dir.path,
                    hint="`plan` lists the partitions that can be cleaned.",
                )
    where = ", ".join(log_dir.path for log_dir in dirs)
    raise UsageError(
        "no such partition", found=partition, where=where, hint="`plan` lists all partitions."
    )
