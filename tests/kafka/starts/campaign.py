"""Start brokers on states, and compare their fates with the verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.disks import memory
from tests.kafka.starts.bases import broker_on
from tests.kafka.starts.compare import claims, differences
from tests.kafka.starts.fate import Fate, listing
from tests.kafka.starts.known import unexplained
from tests.kafka.starts.recorded import Record
from tests.kafka.starts.start import made, start
from tests.kafka.starts.table import State
from tests.kafka.starts.verdict import Verdict, verdict


@dataclass(frozen=True, slots=True)
class Judged:
    state: State
    fate: Fate
    verdict: Verdict
    differences: list[str]

    @property
    def unexplained(self) -> list[str]:
        return unexplained(self.state, self.differences)

    def words(self) -> str:
        lines = [f"{self.state.version} {self.state.name}"]
        lines += [f"   differs: {one}" for one in self.differences]
        lines += [f"   verdict: {self.verdict.fate}", *(f"     {r}" for r in self.verdict.reasons)]
        lines += [f"   broker: {self.fate.words}", *(f"     {w}" for w in self.fate.why[:3])]
        return "\n".join(lines)


def started(states: Iterable[State], *, jobs: int) -> Iterator[tuple[State, Fate]]:
    """Start a broker on each state, some at a time."""

    def one(state: State) -> tuple[State, Fate]:
        return state, start(state, _scratch()).fate

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, states)


def judged(record: Record, state: State, fate: Fate) -> Judged:
    """What Winnow says of a state beside what became of it."""
    scratch = _scratch()
    with made(state, scratch) as root:
        before = listing(root)
        properties = broker_on(state.version, root, scratch / "home").properties
        told = verdict(state.version, root, properties)
        without = verdict(state.version, root, None)
    undamaged = record.undamaged(state.kind)
    found = differences(told, fate, before, undamaged)
    if not state.has_settings:
        found += [f"{one} (no server.properties)" for one in claims(without, fate, undamaged)]
    return Judged(state, fate, told, found)


def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="winnow-starts-", dir=memory()))
