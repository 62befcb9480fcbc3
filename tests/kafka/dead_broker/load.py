"""Clients that fill a broker until it dies and read from the next one (Load.java), and what they
may expect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.kafka.judge.child import Child

ANSWER_SECONDS = 120
ABSENT = "-"
"""In place of a digest: a tombstone."""


class Load(Child):
    """One JVM for several brokers. `topics` are lines as Load.java has them."""

    def __init__(self) -> None:
        super().__init__("Load", patience=ANSWER_SECONDS)

    def create(self, bootstrap: str, topics: Path) -> None:
        self._ask("topics", bootstrap, str(topics))

    def start_filling(self, bootstrap: str, topics: Path, acks: Path, *, seed: int) -> None:
        self._ask("fill", bootstrap, str(topics), str(acks), str(seed))

    def stop_filling(self) -> int:
        """Return the number of acknowledged records."""
        return self._ask("stop")

    def finish_transactions(self, bootstrap: str, topics: Path) -> None:
        self._ask("finish", bootstrap, str(topics))

    def read(self, bootstrap: str, isolation: str, to: Path) -> dict[str, Partition]:
        self._ask("read", bootstrap, isolation, str(to))
        return read_partitions(to)

    def _ask(self, *words: str) -> int:
        line = self.answer("\t".join(words))
        if not line.isdigit():
            raise self.failure(f"{' '.join(words)}: {line or 'the clients died'}")
        return int(line)


@dataclass(frozen=True, slots=True)
class Seen:
    """A record, as a producer or a consumer saw it."""

    offset: int
    timestamp: int
    key: str
    digest: str
    """Of the value; ABSENT for a tombstone."""


@dataclass(frozen=True, slots=True)
class Partition:
    """What a consumer got."""

    begin: int
    end: int
    records: dict[int, Seen] = field(default_factory=dict)
    """By offset."""


def read_partitions(file: Path) -> dict[str, Partition]:
    found: dict[str, Partition] = {}
    for kind, topic, partition, *rest in map(str.split, file.read_text().splitlines()):
        name = f"{topic}-{partition}"
        if kind == "p":
            begin, end = map(int, rest)
            found[name] = Partition(begin, end)
        else:
            one = _seen(rest)
            found[name].records[one.offset] = one
    return found


def _seen(words: Sequence[str]) -> Seen:
    offset, timestamp, key, digest = words[:4]
    return Seen(int(offset), int(timestamp), key, digest)


@dataclass(frozen=True, slots=True)
class Acks:
    """What a broker acknowledged until it died, by partition and offset."""

    records: dict[str, dict[int, Seen]]
    aborted: dict[str, set[int]]
    """Offsets of records whose transaction was aborted."""
    undecided: dict[str, set[int]]
    """Offsets of records of transactions whose end was not acknowledged."""
    committed_last: dict[str, set[int]]
    """Offsets of records of the last transaction whose commit was acknowledged."""

    def without_last_marker(self, names: Iterable[str]) -> Acks:
        """Return them as if the last commit in these partitions had not been acknowledged."""
        undecided = {name: self.undecided[name] | self.committed_last[name] for name in names}
        return replace(self, undecided=defaultdict(set, self.undecided | undecided))

    def committed(self, name: str) -> Iterator[Seen]:
        out = self.aborted[name] | self.undecided[name]
        return (one for offset, one in self.records[name].items() if offset not in out)

    def problems(
        self, name: str, found: Partition, *, policy: str, kept_from: int, committed_only: bool
    ) -> list[str]:
        """What a consumer misses that a broker had to keep. Times are ms since the epoch.

        policy: the topic's cleanup policy. kept_from: retention keeps every record with this
        timestamp or a later one. committed_only: the consumer read with `read_committed`.
        """
        wanted = list(self.committed(name)) if committed_only else [*self.records[name].values()]
        started = [one for one in wanted if one.offset >= found.begin]
        problems = []
        if "delete" in policy:
            gone = [
                one for one in wanted if one.offset < found.begin and one.timestamp >= kept_from
            ]
            problems += [f"{name}: retention keeps {one}, and it is gone" for one in gone]
        elif found.begin:
            problems.append(f"{name} begins at {found.begin}, and no retention is set")
        for one in started:
            read = found.records.get(one.offset)
            if read is not None and read != one:
                problems.append(f"{name}: acknowledged {one}, read {read}")
            if read is None and "compact" not in policy:
                problems.append(f"{name}: {one} was acknowledged and is gone")
        if "compact" in policy:
            problems += self._lost_keys(name, found, started)
        if committed_only and (bad := sorted(self.aborted[name] & found.records.keys())):
            problems.append(f"{name}: aborted records are read as committed: {bad[:5]}")
        return problems

    def _lost_keys(self, name: str, found: Partition, wanted: Sequence[Seen]) -> Iterator[str]:
        newest = {one.key: one for one in sorted(wanted, key=lambda one: one.offset)}
        read = {one.key: one for one in sorted(found.records.values(), key=lambda one: one.offset)}
        for key, one in newest.items():
            got = read.get(key)
            if one.digest == ABSENT and got is None:
                continue
            # A later one may have been written and not acknowledged.
            if got is None or got.offset < one.offset:
                yield f"{name}: the newest of {key} is {one}, and a consumer gets {got}"


def read_acks(file: Path) -> Acks:
    records: dict[str, dict[int, Seen]] = defaultdict(dict)
    of_transaction: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    ended: dict[str, set[tuple[str, str]]] = {"c": set(), "x": set()}
    for kind, topic, *rest in map(str.split, file.read_text().splitlines()):
        if kind != "a":
            ended[kind].add((topic, rest[0]))
            continue
        name, one, transaction = f"{topic}-{rest[0]}", _seen(rest[1:]), rest[5]
        records[name][one.offset] = one
        if transaction != "none":
            of_transaction[topic, transaction].append((name, one.offset))
    aborted: dict[str, set[int]] = defaultdict(set)
    undecided: dict[str, set[int]] = defaultdict(set)
    committed_last: dict[str, set[int]] = defaultdict(set)
    for transaction_of, places in of_transaction.items():
        offsets = defaultdict(set)
        for name, offset in places:
            offsets[name].add(offset)
        if transaction_of in ended["c"]:
            committed_last |= offsets
            continue
        for name in offsets:
            (aborted if transaction_of in ended["x"] else undecided)[name] |= offsets[name]
    return Acks(records, aborted, undecided, committed_last)
