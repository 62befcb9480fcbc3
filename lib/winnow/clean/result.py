"""What a run did, as values: the Python API returns them, the command line prints them, the ledger
will store them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from winnow.errors import CorruptLogError, NoSpaceError, VerificationError, WinnowError

COMPACTED = "compacted"
RETAINED = "retained"
NONE = "none"


@dataclass(frozen=True, slots=True)
class Setting:
    """One of Kafka's topic settings, or of the broker's, as it was applied, and where it came from."""

    key: str
    value: str
    source: str
    is_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A group or a transactional id, and how much of a partition of Kafka's own topics is its.

    Bytes as they are on disk, batch headers included. `_after` is None where only a run can tell.
    """

    name: str
    records_before: int
    bytes_before: int
    records_after: int | None
    bytes_after: int | None


_HOUR = 3_600_000
_DAY = 24 * _HOUR
TOMBSTONE_AGES_MS = (_HOUR, _DAY, 7 * _DAY, 30 * _DAY, 365 * _DAY)
"""Where one age of `PartitionResult.tombstones` ends and the next begins."""
TOMBSTONE_AGES = (
    "under 1 hour",
    "1 hour to 1 day",
    "1 to 7 days",
    "7 to 30 days",
    "30 to 365 days",
    "365 days and more",
)
"""The ages in words."""

Fate = Literal["kept", "compacted", "deleted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRemoved:
    """How many records went, by why."""

    superseded: int = 0
    """A later record has the key, or there is none: a compacted topic keeps no record without a key
    (S5.5).
    """
    tombstones: int = 0
    """The last of their keys, and their delete horizon has come (S5.5)."""
    aborted: int = 0
    """Data of aborted transactions (S5.4)."""
    markers: int = 0
    """Of transactions of which nothing is left, and their delete horizon has come (S5.8)."""
    retention: int = 0
    """In segments that retention deleted (S7)."""

    def __add__(self, other: RecordsRemoved) -> RecordsRemoved:
        return RecordsRemoved(
            **{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        )

    @property
    def total(self) -> int:
        return sum(getattr(self, one.name) for one in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A segment that compaction wrote."""

    base_offset: int
    bytes: int
    checksum: int
    """`winnow.clean.tally.batches_checksum`."""
    sources: tuple[int, ...]
    """Base offsets of the segments that it replaces."""


@dataclass(frozen=True, slots=True)
class SegmentFate:
    """A segment as it was before, and what became of it. `bytes` of its log; `largest_timestamp` in
    ms, as a broker takes it (S3.2).

    `compacted`: read, and replaced by what survived, alone or with its neighbours. `deleted`: gone
    whole, by retention.
    """

    base_offset: int
    bytes: int
    largest_timestamp: int
    fate: Fate
    checksum: int | None = None
    """Of one that was compacted: `winnow.clean.tally.batches_checksum`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """Before and after of one partition. A plan fills `_after` with what is foreseen, None where
    only a run can tell.

    `actions` holds COMPACTED and/or RETAINED, or NONE alone. `reason` always says which rule
    decided. `error` is None unless the partition was left alone because something is wrong with it
    or went wrong. `left_alone` is True if Kafka would have acted, or might have, and Winnow did
    not: it makes the exit code 3.
    """

    topic: str
    partition: int
    log_dir: str
    policy: str | None
    actions: tuple[str, ...]
    rule: str
    """Number of the rule that decided, as `S3.4`."""
    reason: str
    dirty_ratio: float | None = None
    dirty_ratio_after: float | None = None
    first_dirty_offset_before: int | None = None
    first_dirty_offset_after: int | None = None
    log_start_offset_before: int | None = None
    log_start_offset_after: int | None = None
    segments_before: int | None = None
    segments_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    records_before: int | None = None
    records_after: int | None = None
    holders: tuple[Holder, ...] = ()
    """Of a partition of `__consumer_offsets` and the like that is compacted: those with the most
    bytes before.
    """
    holders_total: int | None = None
    """How many names there are; None for other partitions, and where there are too many to count.
    """
    kept_bytes: int | None = None
    """What the run replaced or deleted and keeps for an undo: not freed before it is purged. None:
    it keeps nothing.
    """
    quarantined_bytes: int | None = None
    """Damaged bytes that the run moved out of the log, into a directory beside it. None: it moved
    none.
    """
    outputs: tuple[Output, ...] = ()
    """What compaction wrote, or by an estimate would, ascending."""
    records_removed: RecordsRemoved | None = None
    """None where not every batch header was read, and where a plan without an estimate compacts."""
    max_compaction_lag_ms: int | None = None
    """`max.compaction.lag.ms` of a partition that is compacted; None: no limit."""
    oldest_dirty_timestamp: int | None = None
    """Of a partition that is compacted, what its segments left dirty begin with at the earliest,
    ms, the active one included: with the above, when it has to be compacted again (S3.4). None:
    unknown, or nothing is dirty.
    """
    segments: tuple[SegmentFate, ...] = ()
    """Each, ascending; of one that was split first, its parts. Empty where they are not known."""
    tombstones: tuple[int, ...] = ()
    """That stay in what was compacted, by age: as many as are younger than the first of
    TOMBSTONE_AGES_MS, from there to the second, and so on. Empty if nothing was compacted. They are
    as old as the newest record in their batch.
    """
    duration_ms: int | None = field(default=None, compare=False)
    """Of the tasks that rewrote its groups, one after the other, and of its commit; None: nothing
    was done. What is read for many partitions at once, headers and keys, is in no partition's time.
    """
    error: str | None = None
    error_code: int = CorruptLogError.exit_code
    """What the command line returns if this is all there is to tell (`WinnowError.exit_code`)."""
    left_alone: bool = False
    settings: tuple[Setting, ...] = ()
    """In a plan: all that decided, defaults included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run over one or more log directories. `now` is the clock that every decision used, ms
    since the epoch.
    """

    run_id: str
    verb: str
    """`plan` or `clean`: whether `partitions` tell what is foreseen or what was done."""
    now: int
    partitions: tuple[PartitionResult, ...]
    notes: tuple[str, ...] = field(default=())
    """Said once per run: ignored settings, skipped directories."""
    refused: bool = False
    """Nothing was done, because of damage in one of the partitions: that is what was asked for."""
    peak_extra_bytes: int | None = None
    """That lay beside the logs at once, written and not yet in the place of anything; of a plan: at
    most.
    """

    short_bytes: int | None = None
    """Of what was to be freed at least: that the rules don't let go. None if nothing was asked for.
    """

    ledger: str | None = None
    """The ledger that the run was written to; None if none was asked for, or that could not be
    done.
    """

    @property
    def status(self) -> str:
        """`partial`: some failed, were left alone or lost damaged batches, or too little was freed.
        Else `done`.
        """
        return "partial" if self.short_bytes or any(map(_troubled, self.partitions)) else "done"

    @property
    def exit_code(self) -> int:
        """0 or 3; 1, 4 or 6 if that is why nothing at all was done, 6 if too little was freed."""
        if self.refused:
            return WinnowError.exit_code
        if self.short_bytes:
            return NoSpaceError.exit_code
        codes = {partition.error_code for partition in self.partitions if _troubled(partition)}
        idle = all(partition.actions == (NONE,) for partition in self.partitions)
        if idle and codes in ({VerificationError.exit_code}, {NoSpaceError.exit_code}):
            return codes.pop()
        return CorruptLogError.exit_code if codes else 0


def _troubled(partition: PartitionResult) -> bool:
    return (
        partition.left_alone
        or partition.error is not None
        or partition.quarantined_bytes is not None
    )
