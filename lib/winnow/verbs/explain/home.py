"""Find the log directory that holds a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from winnow.errors import UsageError
from winnow.logdir.listing import LogDir
from winnow.logdir.names import parse_partition_dir


def home_of(dirs: Sequence[LogDir], partition: str) -> LogDir:
    """Return the log directory that holds the partition, as if it held only this one."""
    _check_not_a_topic(dirs, partition)
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


def _check_not_a_topic(dirs: Sequence[LogDir], name: str) -> None:
    numbers = sorted(p.partition for d in dirs for p in d.partitions if p.topic == name)
    if not numbers:
        return
    names = f"{name}-{numbers[0]}"
    if len(numbers) > 1:
        names += f" to {name}-{numbers[-1]}"
    raise UsageError(
        f"{name} is a topic, not a partition",
        expected="TOPIC-PARTITION",
        found=name,
        hint=f"Its partitions are {names}." if len(numbers) > 1 else f"Its partition is {names}.",
    )
