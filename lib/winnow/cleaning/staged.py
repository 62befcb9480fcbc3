"""What is staged of one partition: all that a commit needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.logdir.commit.journal import Journal
from winnow.logdir.commit.swap import StagedGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPartition:
    """The staged groups of one partition: their output segments are written, synced and verified,
    but not yet part of the log. All fields are plain values, so that the commit can run in another
    process.
    """

    directory: str
    staging: str
    """Sub-directory of `directory` with the new segments."""
    journal: Journal
    """Lists all groups; those of `groups`, and those after them, as waiting."""
    begun: bool
    """Whether the journal is on the disk, in the staging directory."""
    total_groups: int
    """Of this run."""
    placed: tuple[CleanedGroup, ...] = ()
    """Groups that this run has put in place."""
    groups: tuple[CleanedGroup, ...] = ()
    """Groups that are staged now, ascending. Empty: nothing is."""
    commits_ms: int = 0
    """The time that the commits of `placed` have taken."""
    summaries: str | None = None
    """Directory for the summaries of its groups (`cleaning.summaries`). None: none are made."""
    unique_keys: bool = False
    """See `PartitionJob.unique_keys`."""

    @property
    def is_last(self) -> bool:
        """Whether no group of the partition remains after these."""
        return len(self.placed) + len(self.groups) == self.total_groups

    @property
    def to_swap(self) -> list[StagedGroup]:
        """The new segments. A group that loses nothing has none, and its source stays."""
        return [group.staged for group in self.groups if group.staged is not None]

    @property
    def duration_ms(self) -> int:
        """The time spent on rewriting and committing `placed`."""
        return self.commits_ms + sum(group.duration_ms for group in self.placed)
