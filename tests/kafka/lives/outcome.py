"""The outcomes of lives that both Kafka and Winnow went through."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.kafka.lives.life import PRODUCER_EXPIRATION_MS, Life

BROKER = "node.id=1\n" + "".join(
    f"{name}={PRODUCER_EXPIRATION_MS}\n"
    for name in ("producer.id.expiration.ms", "transactional.id.expiration.ms")
)
"""Producers expire by the second one up to 3.3."""
FULL = "Attempt to append to a full"
FULL_INDEX = "the index of the cleaned segment would exceed segment.index.bytes"
THROWS: Mapping[str, tuple[str, str | None]] = {
    # S5.6: nothing is left of a batch that has to be kept, and of v0 or v1 there is no empty
    # header. Winnow writes one of v2; a broker never cleans such a partition again.
    "Empty batches are only supported for magic v2": ("no empty batch of v0 or v1", None),
    FULL: ("a full index", FULL_INDEX),
}
"""Part of what Kafka's cleaner throws: what the results call it, and what Winnow says then (None:
it has an answer).
"""
SNAPSHOT_IN_A_GAP = "beside its other files, found only snapshot"
"""Winnow takes it for the trace of a lost segment (`winnow.logdir.commit.lost`)."""
UNLIVED: Mapping[str, str] = {
    # An active segment's index is mapped in the size of segment.index.bytes, even if it is larger.
    "newPosition > limit": "an index that Kafka can't open",
}
"""Part of what Kafka's log throws that can't be opened or written to, and what the results call it.
"""


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
    committed: int = 0
    """Partitions that were prepared, written to, and committed then."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Preparations that a commit dropped, by the check."""
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
            "committed",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for counts, more in ((self.ended, other.ended), (self.dropped, other.dropped)):
            for why, count in more.items():
                counts[why] = counts.get(why, 0) + count
        self.differences += other.differences


Run = Callable[[Mapping[str, Life]], Outcome]
"""Lives all of these, by topic, from beginning to end."""
