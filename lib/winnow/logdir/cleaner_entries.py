"""Entries of cleaner checkpoints that lie in another log directory than their partition (S1.5).

A broker reads the cleaner checkpoints of all its log directories into one map. If two of them name
the same partition, its cleaner dies at the start ("Duplicate key"). This happens when somebody
moves a partition to another log directory by hand: the old entry is left behind, and the next
cleaning writes a second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.logdir.checkpoints import update_offset_checkpoint
from winnow.logdir.names import CLEANER_CHECKPOINT
from winnow.logdir.survey import LogDir
from winnow.state import TopicPartition
from winnow.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A partition with an entry in another log directory of its broker, or in several."""

    topic_partition: TopicPartition
    home: str | None
    """The log directory that holds the partition. None if none of the given ones does."""
    named_in: tuple[str, ...]
    """The log directories whose checkpoint names it."""

    @property
    def doubled(self) -> bool:
        """Whether a broker's cleaner would die of it."""
        return len(self.named_in) > 1


def misplaced_entries(log_dirs: Sequence[LogDir]) -> tuple[Misplaced, ...]:
    """Return them by node, then by partition, without partitions that have several directories."""
    found: list[Misplaced] = []
    log_dirs = [log_dir for log_dir in log_dirs if not log_dir.in_doubt]
    for node in dict.fromkeys(log_dir.meta.node_id for log_dir in log_dirs):
        mine = [log_dir for log_dir in log_dirs if log_dir.meta.node_id == node]
        if len(mine) == 1:
            continue
        homes = {partition: log_dir.path for log_dir in mine for partition in log_dir.partitions}
        named: dict[TopicPartition, list[str]] = {}
        for log_dir in mine:
            for partition in log_dir.cleaner_file:
                named.setdefault(partition, []).append(log_dir.path)
        for partition, places in sorted(named.items()):
            if any(partition in log_dir.duplicates for log_dir in mine):
                continue  # no directory is known to be its home
            home = homes.get(partition)
            if len(places) > 1 or home not in {None, *places}:
                found.append(Misplaced(partition, home, tuple(places)))
    return tuple(found)


def gather_entry(storage: Storage, entry: Misplaced, offset: int) -> None:
    """Keep one entry of a partition, in the checkpoint of its home. `offset`: its first dirty
    offset.

    The other entries are removed first. After a crash in between, the partition has no entry and
    is cleaned from its start.
    """
    if entry.home is None:
        return
    others = [place for place in entry.named_in if place != entry.home]
    for place, kept in (*((other, None) for other in others), (entry.home, offset)):
        path = f"{place}/{CLEANER_CHECKPOINT}"
        update_offset_checkpoint(storage, path, {entry.topic_partition: kept})
