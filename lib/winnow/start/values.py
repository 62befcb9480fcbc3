"""What a broker does with its log directories when it starts, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from winnow.logdir.names import DirectoryKind
from winnow.pickling import pickled_by_fields
from winnow.state import TopicPartition

_FUTURE = f"-{DirectoryKind.FUTURE.value}"


class Fate(StrEnum):
    """What a start does with a log, with a log directory, or with the broker. The order is that of
    the harm: of several fates the last one counts.
    """

    LOADS = "loads"
    """As it is."""
    RECOVERS = "recovers"
    """Batches are read again and indexes rebuilt. Only a torn end is cut."""
    UNKNOWN = "unknown"
    """It can't be predicted."""
    NOT_SERVED = "not-served"
    """The log is loaded, but the partition is not served: the directory is another topic's."""
    SET_ASIDE = "set-aside"
    """The log is renamed to `-stray` and not served."""
    LOSES = "loses-records"
    """Whole batches are deleted."""
    OFFLINE = "offline"
    """The log directory is taken offline. The broker stops if it has no other."""
    STOPS = "does-not-start"

    @property
    def harm(self) -> int:
        return list(Fate).index(self)

    @property
    def is_harmless(self) -> bool:
        return self in {Fate.LOADS, Fate.RECOVERS}


def worst(*fates: Fate) -> Fate:
    """Return the most harmful of these fates."""
    return max(fates, key=lambda fate: fate.harm, default=Fate.LOADS)


@pickled_by_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class LogStart:
    """What a start does with one log."""

    log_dir: str
    name: str
    """Of its directory."""
    topic_partition: TopicPartition
    fate: Fate
    reason: str = ""
    recovered_bytes: int = 0
    cut_bytes: int = 0
    """Bytes of logs that the start removes."""
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    by_other_nodes: bool = False
    """Whether the outcome depends on records of the metadata log that this node does not have."""
    already_lost: str = ""
    """Why records are missing whatever the start does. Empty: nothing shows a loss."""
    advice: str = ""
    """How to get these records back."""

    @property
    def harm(self) -> Fate:
        """The fate as far as it does harm: none if a replica that was being moved is set aside
        before it has a record, for the current log has all.
        """
        is_empty = (
            self.log_start_offset is not None and self.log_start_offset == self.log_end_offset
        )
        if self.fate is Fate.SET_ASIDE and is_empty and self.name.endswith(_FUTURE):
            return Fate.LOADS
        return self.fate


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirStart:
    """What a start does with one log directory."""

    path: str
    fate: Fate
    reasons: tuple[str, ...]
    logs: tuple[LogStart, ...]
    is_offline: bool = False
    """The broker takes the directory offline."""
    frees_first: bool = False
    """The file system is so full that a recovery would do harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopics:
    """The topics that a broker knows when it loads its logs.

    `replicas`: topic id -> partition -> nodes. None: it is unknown, or, with ZooKeeper, a broker
    sets nothing aside when it starts.
    """

    replicas: Mapping[str, Mapping[int, frozenset[int]]] | None
    directories: Mapping[str, Mapping[int, Mapping[int, str]]] = field(default_factory=dict)
    """Topic id -> partition -> node -> `directory.id` of the log directory with the replica, as far
    as the controller knows it.
    """
    in_sync: Mapping[str, Mapping[int, frozenset[int]]] = field(default_factory=dict)
    """Topic id -> partition -> those of its nodes that were in sync."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Topic id -> name."""
    log_dirs: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Node -> `directory.id` of each of its log directories when it started last."""
    log: str = ""
    """The metadata log that says so, for people."""
    catches_up: bool = False
    """The broker first fetches what the other nodes of its quorum have behind that log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStart:
    """What happens if the broker of these log directories starts now."""

    node_id: int | None
    fate: Fate
    reasons: tuple[str, ...]
    """Of the broker as a whole; those of directories and logs are with them."""
    log_dirs: tuple[LogDirStart, ...]
    of_broker: Fate = Fate.LOADS
    """That of the broker as a whole, whatever happens to its log directories."""
    left_out: int = 0
    """Logs that were not looked at."""
    made_anew: tuple[str, ...] = ()
    """Partitions that have no directory: the broker makes one without a record."""
    needs_quorum: bool = False
    """It takes the metadata log from other nodes, if a majority of the controllers has it."""
    caveat: str = ""
    """Why it may set other partitions aside than predicted. This is no reason against a start."""
    is_controller: bool = False
    """The node is only a controller."""
    unseen: tuple[str, ...] = ()
    """What the broker may read, too, and Winnow was not given, or does not read: it is behind a
    symbolic link. The reasons name it.
    """

    @property
    def is_safe(self) -> bool:
        """Whether the broker starts, keeps all records that its disks hold, and serves no log that
        has lost its end or is made anew: the followers of such a leader cut theirs.
        """
        return self.fate.is_harmless and not self._serves_less

    @property
    def is_harmful(self) -> bool:
        """Whether what was looked at speaks against a start: not only that something is unseen."""
        fates = {self.of_broker, *(one.fate for one in self.log_dirs)}
        if self.unseen:
            fates.discard(Fate.UNKNOWN)
        return not worst(*fates).is_harmless or self._serves_less

    @property
    def _serves_less(self) -> bool:
        logs = [log for log_dir in self.log_dirs for log in log_dir.logs]
        return bool(self.made_anew) or any(log.already_lost for log in logs)

    @property
    def only_needs_quorum(self) -> bool:
        """Whether the start does no harm if a majority of the controllers has the metadata log."""
        fates = [log_dir.fate for log_dir in self.log_dirs]
        lone = self.needs_quorum and len(self.reasons) == 1
        return lone and worst(*fates).is_harmless and not self._serves_less

    def logs(self, fate: Fate) -> list[LogStart]:
        return [log for log_dir in self.log_dirs for log in log_dir.logs if log.fate is fate]

    @property
    def recovered_bytes(self) -> int:
        return sum(log.recovered_bytes for log_dir in self.log_dirs for log in log_dir.logs)

    @property
    def cut_bytes(self) -> int:
        return sum(log.cut_bytes for log_dir in self.log_dirs for log in log_dir.logs)
