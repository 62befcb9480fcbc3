"""A log before and after a broker's loader, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from winnow.logdir.commit.truncation import Truncation
from winnow.logdir.names import DirectoryKind
from winnow.policy.config import TopicConfig
from winnow.policy.sources import Unknown
from winnow.state import ProducerEntry, TopicPartition


def is_compacted(config: TopicConfig | Unknown, *, has_been: bool) -> bool | None:
    """Return whether a topic is compacted, None if that is not known. `has_been`: the cleaner's
    checkpoint has an offset of the partition.
    """
    known = None if isinstance(config, Unknown) else config.known_to_compact
    return known if known is not None else has_been or None


def is_without_gaps(config: TopicConfig | Unknown, *, has_been: bool) -> bool:
    """Return whether no cleaner has left out batches of a topic, as far as settings and the
    cleaner's checkpoint tell it: see `is_compacted`.
    """
    return not has_been and is_compacted(config, has_been=False) is False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToLoad:
    """A log directory of a partition, and what a loader knows before it opens it."""

    log_dir: str
    name: str
    kind: DirectoryKind
    topic_partition: TopicPartition
    log_start_checkpoint: int
    recovery_point: int
    config: TopicConfig | Unknown
    now: int
    """The broker's clock, ms."""
    bytes: int
    """Of its logs, about: decides which are read first."""
    error: str | None
    """Why it can't be recovered, if that is known before it is read."""
    users: tuple[int, ...]
    """As whom the broker may run: see `start.rights`."""
    behind_link: bool = False
    """Its directory, or an entry in it, is a symbolic link."""
    clean_shutdown: bool = False
    """There is a marker: a loader recovers only segments without an offset index."""
    one_byte_versions: bool = True
    """See `Rules`."""
    renames_swaps: bool = True
    """The loader renames `.swap` files and reads nothing of them but their end (from 3.0 on)."""
    high_watermark: int = 0
    """Of the checkpoint, 0 if there is none."""
    has_been_compacted: bool = False
    """The cleaner's checkpoint has an offset of it."""

    @property
    def compacts(self) -> bool | None:
        return is_compacted(self.config, has_been=self.has_been_compacted)

    @property
    def has_no_gaps(self) -> bool:
        return is_without_gaps(self.config, has_been=self.has_been_compacted)

    @property
    def directory(self) -> str:
        return f"{self.log_dir}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    """A log as it will be after its recovery."""

    truncation: Truncation
    log_start_offset: int
    log_end_offset: int
    log_start_to_write: int | None
    """For the checkpoint: a broker writes the log start only if the segments don't show it."""
    recovered_bytes: int = 0
    """Bytes of the logs whose batches are read again."""
    txnindexes: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """By base offset: the transaction indexes that are rebuilt and have entries."""
    producers: tuple[ProducerEntry, ...] = field(default=(), repr=False)
    """Those that are known at the log end."""
