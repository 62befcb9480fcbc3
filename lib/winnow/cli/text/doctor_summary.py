"""The line of `doctor --summary`, and what is said about a disk."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from winnow.words import counted, moment, size

if TYPE_CHECKING:
    from winnow.metrics.growth import Growth
    from winnow.verbs.doctor.values import Diagnosis, Disk


def summary(found: Diagnosis, growth: Sequence[Growth]) -> str:
    """Return the diagnosis in one line, for a mail or a chat."""
    many = counted(sum(topic.partitions for topic in found.topics), "partition")
    total = size(sum(disk.log_bytes for disk in found.disks))
    parts = [f"doctor: {many}, {total} of logs"]
    parts += [f"{free_space(disk)}{growth_words(disk, growth)}" for disk in found.disks]
    if found.overdue:
        dirty = size(sum(o.dirty_bytes for o in found.overdue))
        parts.append(
            f"{counted(len(found.overdue), 'partition')} due for compaction ({dirty} dirty)"
        )
    return "; ".join([*parts, *(found.attention or ("nothing needs attention",))])


def free_space(disk: Disk) -> str:
    if disk.free_bytes == sys.maxsize:
        return "no limit known"
    share = f"{100 * disk.free_bytes / disk.total_bytes:.0f} %" if disk.total_bytes else "?"
    inodes = f", {counted(disk.free_files or 0, 'inode')} free" if disk.lacks_inodes else ""
    return f"{size(disk.free_bytes)} free ({share}){inodes}"


def growth_words(disk: Disk, growth: Sequence[Growth]) -> str:
    """Return how the disk has grown. Empty if that is unknown."""
    for grown in growth:
        if grown.log_dir == disk.log_dir:
            how = "grew" if grown.bytes >= 0 else "shrank"
            words = f", {how} by {size(abs(grown.bytes))} since {moment(grown.since)}"
            days = grown.days_until_full
            return words if days is None else f"{words}: full in {days:,.1f} days at this rate"
    return ""
