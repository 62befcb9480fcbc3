"""One compaction job: the same small values for every stage, sent to the workers once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from winnow.policy.fate import RoundFacts
from winnow.policy.transactions import ABORTED, NOTHING_CARRIED, Carried
from winnow.scan.cut import Split
from winnow.scan.values import SegmentSummary
from winnow.state import Segment

BUCKET_RECORDS = 2_000_000
"""Target records in a bucket of keys: 40 MB on the wire, about 100 MB while it is merged."""

LEAST_RECORDS = 2**16
"""Minimal records of a bucket: smaller ones cost more to transport than to merge."""

_MOST_BUCKETS = 2**14
"""Enough for 30 billion records. Headers can claim any number, so there is a limit."""


def fair_bucket_records(records: int, *, tasks: int) -> int:
    """Return the target records in a bucket, so that buckets spread evenly over the tasks."""
    return min(max(-(-records // tasks), LEAST_RECORDS), BUCKET_RECORDS)


def buckets_for(records: int, in_bucket: int) -> int:
    """Return the number of buckets for a partition with this many records, at `in_bucket` each."""
    return max(1, min(-(-records // in_bucket), _MOST_BUCKETS))


@dataclass(frozen=True, slots=True)
class GroupJob:
    """Sources of one output segment (S5.2). Its base offset is that of the first source."""

    segments: tuple[Segment, ...]
    splits: tuple[int, ...]
    """Numbers of its splits, ascending, in `PartitionJob.splits`."""
    carried: Carried = NOTHING_CARRIED
    """Transactions carried over from before the group (S4.1)."""
    most_log_bytes: int = 0
    """Expected maximal log bytes of the output. What is left of a batch may compress less well."""
    most_index_bytes: int = 0
    log_limit: int | None = None
    """Hard limit on log size, in bytes."""
    stays: SegmentSummary | None = None
    """Set if the only segment stays as it is, unread. It then has no splits."""

    @property
    def base_offset(self) -> int:
        return self.segments[0].base_offset

    @property
    def most_bytes(self) -> int:
        """Maximal disk space of its output."""
        return self.most_log_bytes + self.most_index_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionJob(RoundFacts):
    """One cleaning round of one partition (S5.1)."""

    topic: str
    directory: str
    staging: str
    """Sub-directory of `directory` for files that are not part of the log yet."""
    index_interval_bytes: int
    segment_index_bytes: int
    max_decompressed_bytes: int
    splits: tuple[Split, ...]
    """Ascending: the splits of the groups, then `following` more."""
    groups: tuple[GroupJob, ...]
    following: int = 0
    """Number of splits that are not rewritten here, but whose keys affect the groups."""
    bucket_records: int = BUCKET_RECORDS
    """Target number of records in a bucket of keys."""
    aborted: np.ndarray[Any, Any] = field(
        default_factory=lambda: np.empty(0, ABORTED), repr=False, compare=False
    )
    """The transaction indexes of the log, dtype ABORTED."""
    summaries: str | None = None
    """Directory for the summaries of its groups (`cleaning.summaries`). None: none are made."""
    unique_keys: bool = False
    """Whether each key will be known to have one record below `end_offset`."""
    keep_free: int | None = None
    """Bytes that must remain free on the disk of `staging`, looked at before each group is written.
    None: they were looked at before the job.
    """
    least_summed_up: int = 0
    """Log bytes that an output must have at least to be summed up."""

    @property
    def most_bytes(self) -> int:
        """Maximal disk space of all outputs."""
        return sum(group.most_bytes for group in self.groups)

    @property
    def log_bytes(self) -> int:
        return sum(split.end - split.start for split in self.splits)

    @property
    def buckets(self) -> int:
        """Number of key buckets: that of prefetched keys if there are any, otherwise by records."""
        stored = (split.keys.buckets for split in self.splits if split.keys is not None)
        return next(stored, 0) or buckets_for(self.records, self.bucket_records)

    @property
    def records(self) -> int:
        """Number of records, as far as headers say."""
        return sum(split.records for split in self.splits)

    def part(self, first: int, count: int) -> PartitionJob:
        """Return the same round for `count` groups from number `first` on, once all groups before
        are in place.

        Only later records decide whether a record survives; for a clean record, only the dirty
        range does (S4, S5.5). So earlier groups cannot affect the result, nor can the records
        already removed from them.
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
        return {split: number for number, group in enumerate(self.groups) for split in group.splits}


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """Partitions that are cleaned by one Spark job."""

    now: int
    secret: tuple[int, int]
    """Key of the hash of record keys, drawn for each run, so nobody can prepare a collision."""
    partitions: tuple[PartitionJob, ...]

    def in_buckets_for(self, tasks: int) -> CompactionJob:
        """Return the same job with key buckets that spread evenly over this many tasks."""
        records = fair_bucket_records(
            sum(partition.records for partition in self.partitions), tasks=tasks
        )
        return replace(
            self, partitions=tuple(replace(one, bucket_records=records) for one in self.partitions)
        )
