"""Winnow beside Kafka's own cleaner on the same data and machine, in turns; writes beside-kafka.md.

    .venv/bin/python benchmarks/run.py [--mib 2048] [--repeat 5] [--case one-100B lz4-100B]
        [--only kafka warm]

Needs the project set up (`./spark-submit.sh --version` does that) and a quiet machine. Kafka's jars
are fetched on first use. Every run cleans a fresh copy with a warm page cache; the runs alternate,
so that a busy moment hits all alike. Figures are medians. The data of a case are made before it and
removed after it, unless `--keep-data`. What was measured of a case goes to `results/`, and
beside-kafka.md is made of all that is there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
# Like everything else that runs here.
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))

from benchmarks.cases import CASES  # noqa: E402 - needs the path above
from benchmarks.contestants import (  # noqa: E402
    Measure,
    WarmKafka,
    WarmWinnow,
    copy,
    disk,
    kafka,
    older_part_first,
    winnow_cold,
)
from benchmarks.data import (  # noqa: E402
    DATA,
    DataSet,
    data_set,
    fresh_copy,
    remove_data,
    take_memory,
    warm_page_cache,
)
from benchmarks.machine import say  # noqa: E402
from benchmarks.report import MIB, report  # noqa: E402
from benchmarks.results import Result, Runs, load_results, save  # noqa: E402
from winnow.wire.batch import Codec  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "beside-kafka.md"
FLOORS = ("copy", "disk")
CONTESTANTS = ("kafka", "kafka-1GiB", "kafka-warm", "warm", "cold", *FLOORS)


def main() -> None:
    options = parse(sys.argv[1:])
    cores = os.cpu_count() or 1
    with ExitStack() as stack:
        warm = stack.enter_context(WarmWinnow(cores=cores)) if "warm" in options.only else None
        warm_kafka = stack.enter_context(WarmKafka()) if "kafka-warm" in options.only else None
        for case in CASES:
            if case.name not in options.case:
                continue
            say(f"{case.name}: making the data, unless it is there")
            raw_bytes = round(case.mib(options.mib) * MIB)
            data = data_set(case, raw_bytes)
            runs = measure(
                data, contestants(data, warm, warm_kafka, cores), options.only, options.repeat
            )
            read_back = None if warm is None else read_back_seconds(data, warm)
            save(Result.of(data, round(case.mib(options.mib)), runs, read_back))
            RESULTS.write_text(report(load_results()), encoding="utf-8")
            if not options.keep_data:
                remove_data(case, raw_bytes)
    say(f"written: {RESULTS}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [case.name for case in CASES]
    parser.add_argument(
        "--mib",
        type=int,
        default=2048,
        help="raw size of each case but those of a fixed size; those that were compacted before "
        "have 4 times as much",
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--case", nargs="+", choices=names, default=names)
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument(
        "--keep-data", action="store_true", help="for the next time: up to 8 GiB a case"
    )
    options = parser.parse_args(arguments)
    if "disk" in options.only and "warm" not in options.only:
        parser.error("`disk` writes as much as `warm` left: both, or none")
    return options


def contestants(
    data: DataSet, warm: WarmWinnow | None, warm_kafka: WarmKafka | None, cores: int
) -> dict[str, Callable[[Path], Measure]]:
    """By name: each takes a fresh copy and cleans it; floors make their own."""
    threads = min(cores, data.case.partitions)
    runs: dict[str, Callable[[Path], Measure]] = {
        "kafka": lambda log_dir: kafka(data, log_dir, dedupe_mib=128 // threads, threads=threads),
        "kafka-1GiB": lambda log_dir: kafka(
            data, log_dir, dedupe_mib=1024 // threads, threads=threads
        ),
        "cold": partial(older_part_first, data, partial(winnow_cold, data, cores=cores)),
        "copy": lambda log_dir: copy(data, log_dir / "copy"),
    }
    if warm is not None:
        runs["warm"] = partial(older_part_first, data, partial(warm.clean, data))
        runs["disk"] = lambda log_dir: disk(log_dir / "disk", warm.left, cores=cores)
    if warm_kafka is not None:
        runs["kafka-warm"] = lambda log_dir: warm_kafka.clean(
            data, log_dir, dedupe_mib=1024 // threads, threads=threads
        )
    return runs


def measure(
    data: DataSet, runs: dict[str, Callable[[Path], Measure]], names: Sequence[str], repeat: int
) -> Runs:
    measures: dict[str, list[Measure]] = {name: [] for name in CONTESTANTS if name in names}
    for name in {"warm", "kafka-warm"} & measures.keys():
        with fresh(data) as log_dir:  # the first one pays for workers, kernels, and Java's compiler
            runs[name](log_dir)
    for turn in range(repeat):
        for name, taken in measures.items():
            with fresh(data) as log_dir:
                taken.append(runs[name](log_dir))
            last = taken[-1]
            say(
                f"{data.case.name} {turn + 1}/{repeat} {name}: {last.seconds:.2f} s, "
                f"{last.bytes_after:,} B left"
            )
    check_same_result(data, measures)
    return measures


def read_back_seconds(data: DataSet, warm: WarmWinnow) -> float:
    """In one more run, which is profiled: seconds of all tasks in which they read back what they
    wrote.
    """
    profile: dict[str, Any] = {}

    def clean(log_dir: Path, *, ledger: Path | None = None) -> Measure:
        nonlocal profile
        measured, profile = warm.clean_profiled(data, log_dir, ledger=ledger)
        return measured

    with fresh(data) as log_dir:
        older_part_first(data, clean, log_dir)
    return sum(phase["read_back_seconds"] for phase in profile["phases"])


class fresh:  # noqa: N801 - reads as a verb
    """A fresh copy of the data with everything written, the page cache warm and memory at hand,
    gone afterwards.
    """

    def __init__(self, data: DataSet) -> None:
        self._data = data
        self._root = Path(tempfile.mkdtemp(dir=DATA, prefix="run-"))

    def __enter__(self) -> Path:
        copied = fresh_copy(self._data, self._root / "log-dir")
        warm_page_cache(self._data)
        os.sync()
        take_memory(self._data.log_bytes)
        return copied

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._root)


def check_same_result(data: DataSet, measures: Runs) -> None:
    """Fail if the cleaners leave different results. Sizes may differ a little by codec, and where
    Kafka needs several rounds.
    """
    runs = [(name, run) for name, taken in measures.items() if name not in FLOORS for run in taken]
    in_one_round = [run.bytes_after for _, run in runs if run.rounds == 1]
    _check_spread(data, runs, in_one_round, 0 if data.case.codec is Codec.NONE else 0.05)
    _check_spread(data, runs, [run.bytes_after for _, run in runs], 0.05)


def _check_spread(
    data: DataSet, runs: Sequence[tuple[str, Measure]], sizes: Sequence[int], most: float
) -> None:
    if sizes and max(sizes) - min(sizes) > most * min(sizes):
        left = sorted({(name, run.bytes_after) for name, run in runs})
        raise SystemExit(
            f"{data.case.name}: the contestants left different amounts of data: {left}"
        )


if __name__ == "__main__":
    main()
