"""What a cleaning costs as the input, its keys, its partitions and the cores grow; writes
cost-as-data-grows.md, .csv and .png.

    .venv/bin/python benchmarks/scaling.py [--mib 512] [--repeat 3]

Each point is cleaned in a session that is warm, on a fresh copy with a warm page cache. One thing
is varied at a time, from a point in the middle. Needs the project set up with what tests need
(`./run-tests.sh --version` does that) and a quiet machine, and with 512 MiB about 15 GB for the
data, which stays in `.cache/benchmarks/`.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))

from benchmarks.cases import Case  # noqa: E402 - needs the path above
from benchmarks.contestants import WarmWinnow  # noqa: E402
from benchmarks.data import DataSet, data_set  # noqa: E402
from benchmarks.machine import say  # noqa: E402
from benchmarks.peak import PeakMemory  # noqa: E402
from benchmarks.run import fresh  # noqa: E402
from benchmarks.scaling_model import TERMS, Point  # noqa: E402
from benchmarks.scaling_report import AXES, write  # noqa: E402

MIB = 1 << 20
WARM_UP = 2
"""Runs that pay for workers, kernels and Java's compiler."""
SIZES = (1 / 8, 1 / 4, 1 / 2, 3 / 4, 1, 3 / 2, 2)
UNIQUE = (0.01, 0.1, 0.3, 0.5, 0.8, 1 - 1e-3)
PARTITIONS = (1, 2, 4, 16, 64, 128)
VALUES = (32, 100, 300, 1024, 4096)


@dataclass(frozen=True, slots=True)
class Plan:
    """A point that is to be measured."""

    factor: str
    case: Case
    raw_bytes: int
    cores: int


def main() -> None:
    options = parse(sys.argv[1:])
    plans = list(plan(options.mib * MIB, os.cpu_count() or 1))
    if options.points:
        plans = plans[:: max(1, len(plans) // options.points)][: options.points]
    points: list[Point] = []
    for cores in sorted({plan.cores for plan in plans}, reverse=True):
        with WarmWinnow(cores=cores) as session:
            chosen = [plan for plan in plans if plan.cores == cores]
            for _ in range(WARM_UP):
                once(session, chosen[0])
            # In any order but that of their factor: what changes with time must not look like a
            # factor's doing.
            for plan_ in random.Random(0).sample(chosen, len(chosen)):
                points.append(measure(session, plan_, options.repeat))
                say(
                    f"{plan_.factor}, {plan_.case.words}, {cores} cores: {points[-1].seconds:.2f} s"
                )
    if len(points) < 2 * len(TERMS):
        raise SystemExit(f"{len(points)} points are too few for a model of {len(TERMS)} terms")
    order = list(AXES)
    points.sort(key=lambda point: (order.index(point.factor), AXES[point.factor][1](point)))
    write(
        points,
        options.output,
        command=f"benchmarks/scaling.py --mib {options.mib} --repeat {options.repeat}",
    )
    say(f"written: {options.output}/cost-as-data-grows.md")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=512, help="raw size of the point in the middle")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--points", type=int, default=0, help="only so many of them, to see that it runs"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results", help="a directory"
    )
    return parser.parse_args(arguments)


def plan(raw_bytes: int, cores: int) -> Iterator[Plan]:
    for size in SIZES:
        yield Plan("input size", case(), int(raw_bytes * size), cores)
    for unique in UNIQUE:
        yield Plan("unique keys", case(unique=unique), raw_bytes, cores)
    for value in VALUES:
        yield Plan("record size", case(value=value), raw_bytes, cores)
    for partitions in PARTITIONS:
        yield Plan("partitions", case(partitions=partitions), raw_bytes, cores)
    for fewer in sorted({1, 2, max(1, cores // 2), cores}):
        yield Plan("cores", case(partitions=4), raw_bytes, fewer)


def case(*, unique: float = 0.5, value: int = 100, partitions: int = 1) -> Case:
    """The same data for the same arguments, made once."""
    name = f"scaling-{unique:.3f}-{value}B-{partitions}"
    return Case(name, unique=unique, value_bytes=value, partitions=partitions)


def once(session: WarmWinnow, plan_: Plan) -> tuple[float, dict[str, Any], PeakMemory, DataSet]:
    data = data_set(plan_.case, plan_.raw_bytes)
    with fresh(data) as log_dir, PeakMemory(session.pid) as peak:
        found, profile = session.clean_profiled(data, log_dir)
    return found.seconds, profile, peak, data


def measure(session: WarmWinnow, plan_: Plan, repeat: int) -> Point:
    """Times are medians; memory is the most of all runs."""
    runs = [once(session, plan_) for _ in range(repeat)]
    data = runs[0][3]

    def total(name: str) -> float:
        return statistics.median(
            sum(phase[name] for phase in profile["phases"]) for _, profile, _, _ in runs
        )

    return Point(
        factor=plan_.factor,
        cores=plan_.cores,
        partitions=plan_.case.partitions,
        log_bytes=data.log_bytes,
        records=data.records,
        keys=round(data.records * plan_.case.unique),
        seconds=statistics.median(seconds for seconds, *_ in runs),
        task_seconds=total("task_seconds"),
        driver_seconds=total("driver_seconds"),
        shuffled_bytes=int(total("shuffle_bytes_written")),
        written_bytes=int(total("bytes_written")),
        peak_bytes=max(peak.bytes for _, _, peak, _ in runs),
        anonymous_bytes=max(peak.anonymous_bytes for _, _, peak, _ in runs),
    )


if __name__ == "__main__":
    main()
