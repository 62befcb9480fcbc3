"""Which partitions are compacted together: enough work for one Spark job, no more than the disks
have room for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from winnow.clean.scan.job import PartitionJob
from winnow.clean.space import Room

WAVE_BYTES = 32 * 2**30
"""Log bytes that one job reads at most, unless one partition alone has more."""


def waves(
    jobs: Iterable[PartitionJob], new_room: Callable[[], Room]
) -> Iterator[list[PartitionJob]]:
    """Cuts the partitions, in the order given, into jobs. `new_room` is asked anew before each one.

    A rewritten partition lies beside its sources until it is committed. One that has no room even
    alone is alone.
    """
    wave: list[PartitionJob] = []
    left, room = WAVE_BYTES, new_room()
    for job in jobs:
        if wave and (job.log_bytes > left or job.most_bytes > room.at(job.directory)):
            yield wave
            wave, left, room = [], WAVE_BYTES, new_room()
        wave.append(job)
        left -= job.log_bytes
        room.take(job.directory, job.most_bytes)
    if wave:
        yield wave
