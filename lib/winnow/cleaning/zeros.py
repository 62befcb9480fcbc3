"""The zeros at the end of indexes, which a run that must free space cuts first: nothing needs them.

After an unclean shutdown a broker builds these indexes anew, and makes each with its full size
again. So they are cut whatever the settings of the topic are (docs/decisions/0012).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from winnow.cleaning.plan.partitions import Planned, SkippedPartition
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.indexes.zeros import IndexZeros, cut, unflushed_zeros
from winnow.logdir.names import base_offset_of
from winnow.logdir.survey import LogDir
from winnow.storage.contract import Storage
from winnow.storage.urls import is_remote
from winnow.words import counted, size


@dataclass(frozen=True, slots=True)
class ZerosFirst:
    """What is cut, or would be."""

    indexes: tuple[IndexZeros, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(one.block_bytes for one in self.indexes)

    def note(self, *, done: bool) -> str:
        were = "were" if done else "would be"
        many = counted(len(self.indexes), "index file")
        return (
            f"{size(self.bytes)} of zeros at the end of {many} {were} cut first: a broker builds "
            "them anew when it recovers the logs"
        )


def zeros_first(
    storage: Storage, log_dirs: Sequence[LogDir], planned: Sequence[Planned], *, wanted: int
) -> ZerosFirst:
    """Return the zeros to cut, most bytes first, until `wanted` bytes are free."""
    found: list[IndexZeros] = []
    every = sorted(_zeros(storage, log_dirs, planned), key=lambda one: -one.block_bytes)
    for one in every:
        if sum(each.block_bytes for each in found) >= wanted:
            break
        found.append(one)
    return ZerosFirst(tuple(found))


def cut_zeros(storage: Storage, zeros: ZerosFirst) -> ZerosFirst:
    """Cut them. Return those that were cut."""
    done = []
    for one in zeros.indexes:
        with suppress(FAILS_ONE_PARTITION):  # such as a file with other names, in a backup
            cut(storage, one)
            done.append(one)
    return ZerosFirst(tuple(done))


def _zeros(
    storage: Storage, log_dirs: Sequence[LogDir], planned: Sequence[Planned]
) -> Iterator[IndexZeros]:
    by_path = {one.path: one for one in log_dirs if one.error is None and not is_remote(one.path)}
    for item in planned:
        log_dir = by_path.get(item.place.log_dir)
        if log_dir is None or log_dir.clean_shutdown:
            continue
        if isinstance(item, SkippedPartition) and not item.settings_unknown:
            continue
        segments = () if isinstance(item, SkippedPartition) else item.plan.deleted
        deleted = {segment.base_offset for segment in segments}
        at = item.place.topic_partition
        with suppress(FAILS_ONE_PARTITION):  # its own result tells it
            point = log_dir.checkpoints.recovery_point.get(at, 0)
            found = unflushed_zeros(storage, item.place.directory, point)
            for one in found:
                if base_offset_of(one.path.rpartition("/")[2]) not in deleted:
                    yield one
