"""What consumers get from a broker, by partition, and what follows from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.kafka.judge.broker import Broker

Record = tuple[int, str, str, tuple[str, ...]]
"""Offset, key, value, all else."""


@dataclass(slots=True)
class Partition:
    """`committed` and `all`: what consumers of each isolation level get."""

    begin: int
    end: int
    committed: list[Record] = field(default_factory=list)
    all: list[Record] = field(default_factory=list)

    @property
    def state(self) -> dict[str, Record]:
        """The last value of each key that was committed, tombstones left out."""
        return _state(self.committed)

    @property
    def uncommitted_state(self) -> dict[str, Record]:
        return _state(self.all)

    @property
    def has_undecided_or_aborted(self) -> bool:
        return {record[0] for record in self.all} != {record[0] for record in self.committed}


def read_all(broker: Broker) -> dict[str, Partition]:
    """Read every partition of a broker, those of internal topics too, from its begin to its end."""
    return parse(broker.records(offsets=True))


def parse(lines: Iterable[str]) -> dict[str, Partition]:
    """Parse the output of Records.java."""
    found: dict[str, Partition] = {}
    into = defaultdict[tuple[str, str], list[Record]](list)
    for line in lines:
        kind, topic, number, *rest = line.split(" ")
        name = f"{topic}-{number}"
        if kind == "offsets":
            found[name] = Partition(int(rest[0]), int(rest[1]))
        else:
            offset, timestamp, type_, key, value, headers = rest
            into[kind, name].append((int(offset), key, value, (timestamp, type_, headers)))
    for (kind, name), records in into.items():
        if kind == "read_committed":
            found[name].committed = records
        else:
            found[name].all = records
    return found


def _state(records: Iterable[Record]) -> dict[str, Record]:
    last = {record[1]: record for record in records if record[1] != "-"}
    return {key: record for key, record in last.items() if record[2] != "-"}
