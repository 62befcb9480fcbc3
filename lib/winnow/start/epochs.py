"""The leader epochs of a log while it is loaded (S8.9, Kafka's `LeaderEpochFileCache`)."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.logdir.checkpoints import fold_leader_epochs


class LeaderEpochs:
    """(epoch, start offset), ascending in both. `changed`: a broker would have written it anew."""

    def __init__(self, entries: Sequence[tuple[int, int]]) -> None:
        self.entries = list(entries)
        self.changed = False

    @property
    def latest(self) -> int:
        """-1: none."""
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, offset: int) -> None:
        """Add an epoch found in the log, if it is later than all that are known."""
        if epoch <= self.latest:
            return
        self.truncate_from_end(offset)
        self.entries.append((epoch, offset))
        self.changed = True

    def truncate_from_end(self, end_offset: int) -> None:
        while self.entries and self.entries[-1][1] >= end_offset:
            self.entries.pop()
            self.changed = True

    def truncate_from_start(self, start_offset: int) -> None:
        if any(offset <= start_offset for _, offset in self.entries):
            self.entries = list(fold_leader_epochs(self.entries, start_offset))
            self.changed = True

    def clear(self) -> None:
        self.entries = []
        self.changed = True
