"""The outcomes of lives that both Kafka and Winnow went through."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.kafka.lives.life import Life


@dataclass(frozen=True, slots=True)
class Difference:
    name: str
    life: Life
    when: str
    what: str

    @property
    def kind(self) -> str:
        """What differences that may have the same cause have in common."""
        return re.sub(r"\d+", "N", self.what.partition("\n")[0])[:50]


@dataclass(slots=True)
class Outcome:
    """What was compared, and what was not the same. A pass is one of one partition; bytes are those
    written.
    """

    lives: int = 0
    passes: int = 0
    compacted: int = 0
    unchanged: int = 0
    """Segments that Winnow did not write, because Kafka's cleaner would write the same files."""
    unread: int = 0
    """Those of them that it did not even read."""
    retained: int = 0
    undone: int = 0
    """Passes that kept what they replaced, and whose undo gave back every byte."""
    refused: int = 0
    """Undos that were refused because another pass had changed the log."""
    batches: int = 0
    records: int = 0
    bytes: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    """How many lives ended early, since Kafka could not go on, by names of THROWS and UNLIVED."""
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        for name in (
            "lives",
            "passes",
            "compacted",
            "unchanged",
            "unread",
            "retained",
            "undone",
            "refused",
            "batches",
            "records",
            "bytes",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for why, count in other.ended.items():
            self.ended[why] = self.ended.get(why, 0) + count
        self.differences += other.differences


Run = Callable[[Mapping[str, Life]], Outcome]
"""Lives all of these, by topic, from beginning to end."""
