"""What one compaction job is told: the same small values for every stage, sent to the workers
once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from winnow.clean.scan.cut import Split
from winnow.policy.transactions import ABORTED, NOTHING_CARRIED, Carried
from winnow.state import Segment

BUCKET_RECORDS = 2_000_000
"""Records that one bucket of keys is meant to hold: 40 MB on the wire and about 100 MB while it is
merged.
"""

LEAST_RECORDS = 2**16
"""Of a bucket: smaller ones would be more to carry than to merge."""

_MOST_BUCKETS = 2**14
"""So many are enough for 30 billion records; headers can promise any number of them."""


def fair_bucket_records(records: int, *, tasks: int) -> int:
    """How many records a bucket is meant to hold, so that buckets can be shared out evenly among so
    many tasks.
    """
    return min(max(-(-records // tasks), LEAST_RECORDS), BUCKET_RECORDS)


def buckets_for(records: int, in_bucket: int) -> int:
    """Buckets of a partition with so many records, meant to hold so many each."""
    return max(1, min(-(-records // in_bucket), _MOST_BUCKETS))


@dataclass(frozen=True, slots=True)
class GroupJob:
    """Sources of one output segment (S5.2): its base offset is that of the first."""

    segments: tuple[Segment, ...]
    splits: tuple[int, ...]
    """Numbers of its splits, ascending, in `PartitionJob.splits`."""
    carried: Carried = NOTHING_CARRIED
    """By what lies before the group (S4.1)."""
    most_log_bytes: int = 0
    """Of the output, as far as can be told: a codec can do worse on what is left of a batch."""
    most_index_bytes: int = 0
    log_limit: int | None = None
    """Bytes that the log may have, come what may."""

    @property
    def base_offset(self) -> int:
        return self.segments[0].base_offset

    @property
    def most_bytes(self) -> int:
        """That its output takes on the disk."""
        return self.most_log_bytes + self.most_index_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionJob:
    """One cleaning round of one partition (S5.1)."""

    topic: str
    directory: str
    staging: str
    """Sub-directory of `directory` for files that are not part of the log yet."""
    first_dirty_offset: int
    end_offset: int
    delete_retention_ms: int
    legacy_delete_horizon_ms: int
    """Tombstones of v0 and v1 stay in segments whose `.log` is younger (S5.1)."""
    index_interval_bytes: int
    segment_index_bytes: int
    max_decompressed_bytes: int
    last_records: dict[int, tuple[int | None, int]]
    """Producer id to (last data offset, epoch) of the producers that are still known (S5.4)."""
    splits: tuple[Split, ...]
    """Ascending: those of the groups, then `following` more."""
    groups: tuple[GroupJob, ...]
    following: int = 0
    """Splits that are not rewritten here, and whose keys have a say in what stays of the groups."""
    fixed_buckets: int | None = None
    """Of keys, if those of some splits were read ahead; otherwise it depends on how many
    there are.
    """
    bucket_records: int | None = None
    """Records that one bucket of keys is meant to hold; None: as many as it may."""
    aborted: np.ndarray[Any, Any] = field(
        default_factory=lambda: np.empty(0, ABORTED), repr=False, compare=False
    )
    """The transaction indexes of the log, dtype ABORTED."""

    @property
    def most_bytes(self) -> int:
        """That all outputs take on the disk."""
        return sum(group.most_bytes for group in self.groups)

    @property
    def log_bytes(self) -> int:
        """That are read."""
        return sum(split.end - split.start for split in self.splits)

    @property
    def buckets(self) -> int:
        if self.fixed_buckets is not None:
            return self.fixed_buckets
        return buckets_for(self.records, self.bucket_records or BUCKET_RECORDS)

    @property
    def records(self) -> int:
        """As far as headers tell."""
        return sum(split.records for split in self.splits)

    def part(self, first: int, count: int) -> PartitionJob:
        """The same round for `count` groups from number `first` on, when all groups before are in
        place.

        What stays of a record is decided by what follows it, and of the dirty range by what follows
        a clean one (S4, S5.5). So the groups before have no say in it, and what was cleaned away of
        them none either.
        """
        chosen, later = self.groups[first : first + count], self.groups[first + count :]
        own = [number for group in chosen for number in group.splits]
        others = [number for group in later for number in group.splits]
        number_of = {number: new for new, number in enumerate(own)}
        return replace(
            self,
            splits=tuple(self.splits[number] for number in (*own, *others)),
            groups=tuple(
                replace(group, splits=tuple(number_of[n] for n in group.splits)) for group in chosen
            ),
            following=len(others),
        )

    def groups_of_splits(self) -> dict[int, int]:
        """Number of the group that each split belongs to."""
        return {split: number for number, group in enumerate(self.groups) for split in group.splits}


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """Partitions that are cleaned by one Spark job."""

    now: int
    secret: tuple[int, int]
    """Key of the hash that stands for record keys: drawn anew for each run, so that nobody can
    prepare a collision.
    """
    partitions: tuple[PartitionJob, ...]

    def in_buckets_for(self, tasks: int) -> CompactionJob:
        """The same with keys in buckets that can be shared out evenly among so many tasks,
        whoever's they are.
        """
        records = fair_bucket_records(
            sum(partition.records for partition in self.partitions), tasks=tasks
        )
        return replace(
            self, partitions=tuple(replace(one, bucket_records=records) for one in self.partitions)
        )
