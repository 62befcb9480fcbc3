"""What the doctor found, as values. Sizes in bytes, times in ms since the epoch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A log directory and the file system that it lies on."""

    log_dir: str
    log_bytes: int
    """Of the partitions that could be listed."""
    free_bytes: int
    total_bytes: int
    clean_shutdown: bool
    cleaner_checkpoint_ms: int | None
    """When a broker's cleaner, or Winnow, last finished a partition here. None: there is no such
    file.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    topic: str
    policy: str | None
    partitions: int
    segments: int
    log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A partition that a broker's cleaner would clean now if there was one at work."""

    topic: str
    partition: int
    log_dir: str
    rule: str
    reason: str
    dirty_ratio: float
    dirty_bytes: int
    dirty_since: int | None
    """Timestamp of the oldest dirty batch that a segment begins with; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """What an open transaction keeps from being cleaned."""

    topic: str
    partition: int
    log_dir: str
    producer_id: int
    first_offset: int
    last_seen: int | None
    """Timestamp of the producer's last batch."""
    held_bytes: int
    """Of the segments before the active one, from that of the first offset on."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A partition that nothing can be done for as it is."""

    topic: str
    partition: int
    log_dir: str
    rule: str
    reason: str
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MisplacedEntry:
    """A partition whose entry in the cleaner's checkpoints is not, or not only, beside it."""

    topic: str
    partition: int
    log_dir: str | None
    """Where the partition is; None: in none of the given directories."""
    named_in: tuple[str, ...]
    """Log directories whose `cleaner-offset-checkpoint` names it."""
    stops_cleaner: bool
    """More than one does: a broker's cleaner dies at its start."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a verb would free."""

    what: str
    """`retention` or `compaction`."""
    partitions: int
    freed_bytes: int
    at_most: bool
    """Only a run can tell how much a compaction leaves."""
    read_bytes: int
    seconds: float
    """At the rate at which this machine read a part of these very logs."""


@dataclass(frozen=True, slots=True)
class Amount:
    records: int
    bytes: int
    """Of the records as they are decompressed."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.records + other.records, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What reading all records of a compacted topic's partition told. Whether a record is
    superseded does not matter here.
    """

    topic: str
    partition: int
    log_dir: str
    keyless: Amount
    """Data without a key: the next compaction that reaches it drops it (S5.5). A broker refuses
    such records, so that they are older than the topic's policy.
    """
    tombstones: tuple[Amount, ...]
    """By age, as `PartitionResult.tombstones`."""
    horizon_come: Amount
    """The delete horizon of their batch has come: the next compaction that reaches them drops them.
    """
    horizon_to_come: Amount
    no_horizon: Amount
    """Their batch has none yet: the next compaction that reaches it sets it, now +
    `delete.retention.ms` (S5.4). Those of v0 and v1, which have none, go by the age of their file
    (S5.3).
    """
    error: str | None
    """Why it could not be read; all figures are 0 then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What reading all records of the compacted topics costs."""

    bytes: int
    seconds: float | None
    """None: nothing is known of how fast these logs are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A command to run next. `arguments` follow `./spark-submit.sh`."""

    arguments: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    now: int
    disks: tuple[Disk, ...]
    topics: tuple[Topic, ...]
    """Most bytes first."""
    gains: tuple[Gain, ...]
    overdue: tuple[Overdue, ...]
    """Most dirty bytes first."""
    held_back: tuple[HeldBack, ...]
    """Most bytes first."""
    troubles: tuple[Trouble, ...]
    misplaced: tuple[MisplacedEntry, ...]
    """By node, then by partition."""
    dead_cleaner: str | None
    """In words, why the broker's cleaner seems not to have been at work; None if nothing says so.
    """
    advice: tuple[Advice, ...]
    deep: Reading
    """What `census` costs, or has cost."""
    census: tuple[Census, ...] | None
    """Partitions of compacted topics, by name; None: not asked for."""
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0; 3 if there is a partition that nothing can be done for."""
        return 3 if self.troubles else 0
