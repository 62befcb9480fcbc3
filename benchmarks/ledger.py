"""What the ledger costs a run: the same `clean` with and without it, in turns; writes
results/cost-of-the-ledger.md.

    .venv/bin/python benchmarks/ledger.py [--mib 64] [--repeat 9] [--case four-100B]

Needs the project set up (`./spark-submit.sh --version` does that) and a quiet machine. Every run
cleans a fresh copy of the same data with a warm page cache, in a session that stays and as a
command of its own. The ledger is one, empty at first, that each run with it adds a commit to.
Before anything is measured, each contestant has run once.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]

from benchmarks.cases import CASES  # noqa: E402 - needs the path above
from benchmarks.contestants import Measure, WarmWinnow, winnow_cold  # noqa: E402
from benchmarks.data import DATA, DataSet, data_set  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402
from benchmarks.report import MIB  # noqa: E402
from benchmarks.run import fresh  # noqa: E402

PAIRS = {"warm": "in a session that is warm", "cold": "as a command, from process start"}
MOST_SECONDS = 2.0
"""What it may cost."""
Taken = dict[tuple[str, bool], list[float]]
"""Seconds by contestant, without and with the ledger."""


def main() -> None:
    options = parse(sys.argv[1:])
    cores = os.cpu_count() or 1
    case = next(case for case in CASES if case.name == options.case)
    say(f"{case.name}: making the data, unless it is there")
    data = data_set(case, options.mib * MIB)
    scratch = Path(tempfile.mkdtemp(dir=DATA, prefix="ledger-"))
    try:
        with WarmWinnow(cores=cores) as warm:
            taken = measure(
                data, contestants(data, warm, scratch / "ledger", cores), options.repeat
            )
        commits = len([*(scratch / "ledger").glob("*/_delta_log/*.json")])
    finally:
        shutil.rmtree(scratch)
    if commits != len(PAIRS) * (options.repeat + 1):
        raise SystemExit(f"{commits} commits in the ledger, though each run with it makes one")
    options.output.write_text(report(data, taken, options, commits), encoding="utf-8")
    say(f"written: {options.output}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=64, help="raw size of the data")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--case", choices=[case.name for case in CASES], default="four-100B")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results" / "cost-of-the-ledger.md"
    )
    return parser.parse_args(arguments)


def contestants(
    data: DataSet, warm: WarmWinnow, ledger: Path, cores: int
) -> dict[tuple[str, bool], Callable[[Path], Measure]]:
    without, recorded = (
        ["--report", "none", "--no-ledger"],
        ["--report", "none", "--ledger", str(ledger)],
    )
    return {
        ("warm", False): lambda log_dir: warm.clean(data, log_dir),
        ("warm", True): lambda log_dir: warm.clean(data, log_dir, ledger=ledger),
        ("cold", False): lambda log_dir: winnow_cold(data, log_dir, cores=cores, options=without),
        ("cold", True): lambda log_dir: winnow_cold(data, log_dir, cores=cores, options=recorded),
    }


def measure(
    data: DataSet, runs: dict[tuple[str, bool], Callable[[Path], Measure]], repeat: int
) -> Taken:
    taken: Taken = {name: [] for name in runs}
    for turn in range(-1, repeat):
        # Who goes first changes from turn to turn: neither always finds what the other has left in
        # the caches.
        for name in sorted(runs, reverse=bool(turn % 2)):
            with fresh(data) as log_dir:
                seconds = runs[name](log_dir).seconds
            say(
                f"{turn + 1}/{repeat} {name[0]} {'with' if name[1] else 'without'} ledger: "
                f"{seconds:.2f} s"
            )
            if turn >= 0:
                taken[name].append(seconds)
    return taken


def report(data: DataSet, taken: Taken, options: argparse.Namespace, commits: int) -> str:
    now = dt.datetime.now(tz=dt.UTC)
    head = f"""\
# What the ledger costs a run

Made by `benchmarks/ledger.py --mib {options.mib} --repeat {options.repeat} --case {options.case}`
on {now:%Y-%m-%d}; medians of {options.repeat} runs, in turns. It may cost {MOST_SECONDS:.0f} s.

{describe_machine()}
* Data: {data.case.words}, {data.log_bytes / MIB:,.0f} MiB on disk.
  The ledger had {commits} commits at the end.

| `clean` | without s | with s | the ledger costs s | least-most with s |
|---|--:|--:|--:|--:|
"""
    lines = head.splitlines()
    for name, words in PAIRS.items():
        without, recorded = (statistics.median(taken[name, ledger]) for ledger in (False, True))
        spread = f"{min(taken[name, True]):.2f}-{max(taken[name, True]):.2f}"
        lines.append(
            f"| {words} | {without:.2f} | {recorded:.2f} | {recorded - without:.2f} | {spread} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
