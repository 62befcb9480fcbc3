"""What is staged of one partition: all that a commit needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.logdir.commit.journal import Journal
from winnow.logdir.commit.swap import StagedGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPartition:
    """Groups of one partition whose new segments are written, synced and verified, but not in the
    log. Plain values: a commit in another process can read them from a file.
    """

    directory: str
    staging: str
    """Sub-directory of `directory` with the new segments."""
    journal: Journal
    """The groups that earlier batches put in place, then those of `groups` and after them as
    waiting.
    """
    begun: bool
    """Whether the journal is on the disk, in the staging directory."""
    groups: tuple[CleanedGroup, ...]
    """Ascending."""
    is_last: bool
    """Whether no group of the partition remains after these."""

    @property
    def to_swap(self) -> list[StagedGroup]:
        """The new segments. A group that loses nothing has none, and its source stays."""
        return [group.staged for group in self.groups if group.staged is not None]
