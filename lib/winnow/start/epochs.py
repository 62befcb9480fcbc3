"""The leader epochs of a log while it is loaded (S8.9, Kafka's `LeaderEpochFileCache`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from winnow.logdir.checkpoints import fold_leader_epochs


def ascending(entries: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the entries that a broker keeps of a file in any order: each one removes those before
    it that do not lie below it.
    """
    kept: list[tuple[int, int]] = []
    for epoch, offset in entries:
        if kept and kept[-1][0] == epoch and offset >= kept[-1][1]:
            continue
        while kept and (kept[-1][0] >= epoch or kept[-1][1] >= offset):
            kept.pop()
        kept.append((epoch, offset))
    return kept


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
