"""The page that keeps what became of killed brokers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.machine import machine

COMPARISONS = (
    "cleaned, page cache kept",
    "cleaned, page cache lost",
    "recovered, page cache kept",
    "recovered, page cache lost",
)
PAGE = """\
# Killed brokers

Each broker is a real one (KRaft, one node), killed with SIGKILL at a random moment under load:
topics with retention by size and by time, compacted ones, both, and transactions with one left
open. Every fifth begins with an empty log directory, the others with that of the one before.

*Cleaned*: Winnow cleans a copy of what the broker left. Kafka's own classes recover another copy,
then clean it and delete from it, at the same clock. Then Kafka recovers what Winnow left. Both logs
must be the same: segments, batches, records, indexes. Where all records have expired, Winnow leaves
the active segment after a crash, and Kafka deletes it first.

*Recovered*: `recover --truncate` recovers a copy, Kafka's loader and a clean close another. Every
file must be the same, byte for byte.

*Page cache lost*: bytes above the recovery point were cut, zeroed or overwritten before.

    python -m tests.kafka.dead_broker.kills --seed N --record docs/proofs/killed-brokers.md

Each run adds to this page. The last one:
{day}, {machine}.

| of {count} kills | the same as Kafka |
|---|--:|
{same}

Logs that Kafka's own recovery fails on, and that do not count: {beyond}.

{head}
{rows}
"""


HEAD = """\
| seed | seconds under load | acknowledged | synced | recovery points | files torn | Kafka fails | \
same |
|--:|--:|--:|---|--:|--:|--:|---|
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A kill."""

    seed: int
    seconds: float
    acknowledged: int
    synced: bool
    recovery_points: int
    torn_files: int
    beyond_kafka: int
    same: tuple[bool, ...]
    """By COMPARISONS."""

    def __str__(self) -> str:
        same = " ".join("yes" if one else "no" for one in self.same)
        synced = "yes" if self.synced else "no"
        return (
            f"| {self.seed} | {self.seconds:.2f} | {self.acknowledged} | {synced} | "
            f"{self.recovery_points} | {self.torn_files} | {self.beyond_kafka} | {same} |"
        )


def read_row(line: str) -> Row:
    """Return the kill of a line of the page."""
    seed, seconds, acknowledged, synced, points, torn, beyond, same = (
        word.strip() for word in line.strip("|").split("|")
    )
    return Row(
        seed=int(seed),
        seconds=float(seconds),
        acknowledged=int(acknowledged),
        synced=synced == "yes",
        recovery_points=int(points),
        torn_files=int(torn),
        beyond_kafka=int(beyond),
        same=tuple(word == "yes" for word in same.split()),
    )


def add_to(page: Path, row: Row) -> None:
    """Add a kill to the page, and count anew."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    _, _, lines = text.partition(HEAD)
    rows = [*map(read_row, lines.splitlines()), row]
    counts = [sum(one.same[number] for one in rows) for number in range(len(COMPARISONS))]
    page.write_text(
        PAGE.format(
            day=f"{datetime.now(UTC):%Y-%m-%d}",
            machine=machine(),
            count=len(rows),
            same="\n".join(
                f"| {what} | {count} |" for what, count in zip(COMPARISONS, counts, strict=True)
            ),
            beyond=sum(one.beyond_kafka for one in rows),
            head=HEAD.rstrip(),
            rows="\n".join(map(str, rows)),
        ),
        encoding="utf-8",
    )
