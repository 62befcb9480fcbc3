"""Which partitions are compacted together: enough work for one Spark job, no more than the disks have room for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from winnow.engine.job import PartitionJob

WAVE_BYTES = 32 * 2**30
"""Log bytes that one job reads at most, unless one partition alone has more."""

_SPARE_BYTES = 64 * 2**20
"""Left free on every disk, for checkpoints and for whoever else writes there."""


def waves(jobs: Iterable[PartitionJob]) -> Iterator[list[PartitionJob]]:
    """Cuts the partitions, in the order given, into jobs. Free space is asked for anew before each one.

    A rewritten partition lies beside its sources until it is committed.
    """
    wave: list[PartitionJob] = []
    left = WAVE_BYTES
    room: dict[int, int] = {}
    for job in jobs:
        device = os.stat(job.directory).st_dev
        if wave and (job.log_bytes > left or job.most_bytes > room.get(device, free_bytes(job.directory))):
            yield wave
            wave, left, room = [], WAVE_BYTES, {}
        wave.append(job)
        left -= job.log_bytes
        room[device] = room.get(device, free_bytes(job.directory)) - job.most_bytes
    if wave:
        yield wave


def free_bytes(directory: str) -> int:
    """What this process may still write to the file system of a directory, less a little to spare."""
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize - _SPARE_BYTES
