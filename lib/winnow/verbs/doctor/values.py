"""What the doctor found, as values. Sizes are in bytes, times in ms since the epoch."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.cleaning.prepared.preparation import Preparation
from winnow.errors import CorruptLogError, NoSpaceError
from winnow.policy.versions import ANY_VERSION, KnownVersion
from winnow.start.values import BrokerStart
from winnow.verbs.doctor.space import DiskUse
from winnow.verbs.erase.values import Amount
from winnow.words import counted, size

INDEX_ZEROS = "index zeros"
NO_POLICY = "S9.2"
"""Rule of a `Trouble`: the topic's settings are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A log directory and the file system it is on."""

    log_dir: str
    log_bytes: int
    """Log bytes of the partitions that could be listed."""
    free_bytes: int
    total_bytes: int
    free_files: int | None
    """Files that may still be made there. None: no limit is known."""
    used_files: int | None = None
    read_only: bool
    """Mounted read-only. Nothing can be changed."""
    clean_shutdown: bool
    is_of_controller: bool = False
    """It is that of a controller, which leaves no marker."""
    broker_runs: bool = False
    lacks_lock: bool = False
    """There is no `.lock`: none could be made, or the directory is remote."""
    behind: tuple[str, ...] = ()
    """Partitions whose logs end below the high watermark, where no clean shutdown was: a torn copy,
    or the machine lost power.
    """
    metadata_log_bytes: int | None = None
    """Log bytes of `__cluster_metadata-0`. None: there is none here."""
    cleaner_checkpoint_ms: int | None
    """When a broker's cleaner, or Winnow, last finished a partition here; None: never."""

    @property
    def has_crashed(self) -> bool:
        return not (self.clean_shutdown or self.is_of_controller or self.behind)

    @property
    def is_full(self) -> bool:
        """A broker soon fails to write here: less than 5 % and less than 1 GiB are free, or it
        lacks inodes.
        """
        return self.free_bytes < min(self.total_bytes // 20, 2**30) or self.lacks_inodes

    @property
    def lacks_inodes(self) -> bool:
        """Less than 5 % and less than 1,000 are free."""
        if self.free_files is None:
            return False
        every = self.free_files + (self.used_files or 0)
        return self.free_files == 0 or self.free_files < min(every // 20, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    topic: str
    policy: str | None
    partitions: int
    segments: int
    log_bytes: int
    uncounted: int
    """Partitions whose log bytes are unknown, such as a linked directory's."""
    dirty_bytes: int | None = None
    """Of closed segments that are not compacted yet. None: the topic is not compacted."""
    dirty_ratio: float | None = None
    """The largest dirty ratio of a partition (S3.3). None: not compacted, or without bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfPartition:
    topic: str
    partition: int
    log_dir: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue(_OfPartition):
    """A partition that a running cleaner of a broker would clean now."""

    rule: str
    reason: str
    dirty_ratio: float
    dirty_bytes: int
    dirty_since: int | None
    """Timestamp of the oldest dirty batch that is first in its segment; None if there is none."""
    due_since: int | None = None
    """Since when the partition has been due, by the times of its files, or since the start of its
    broker if that is later. It may have been due earlier. None: unknown.
    """
    last_cleaned: int | None = None
    """The last compaction was not later than this: ctime of the newest clean segment. None: there
    is no clean segment, or the storage has no ctime.
    """
    passed_over: bool = False
    """Due for hours, while the cleaner of the running broker finished other partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(_OfPartition):
    """Segments past retention that a running broker has not deleted."""

    segments: int
    log_bytes: int
    since: int | None
    """Since when the oldest of these segments has been expired, as for `Overdue.due_since`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack(_OfPartition):
    """What an open transaction keeps from being cleaned."""

    producer_id: int
    first_offset: int
    last_seen: int | None
    """Timestamp of the producer's last batch."""
    held_bytes: int
    """Bytes of the segments before the active one, from the segment of the first offset on."""
    words: str
    is_open: bool = True
    """False: the transaction has ended, above the high watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble(_OfPartition):
    """A partition that Winnow can't work on in its current state."""

    rule: str
    reason: str
    error: str | None


HIGH_WATERMARK, FUTURE, PAST = "high-watermark", "future-timestamp", "old-timestamps"
UNCOMMITTED = "uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(_OfPartition):
    """Log bytes about which something else decides than the settings suggest."""

    by: str
    """`high-watermark`: it is lost, and keeps them. `future-timestamp`: keeps them.
    `old-timestamps`: much older than the files, and retention deletes by them. `uncommitted`: the
    high watermark of a running broker does not reach these records.
    """
    log_bytes: int
    words: str
    since: int | None = None
    """`uncommitted`: these records were written not later than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MisplacedEntry:
    """A partition whose cleaner checkpoint entry is in the wrong log directory, or in several."""

    topic: str
    partition: int
    log_dir: str | None
    """Where the partition is; None if it is in none of the given directories."""
    named_in: tuple[str, ...]
    """Log directories whose `cleaner-offset-checkpoint` names it."""
    stops_cleaner: bool
    """True if several directories name it: a broker's cleaner fails when it starts."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    what: str
    """`index zeros`: at the end of indexes, where a broker did not shut down cleanly. `leftovers`:
    of a crash or an interrupted run. `retention`. `compaction`. `kept`: what runs of
    `clean --keep-replaced` keep for an undo.
    """
    partitions: int
    freed_bytes: int
    freed_inodes: int | None = None
    """At least. None: only a run can find it."""
    at_most: bool = False
    """An upper limit: only a run can find how much a compaction keeps."""
    read_bytes: int = 0
    seconds: float
    """Expected duration, from the rate at which this machine read a part of these logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfreed:
    """A topic in which neither retention nor compaction would free anything now."""

    topic: str
    partitions: int
    log_bytes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Census(_OfPartition):
    """What reading all records of a compacted partition found, superseded ones included."""

    keyless: Amount
    """Data without a key, which the next compaction that reaches it drops (S5.5). A broker refuses
    such records, so they are older than the topic's cleanup policy.
    """
    tombstones: tuple[Amount, ...]
    """By age, as in `PartitionResult.tombstones`."""
    horizon_come: Amount
    """Tombstones whose delete horizon has passed. The next compaction that reaches them drops
    them."""
    horizon_to_come: Amount
    no_horizon: Amount
    """Tombstones whose batch has no delete horizon yet. The next compaction that reaches the batch
    sets it to now + `delete.retention.ms` (S5.4). v0 and v1 batches never have one; the age of the
    file decides for them (S5.3).
    """
    error: str | None
    """Why it could not be read; all figures are 0 then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    bytes: int
    seconds: float | None
    """None if the reading speed of these logs is unknown."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A command to run next. `arguments` follow the program."""

    arguments: tuple[str, ...]
    why: str
    log_dirs: tuple[str, ...] = ()
    """The log directories that it takes. Empty: all that were given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    now: int
    disks: tuple[Disk, ...]
    space: tuple[DiskUse, ...]
    """What takes the space, by log directory."""
    topics: tuple[Topic, ...]
    """Most bytes first."""
    gains: tuple[Gain, ...]
    unfreed: tuple[Unfreed, ...]
    """Most bytes first."""
    overdue: tuple[Overdue, ...]
    """Most dirty bytes first."""
    held_back: tuple[HeldBack, ...]
    """Most bytes first."""
    troubles: tuple[Trouble, ...]
    misplaced: tuple[MisplacedEntry, ...]
    """Sorted by node, then by partition."""
    held: tuple[Held, ...] = ()
    """Most bytes first."""
    expired: tuple[Expired, ...] = ()
    """Only where the broker runs. Most bytes first."""
    preparations: tuple[Preparation, ...] = ()
    """What `prepare` has staged for `commit`. Most bytes first."""
    attention: tuple[str, ...] = ()
    """What an operator should look at, in words."""
    dead_cleaner: str | None = None
    """Why the broker's cleaner seems to be dead, in words; None if there is no sign of it."""
    dead_cleaners: tuple[str, ...] = ()
    """The log directories where it seems to be dead."""
    short_of_space: int
    """Partitions that are due for compaction, which needs more space than is free."""
    advice: tuple[Advice, ...] = ()
    deep: Reading
    """What `census` costs, or has cost."""
    census: tuple[Census, ...] | None
    """Partitions of compacted topics, sorted by name; None if not requested."""
    strangers: tuple[str, ...] = ()
    """Entries of the log directories that are in a broker's way, with what to do."""
    notes: tuple[str, ...] = ()
    kafka: KnownVersion = ANY_VERSION
    """The version of Kafka whose rules were used."""
    starts: tuple[BrokerStart, ...] = ()
    """What happens if the brokers start now."""
    zookeeper: bool = False
    """The brokers keep their topics, and the settings of these, in ZooKeeper."""

    def freed(self, gain: Gain) -> str:
        """Return what a verb frees: files, where inodes are what is missing."""
        words = size(gain.freed_bytes)
        if not any(disk.lacks_inodes for disk in self.disks):
            return words
        if gain.freed_inodes is None:
            return f"an unknown number of files ({words})"
        return f"{counted(gain.freed_inodes, 'file')} ({words})"

    @property
    def exit_code(self) -> int:
        """Return 0; 6 if a disk is full and nothing can be freed; 3 if Winnow can't work on some
        partition in its current state, if an entry is in a broker's
        way, or if a start of a broker would do harm.
        """
        if not self.gains and any(disk.is_full for disk in self.disks):
            return NoSpaceError.exit_code
        harm = any(start.is_harmful for start in self.starts)
        return CorruptLogError.exit_code if self.troubles or self.strangers or harm else 0
