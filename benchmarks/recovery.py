"""How fast the end of a log is read after an unclean shutdown; writes reading-after-a-crash.md.

    .venv/bin/python benchmarks/recovery.py [--mib 4096] [--partitions 500] [--repeat 5]

Needs the project set up (`./spark-submit.sh --version` does that) and a quiet machine. Two log
directories without a marker and without a recovery point: one partition of `--mib`, and
`--partitions` of 8 MiB. In turns: `cat` of all segments, Winnow's reading in a session that stays,
and Kafka's LogManager in a JVM that stays, with two recovery threads. Kafka's time ends when the
logs are loaded and closed. Each contestant runs once before anything is measured.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]

from benchmarks.cases import Case  # noqa: E402 - needs the path above
from benchmarks.contestants import ContestantFailedError, session_environment  # noqa: E402
from benchmarks.data import DATA, NOW, DataSet, data_set, fresh_copy  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402
from tests.kafka.judge.judge import Kafka  # noqa: E402

MIB = 1 << 20
SMALL_MIB = 8
"""Of each of many partitions."""
MOST_TIMES_CAT = 1.4
"""Aim for a cold cache."""
LEAST_TIMES_KAFKA = 1.5
"""Aim for one partition and a warm cache."""
Taken = dict[tuple[str, str], list[float]]
"""Seconds by contestant and cache."""


def main() -> None:
    if sys.argv[1:] == ["session"]:
        session()
        return
    options = parse(sys.argv[1:])
    cases = {
        "one": (Case("recovery-one"), options.mib),
        "many": (
            Case("recovery-many", partitions=options.partitions),
            options.partitions * SMALL_MIB,
        ),
    }
    found: dict[str, tuple[DataSet, Taken]] = {}
    with Session(os.cpu_count() or 1) as winnow, Kafka(timeout_seconds=3600) as kafka:
        for name, (case, mib) in cases.items():
            say(f"{name}: making the data, unless it is there")
            data = data_set(case, mib * MIB)
            found[name] = data, measure(data, winnow, kafka, options.repeat)
    options.output.write_text(report(found, options), encoding="utf-8")
    say(f"written: {options.output}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=4096, help="raw size of the one partition")
    parser.add_argument("--partitions", type=int, default=500, help="of 8 MiB each")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results" / "reading-after-a-crash.md"
    )
    return parser.parse_args(arguments)


class Session:
    """A Spark session in a process of its own that reads the log directories given to it."""

    def __init__(self, cores: int) -> None:
        self._log = tempfile.NamedTemporaryFile(prefix="winnow-recovery-", suffix=".log")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, __file__, "session"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=session_environment(cores),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def read(self, log_dir: Path) -> float:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise ContestantFailedError("the session's pipes are not open")
        stdin.write(f"{log_dir}\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise ContestantFailedError(
                f"the session ended\n{Path(self._log.name).read_text()[-3000:]}"
            )
        return float(json.loads(line))


def session() -> None:
    """Read each log directory named on stdin, and answer with the seconds that it took."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - in a session only

    from winnow.logdir.survey import survey_log_dirs  # noqa: PLC0415
    from winnow.runtime.progress import Silence  # noqa: PLC0415
    from winnow.storage.local import LocalStorage  # noqa: PLC0415
    from winnow.survey.place import ListedPartition, PartitionPlace  # noqa: PLC0415
    from winnow.survey.survey import list_partitions  # noqa: PLC0415

    spark = SparkSession.builder.appName("winnow-benchmark").getOrCreate()
    for line in sys.stdin:
        begin = time.perf_counter()
        (log_dir,) = survey_log_dirs(LocalStorage(), [line.strip()])
        places = [PartitionPlace(log_dir.path, one, recovery_point=0) for one in log_dir.partitions]
        listed = list_partitions(spark.sparkContext, places, Silence())
        seconds = time.perf_counter() - begin
        for one in listed:
            if not isinstance(one, ListedPartition) or one.listing.recovered is None:
                raise ContestantFailedError(f"not read: {one}")
        sys.stdout.write(f"{json.dumps(seconds)}\n")
        sys.stdout.flush()
    spark.stop()


def measure(data: DataSet, winnow: Session, kafka: Kafka, repeat: int) -> Taken:
    runs: dict[str, Callable[[Path], float]] = {
        "cat": cat,
        "Winnow": winnow.read,
        "Kafka": lambda log_dir: float(kafka.recover(log_dir, now=NOW, threads=2)[0]["wall_s"]),
    }
    taken: Taken = {(name, cache): [] for name in runs for cache in ("warm", "cold")}
    with tempfile.TemporaryDirectory(dir=DATA, prefix="recovery-") as scratch:
        for turn in range(-1, repeat):
            for name, run in sorted(runs.items(), reverse=bool(turn % 2)):
                for cache in ("warm", "cold"):
                    log_dir = fresh_copy(data, Path(scratch) / f"{turn}-{name}-{cache}")
                    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
                    (log_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
                    if cache == "warm":
                        cat(log_dir)
                    else:
                        drop(log_dir)
                    seconds = run(log_dir)
                    say(f"{turn + 1}/{repeat} {data.case.name} {cache} {name}: {seconds:.3f} s")
                    if turn >= 0:
                        taken[name, cache].append(seconds)
    return taken


def cat(log_dir: Path) -> float:
    files = [str(path) for path in sorted(log_dir.glob("*/*.log"))]
    begin = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        subprocess.run(["cat", *files], stdout=nowhere, check=True)
    return time.perf_counter() - begin


def drop(log_dir: Path) -> None:
    """Drop the segments from the page cache."""
    for path in log_dir.glob("*/*.log"):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def report(found: dict[str, tuple[DataSet, Taken]], options: argparse.Namespace) -> str:
    head = f"""\
# How fast the end of a log is read after an unclean shutdown

Made by `benchmarks/recovery.py --mib {options.mib} --partitions {options.partitions} \
--repeat {options.repeat}`
on {dt.datetime.now(tz=dt.UTC):%Y-%m-%d}; medians of {options.repeat} runs, in turns. With a cold
cache Winnow may take {MOST_TIMES_CAT} x `cat`. With a warm one, Kafka must take at least
{LEAST_TIMES_KAFKA} x as long as Winnow for one partition, and at least as long for many.

{describe_machine()}

| logs | cache | `cat` s | Winnow s | Kafka s | Winnow / `cat` | Kafka / Winnow |
|---|---|--:|--:|--:|--:|--:|
"""
    lines = head.splitlines()
    for data, taken in found.values():
        words = f"{data.case.partitions} x {data.log_bytes / data.case.partitions / MIB:,.0f} MiB"
        for cache in ("warm", "cold"):
            cat_s, winnow_s, kafka_s = (
                statistics.median(taken[name, cache]) for name in ("cat", "Winnow", "Kafka")
            )
            lines.append(
                f"| {words} | {cache} | {cat_s:.2f} | {winnow_s:.2f} | {kafka_s:.2f} "
                f"| {winnow_s / cat_s:.2f} | {kafka_s / winnow_s:.2f} |"
            )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
