"""The page that keeps what became of brokers whose disk was full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.machine import machine

PAGE = """\
# Brokers that die of a full disk, and their supervisors

A real broker (KRaft, one node) fills a real file system until it dies: topics with retention by
time, compacted topics. Its supervisor starts it again, up to five times, while the disk is full. A
broker that comes up is stopped as a person would stop it. Then [the page about full
disks](../how-to/disk-full.md) is followed word for word:

1. If a start has emptied the metadata log, `doctor`, `verify` and `recover --truncate` must refuse,
   and no marker of a clean shutdown may be written. The copy of `__cluster_metadata-0`, made when
   the broker had died, is put back.
2. `doctor`, then each command that `doctor` prints.
3. The broker starts, and consumers of both isolation levels read every acknowledged record that
   retention and compaction keep.

*Emptied by Kafka*: partitions whose segments had bytes before a start, and none after it. In Kafka
4.0 to 4.4 `LogLoader.recoverLog` treats every `IOException` as damage: "Found invalid offset during
recovery. Deleting the corrupt segment and creating an empty one". So a segment is emptied when its
producer snapshot can't be written, and all later segments are deleted. Kafka 3.9 stops instead.
Nothing brings these records back, unless they are still in `.deleted` files, which Winnow leaves.
*Missing*: acknowledged records that consumers miss in all other partitions.

Not in the table: a broker with a second log directory on the full disk and its metadata log
elsewhere. It stays in service without the full disk, and the printed commands do not always bring
it back. Kafka 3.9 has removed `.lock` there, and a run that changes something needs room for a new
one: a file that is no part of a log must be moved first. Kafka 4.3 and 4.4 may make a partition of
the full disk anew on the other disk, and do not start with both directories; `clean` and `recover`
leave such a partition alone.

    python -m tests.kafka.dead_broker.deaths --record docs/proofs/deaths.md

needs root, and the packages e2fsprogs, xfsprogs and btrfs-progs. Each run adds to this page, or
renews its lines. The last one: {day}, {machine}.

{head}
{rows}
"""
HEAD = """\
| file system | Kafka | starts: how each ended | emptied by Kafka | `doctor`'s commands end with | \
acknowledged | missing |
|---|---|---|---|---|--:|--:|
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A broker that died. Its words are those of the page."""

    disk: str
    version: str
    starts: str
    emptied: str
    commands: str
    acknowledged: str
    missing: str

    @property
    def words(self) -> Sequence[str]:
        return (
            *(self.disk, self.version, self.starts, self.emptied),
            *(self.commands, self.acknowledged, self.missing),
        )

    def __str__(self) -> str:
        return f"| {' | '.join(self.words)} |"


def read_row(line: str) -> Row:
    return Row(*(word.strip() for word in line.strip().strip("|").split("|")))


def add_to(page: Path, row: Row) -> None:
    """Add a row to the page, or renew it. The page is written anew."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    _, _, lines = text.partition(HEAD)
    rows = {(old.disk, old.version): old for old in map(read_row, lines.strip().splitlines())}
    rows[row.disk, row.version] = row
    page.write_text(
        PAGE.format(
            day=f"{datetime.now(UTC):%Y-%m-%d}",
            machine=machine(),
            head=HEAD.rstrip(),
            rows="\n".join(map(str, rows.values())),
        ),
        encoding="utf-8",
    )
