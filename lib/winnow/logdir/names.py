"""The names in a log directory and in a partition directory (S1.1, S1.2, S1.10)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from winnow.errors import CorruptLogError, UsageError
from winnow.state import TopicPartition
from winnow.storage.contract import Entry

LOG = ".log"
INDEX = ".index"
TIMEINDEX = ".timeindex"
TXNINDEX = ".txnindex"
SNAPSHOT = ".snapshot"
CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"

SEGMENT_SUFFIXES = (LOG, INDEX, TIMEINDEX, TXNINDEX)
"""In the order in which Kafka renames them (S6.1)."""
INDEX_SUFFIXES = (INDEX, TIMEINDEX, TXNINDEX)

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
OFFSET_CHECKPOINTS = (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
"""In the order of the fields of `logdir.survey.Checkpoints`."""
REMOTE_INDEX_CACHE = "remote-log-index-cache"
METADATA_TOPIC = "__cluster_metadata"
QUORUM_STATE = "quorum-state"
"""In the directory of the metadata log: the node's last vote."""
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
"""In the log directory: the first records of a metadata log (KIP-778)."""

STAGING_PREFIX = ".winnow-"
"""Prefix of every sub-directory that Winnow makes in a partition directory. Kafka's loader looks
only at regular files there. Never used in the log directory itself: there it would keep the broker
from starting (S1.1).
"""
KEPT_PREFIX = ".winnow-kept-"
"""Followed by a run id: what that run replaced or deleted (`winnow.logdir.commit.kept`). It is not
a staging directory and is not removed with them.
"""
QUARANTINE_PREFIX = ".winnow-quarantine-"
"""Followed by a run id: the bytes that this run moved out of damaged segments
(`winnow.logdir.commit.quarantine`). It is not removed with staging directories either.
"""
UNFINISHED = ".winnow-unfinished"
"""A marker in a log directory that a run writes elsewhere. It exists until the directory is
complete (docs/decisions/0024).
"""
KEEPING_SUFFIX = "-keep"
"""Suffix of the staging directory that marks a partition whose replaced segments are kept."""

METADATA_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
"""Name of a KRaft snapshot: its end offset and epoch. Its own batches start at 0."""

JOURNAL = "round.json"
"""In a staging directory: the journal of a cleaning round (`winnow.logdir.commit.journal`)."""
PREPARED = "prepared.json"
"""In a staging directory: what `commit` must check before it uses the directory (S8.12)."""
GONE = ".gone"
"""Suffix of a staging directory that is being removed."""


def is_staging(name: str) -> bool:
    """Return whether a sub-directory of a partition directory has this name only while a run
    stages segments, or until they are committed.
    """
    return name.startswith(STAGING_PREFIX) and not name.startswith((KEPT_PREFIX, QUARANTINE_PREFIX))


