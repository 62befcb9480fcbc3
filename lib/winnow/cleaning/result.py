"""What a run did, as values for the Python API, the command line and the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from winnow.errors import (
    CorruptLogError,
    LogDirInUseError,
    NoSpaceError,
    VerificationError,
    WinnowError,
)
from winnow.policy.sources import CLEANER_OFF
from winnow.policy.versions import ANY_VERSION, KnownVersion
from winnow.scan.values import Holder
from winnow.start.values import BrokerStart

COMPACTED = "compacted"
RETAINED = "retained"
NONE = "none"


@dataclass(frozen=True, slots=True)
class Setting:
    """A topic or broker setting of Kafka, as it was applied, and its source."""

    key: str
    value: str
    source: str
    is_default: bool


CODES: Mapping[str, str] = {
    "S1.11": "in-two-directories",
    "S6.2": "not-done",
    "S6.3": "interrupted-run",
    "S7.5": "tiered",
    "S8.1": "symbolic-link",
    "S8.2": "unclean-shutdown",
    "S8.5": "not-permitted",
    "S8.8": "unreadable",
    "S9.2": "settings-unknown",
    "S9.3": "other-topic-id",
}
"""Of partitions that were left alone, by the rule that decided."""
ERROR_CODES: Mapping[int, str] = {
    1: "not-done",
    3: "damaged",
    4: "verification-failed",
    5: "in-use",
    6: "no-space",
}
"""Of partitions that failed, by the exit code of their error."""
OTHER_CODES = ("quarantined", "left-alone", "failed")
ALL_CODES = tuple(dict.fromkeys((*CODES.values(), *ERROR_CODES.values(), *OTHER_CODES)))
"""Why partitions are left alone, for programs."""

_HOUR = 3_600_000
_DAY = 24 * _HOUR
TOMBSTONE_AGES_MS = (_HOUR, _DAY, 7 * _DAY, 30 * _DAY, 365 * _DAY)
"""Limits between the ages of `PartitionResult.tombstones`."""
TOMBSTONE_AGES = (
    "under 1 hour",
    "1 hour to 1 day",
    "1 to 7 days",
    "7 to 30 days",
    "30 to 365 days",
    "365 days and more",
)

Fate = Literal["kept", "compacted", "deleted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRemoved:
    """Counts of removed records, by cause."""

    superseded: int = 0
    """A later record has the same key, or this one has none, in a compacted topic (S5.5)."""
    tombstones: int = 0
    """Tombstones that were the last record of their key, past their delete horizon (S5.5)."""
    aborted: int = 0
    """Data of aborted transactions (S5.4)."""
    markers: int = 0
    """Markers of transactions without remaining data, whose delete horizon has passed (S5.8)."""
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
    """`winnow.scan.cut.batches_checksum`."""
    sources: tuple[int, ...]
    """Base offsets of the segments that it replaces."""


@dataclass(frozen=True, slots=True)
class SegmentFate:
    """A segment before the run, and its fate. `bytes` of its log; `largest_timestamp` in ms, as a
    broker computes it (S3.2).

    `compacted`: read, and replaced by its surviving records, alone or together with neighbours.
    `deleted`: removed as a whole, by retention. `kept`: the same file, also if compaction read it.
    """

    base_offset: int
    bytes: int
    largest_timestamp: int
    fate: Fate
    checksum: int | None = None
    """Of a segment that compaction read: `winnow.scan.cut.batches_checksum`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """One partition before and after. A plan predicts the `_after` fields; None where only a run
    can find the value.

    The fields up to `error` are in the JSON object of --json, in this order.

    `actions` is COMPACTED and/or RETAINED, or NONE alone. `reason` always names the rule that
    decided. `error` is None unless the partition was skipped because of a problem, or failed.
    `left_alone` is True if Kafka would or might have acted and Winnow did not: the exit code is
    then 3.
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
    segments_unchanged: int | None = None
    """Segments that compaction did not write, because they lose nothing. None: nothing was
    compacted, or a plan without an estimate.
    """
    segments_unread: int | None = None
    """Those of them that were not even read, because an earlier run knew their keys."""
    bytes_before: int | None = None
    bytes_after: int | None = None
    records_before: int | None = None
    records_after: int | None = None
    records_removed: RecordsRemoved | None = None
    """None if not every batch header was read, and if a plan without an estimate compacts."""
    holders: tuple[Holder, ...] = ()
    """Of a compacted topic of Kafka's own: the names with the most bytes before."""
    holders_total: int | None = None
    """The number of names. None for other partitions, and if there are too many to count."""
    kept_bytes: int | None = None
    """Replaced or deleted bytes that the run keeps for an undo. None: it keeps nothing."""
    quarantined_bytes: int | None = None
    """Damaged bytes that the run moved into a directory beside the log. None: it moved none."""
    duration_ms: int | None = field(default=None, compare=False)
    """Time of the tasks that rewrote its groups, added up, and of its commit. None: nothing was
    done.

    Headers and keys are read for many partitions at once; that time counts for none of them.
    """
    deletes_more: tuple[str, ...] = ()
    """Options that let more be deleted than the topic's own settings, as `KEY=VALUE instead of
    VALUE` (decision 47).
    """
    error: str | None = None
    outputs: tuple[Output, ...] = ()
    """What compaction wrote, or would write by an estimate, ascending."""
    max_compaction_lag_ms: int | None = None
    """`max.compaction.lag.ms` of a partition that is compacted. None: no limit."""
    oldest_dirty_timestamp: int | None = None
    """Of a compacted partition: the earliest first timestamp of its remaining dirty segments, the
    active one included, in ms.

    With `max_compaction_lag_ms` it gives the time when the partition has to be compacted again
    (S3.4). None: unknown, or nothing is dirty.
    """
    segments: tuple[SegmentFate, ...] = ()
    """All segments, ascending; the parts of one that was split first. Empty if unknown."""
    tombstones: tuple[int, ...] = ()
    """Tombstones kept by compaction, by age: the number younger than the first of
    TOMBSTONE_AGES_MS, between the first and the second, and so on. Empty if nothing was compacted.
    A tombstone is as old as the newest record in its batch.
    """
    error_code: int = CorruptLogError.exit_code
    """The exit code if this is the only problem (`WinnowError.exit_code`)."""
    left_alone: bool = False
    settings: tuple[Setting, ...] = ()
    """In a plan: all settings that decided, defaults included."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def acts(self) -> bool:
        """Whether anything was done or, in a plan, would be."""
        return self.actions != (NONE,)

    @property
    def failed(self) -> bool:
        """Whether it was left alone although Kafka might have acted, or an error occurred."""
        return self.left_alone or self.error is not None

    @property
    def cleaner_off(self) -> bool:
        """Whether it was left because `log.cleaner.enable` is false, as its broker leaves it."""
        return self.rule == CLEANER_OFF and not self.failed

    @property
    def code(self) -> str | None:
        """Why it was left alone or failed, one of ALL_CODES. None if it was not."""
        if self.quarantined_bytes is not None:
            return "quarantined"
        if self.left_alone and self.rule != "S8.8":
            return CODES.get(self.rule, "left-alone")
        if self.left_alone and self.error is None:
            return "not-done"  # the run was stopped before
        if self.left_alone and self.error_code == CorruptLogError.exit_code:
            return CODES[self.rule]
        if self.error is not None:
            return ERROR_CODES.get(self.error_code, "failed")
        return None

    @property
    def why(self) -> str:
        """The reason, with the error if it is not part of it."""
        known = self.error is None or self.error in self.reason
        return self.reason if known else f"{self.reason}: {self.error}"

    @property
    def freed_bytes(self) -> int | None:
        """Bytes of log by which the disk has more room. None: unknown.

        Negative if the disk has less room: a run that keeps what it replaces frees nothing, and
        writes new segments.
        """
        if self.bytes_before is None or self.bytes_after is None:
            return None
        if self.kept_bytes:
            return -sum(output.bytes for output in self.outputs)
        return self.bytes_before - self.bytes_after - (self.quarantined_bytes or 0)

    @property
    def gain(self) -> float:
        """Freed bytes. Where only a run can find those, dirty bytes are the best estimate."""
        before = self.bytes_before or 0
        after = self.bytes_after
        return before * (self.dirty_ratio or 0.0) if after is None else before - after


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunResult:
    """One run over one or more log directories. `now`: the clock of every decision, ms."""

    run_id: str
    verb: str
    """`plan` or `clean`: whether `partitions` holds predictions or results."""
    now: int
    partitions: tuple[PartitionResult, ...]
    notes: tuple[str, ...] = field(default=())
    """Notes that apply to the whole run: ignored settings, skipped directories."""
    refused: bool = False
    """The run did nothing because a partition is damaged, as requested with `--on-corrupt=fail`."""
    peak_extra_bytes: int | None = None
    """Maximal bytes beside the logs at one time, not yet in place. In a plan: an upper bound."""

    short_bytes: int | None = None
    """Bytes that the rules leave missing from the amount to free. None if none was requested."""

    ledger: str | None = None
    """The ledger to which the run was written. None if none was requested or writing failed."""
    kafka: KnownVersion = ANY_VERSION
    """The version of Kafka whose rules were used."""
    starts: tuple[BrokerStart, ...] = field(default=(), compare=False)
    """What happens if the brokers start after the run, or, for a plan, now. Empty: unknown, as for
    a remote or a private copy.
    """
    strangers: tuple[str, ...] = ()
    """Entries of the log directories that are in a broker's way, with what to do."""

    @property
    def kafka_version(self) -> str:
        return self.kafka.versions

    @property
    def kafka_version_source(self) -> str:
        return self.kafka.how

    @property
    def cleaner_off(self) -> int:
        """Partitions that were left because `log.cleaner.enable` is false."""
        return sum(partition.cleaner_off for partition in self.partitions)

    def __repr__(self) -> str:
        acting = sum(partition.actions != (NONE,) for partition in self.partitions)
        return (
            f"<{self.verb} {self.run_id}: {self.status}, {acting:,} of {len(self.partitions):,} "
            "partitions>"
        )

    @property
    def status(self) -> str:
        """`partial` if partitions failed, were skipped or lost batches, bytes are short, or an
        entry of a log directory is in a broker's way.
        """
        troubled = self.short_bytes or self.strangers or any(map(_troubled, self.partitions))
        return "partial" if troubled else "done"

    @property
    def exit_code(self) -> int:
        """0 or 3. 5 if the run lost a log directory. 1, 4 or 6 if that is why nothing at all was
        done; 6 if too little was freed.
        """
        if self.refused:
            return WinnowError.exit_code
        if self.short_bytes:
            return NoSpaceError.exit_code
        codes = {partition.error_code for partition in self.partitions if _troubled(partition)}
        if LogDirInUseError.exit_code in codes:
            return LogDirInUseError.exit_code
        idle = not any(partition.acts for partition in self.partitions)
        if idle and codes in ({VerificationError.exit_code}, {NoSpaceError.exit_code}):
            return codes.pop()
        return CorruptLogError.exit_code if codes or self.strangers else 0


def _troubled(partition: PartitionResult) -> bool:
    return partition.failed or partition.quarantined_bytes is not None
