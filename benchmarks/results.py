"""What was measured of a case and size the last time, kept in a file of its own: the table is made
of all of them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias

from benchmarks.cases import CASES, Case
from benchmarks.contestants import Measure
from benchmarks.data import DataSet
from benchmarks.machine import describe_hardware, load_average

STORE = Path(__file__).resolve().parent / "results" / "cases"
Runs: TypeAlias = Mapping[str, Sequence[Measure]]
"""By contestant, one for each turn."""


@dataclass(frozen=True, slots=True)
class Result:
    case: Case
    mib: int
    """Keys and values, not compressed."""
    log_bytes: int
    records: int
    runs: Runs
    machine: str = field(default_factory=describe_hardware)
    load: float | None = field(default_factory=load_average)
    """At the end. None where it was not kept."""
    memory_at_hand: bool = True
    """See `benchmarks.data.take_memory`."""
    read_back_seconds: float | None = None
    """Of the tasks of one more run of `warm`, in which they read back what they wrote."""
    date: str = field(default_factory=lambda: dt.datetime.now(tz=dt.UTC).date().isoformat())

    @classmethod
    def of(cls, data: DataSet, mib: int, runs: Runs, read_back_seconds: float | None) -> Result:
        return cls(
            data.case,
            mib,
            data.log_bytes,
            data.records,
            runs,
            read_back_seconds=read_back_seconds,
        )


def save(result: Result, store: Path = STORE) -> None:
    store.mkdir(parents=True, exist_ok=True)
    names = (
        "mib",
        "log_bytes",
        "records",
        "machine",
        "load",
        "memory_at_hand",
        "date",
        "read_back_seconds",
    )
    fields = {name: getattr(result, name) for name in names}
    runs = {name: [asdict(run) for run in taken] for name, taken in result.runs.items()}
    text = json.dumps(fields | {"runs": runs}, indent=1)
    (store / f"{result.case.name}-{result.mib}MiB.json").write_text(f"{text}\n", encoding="utf-8")


def load_results(store: Path = STORE) -> list[Result]:
    """In the order of the cases, small before large."""
    found = [_loaded(case, path) for case in CASES for path in store.glob(f"{case.name}-*MiB.json")]
    order = [case.name for case in CASES]
    return sorted(found, key=lambda result: (order.index(result.case.name), result.mib))


def _loaded(case: Case, path: Path) -> Result:
    fields = json.loads(path.read_text(encoding="utf-8"))
    runs = {name: [Measure(**run) for run in taken] for name, taken in fields.pop("runs").items()}
    return Result(case=case, runs=runs, **fields)