_SNAPSHOT_ENDINGS = (".checkpoint", ".checkpoint.part", ".checkpoint.deleted")
_EPOCH_AT, _EPOCH_END = 21, 31

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
_MARKED_DIRECTORY = re.compile(r"(\S+)-(\S+)\.(\S+)-(delete|future|stray)", re.DOTALL)
JAVA_INT = re.compile(r"[+-]?[0-9]+")
_JAVA_DIGITS = re.compile(r"[+-]?\d+")
_OFFSET_DIGITS = 20
_BASE_OFFSET = re.compile(r"[0-9]{20}")
_UNDECODED = re.compile("[\udc80-\udcff]")
"""Bytes that are no UTF-8, as Python decodes names of files."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class DirectoryKind(StrEnum):
    """The kind of a sub-directory of a log directory, by its name."""

    CURRENT = "current"
    DELETE = "delete"
    FUTURE = "future"
    STRAY = "stray"


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    name: str
    kind: DirectoryKind
    topic_partition: TopicPartition | None
    """None for `-delete` and `-stray`: the topic in such a name may be truncated."""
    number: int
    """Of the partition."""

    @property
    def is_canonical(self) -> bool:
        """Whether a broker would write this name. It reads `t-007` as t-7."""
        return self.kind is not DirectoryKind.CURRENT or self.name == str(self.topic_partition)

    @property
    def has_legal_topic(self) -> bool:
        """Whether Kafka would create a topic of this name.

        A broker also loads other names, and may write them into checkpoints that no broker can read
        afterwards.
        """
        topic = "" if self.topic_partition is None else self.topic_partition.topic
        return _TOPIC.fullmatch(topic) is not None and topic not in {".", ".."}


def topic_partition_of(name: str) -> TopicPartition | None:
    """Return the partition that a directory of this name belongs to; None for any other name."""
    try:
        return parse_partition_dir(name).topic_partition
    except UsageError:
        return None


def partitions_beneath(names: Iterable[str]) -> frozenset[TopicPartition]:
    """Return the partitions of which a log directory with these names has a replica, current or
    being moved to it.
    """
    return frozenset(at for at in map(topic_partition_of, names) if at is not None)


def has_no_broker(names: Collection[str]) -> bool:
    """Return whether no broker has ever started on a log directory with these names: a broker makes
    all checkpoints when it first starts.

    If there is a metadata log, it is that of a node that is only a controller. Such a node looks at
    nothing else, and leaves no marker when it stops. Without one, it is a new directory.
    """
    of_broker = {CLEAN_SHUTDOWN, *OFFSET_CHECKPOINTS}
    logs = (at.topic for at in partitions_beneath(names))
    return of_broker.isdisjoint(names) and all(topic == METADATA_TOPIC for topic in logs)


def is_of_controller(names: Collection[str]) -> bool:
    return f"{METADATA_TOPIC}-0" in names and has_no_broker(names)


def parse_partition_dir(name: str) -> PartitionDirectory:
    """Parse the name of a sub-directory of a log directory as a broker does (S1.2,
    `LocalLog.parseTopicPartitionName`).

    Raises UsageError for a name that would keep a broker from starting.
    """
    kind = next(
        (kind for kind in (*DirectoryKind,)[1:] if name.endswith(f"-{kind}")), DirectoryKind.CURRENT
    )
    if kind is not DirectoryKind.CURRENT and not _MARKED_DIRECTORY.fullmatch(name):
        raise _not_a_partition(name, f"TOPIC-PARTITION.UNIQUEID-{kind}")
    plain = name if kind is DirectoryKind.CURRENT else name[: name.rindex(".")]
    topic, dash, number = plain.rpartition("-")
    # The text after the last dash has no dash, so a negative number cannot appear.
    if not dash or not topic or not JAVA_INT.fullmatch(number) or int(number) > MAX_INT:
        raise _not_a_partition(name, "TOPIC-PARTITION")
    known = kind in {DirectoryKind.CURRENT, DirectoryKind.FUTURE}
    at = TopicPartition(topic, int(number)) if known else None
    return PartitionDirectory(name, kind, at, int(number))


def _not_a_partition(name: str, expected: str) -> UsageError:
    return UsageError(
        "a sub-directory is not a partition's",
        expected=expected,
        found=repr(name),
        hint="A broker would refuse to start on this log directory; move the sub-directory "
        "elsewhere.",
    )


@dataclass(frozen=True, slots=True)
class SnapshotName:
    """What a node reads from the name of a snapshot, or of what it takes for one."""

    offset: int
    epoch: int
    is_whole: bool
    """False: the node removes it when it starts. It was not finished, or is deleted."""

    @property
    def file(self) -> str:
        """The name under which the node opens it."""
        return f"{self.offset:020d}-{self.epoch:010d}.checkpoint"


def parse_snapshot_name(name: str) -> SnapshotName | None:
    """Parse the name of an entry in the directory of the metadata log as a node does
    (`Snapshots.parse`). None: the node does not look at it.

    Raises ValueError for a name at which the node ends: it takes the characters where an offset
    and an epoch should be, and does not look at the others.
    """
    if not name.endswith(_SNAPSHOT_ENDINGS):
        return None
    # A character beyond 16 bits has the place of two in Java.
    text = "".join(char if char <= "\uffff" else "\ud800\udc00" for char in name)
    offset = java_number(text[:_OFFSET_DIGITS], MAX_LONG)
    epoch = java_number(text[_EPOCH_AT:_EPOCH_END], MAX_INT)
    if len(text) < _EPOCH_END or offset is None or epoch is None:
        raise ValueError(name)
    return SnapshotName(offset, epoch, is_whole=name.endswith(_SNAPSHOT_ENDINGS[0]))


def java_number(text: str, limit: int) -> int | None:
    """Return what Java's `parseLong` or `parseInt` does, None where it throws: also at spaces."""
    number = int(text) if _JAVA_DIGITS.fullmatch(text) else None
    return number if number is not None and -limit - 1 <= number <= limit else None


def seen(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries of a directory that a broker sees. A JVM decodes names as UTF-8, or as
    ASCII, and finds no file under a name that it can't decode. So nothing of such a name counts,
    but a producer snapshot: from 3.0 on, a broker lists those in another way.
    """
    return [
        one
        for one in entries
        if one.name.isascii() or one.name.endswith(SNAPSHOT) or not _UNDECODED.search(one.name)
    ]


def segment_file(base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file: 20 digits and the suffix, such as `.log.swap`."""
    return f"{base_offset:020d}{suffix}"


@lru_cache(maxsize=4096)
def base_offset_of(name: str) -> int:
    """Return the number before the first dot of a file name (S1.10, `LogFileUtils.offsetFromFile`).

    Raises CorruptLogError unless it has the 20 digits that Kafka writes. Kafka's loader throws on a
    name without a number, and another spelling of the same number would be a second file for the
    same offset.
    """
    digits = name.partition(".")[0]
    if not _BASE_OFFSET.fullmatch(digits) or int(digits) > MAX_LONG:
        raise CorruptLogError(
            "a file name does not begin with an offset",
            expected="20 digits before the first dot",
            found=repr(name),
            hint="Kafka did not write it; move it out of the partition directory.",
        )
    return int(digits)
