"""Rows per second of `spark.read.format("kafka-log")`, by columns, codec and cores; writes
rows-of-kafka-log.md.

    .venv/bin/python benchmarks/kafka_log.py [--mib 1024] [--repeat 3]

Each session reads the first columns four times to get warm, others once; the first time has a
column of its own. Spark makes every row: what it makes of them goes to its `noop` sink. Needs the
project set up, and a quiet machine.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))

from benchmarks.cases import CASES  # noqa: E402 - needs the path above
from benchmarks.cold import cpu_of_tree  # noqa: E402
from benchmarks.contestants import session_environment  # noqa: E402
from benchmarks.data import data_set  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402

AIM = 3e6
"""Rows per second and core of the smallest schema."""
COLD = 8
"""Readings that a session begins with and that do not count: so long its JVM compiles what each row
goes through.
"""
CHOSEN = ("one-100B", "lz4-100B")
SCHEMAS = {
    "offset": "offset bigint",
    "offset, timestamp": "offset bigint, timestamp timestamp",
    "topic, partition, offset, timestamp, key": "topic string, partition int, offset bigint, "
    "timestamp timestamp, "
    "key binary",
    "key, value, offset": "key binary, value binary, offset bigint",
    "all 24": "",
}
FLAGS = {"Winnow's": None, "the JVM's own": ""}
"""What `spark.driver.defaultJavaOptions` is for verbs, and for scripts (docs/kafka-log.md)."""

HEADS = (
    *(
        "data",
        "Java flags",
        "cores",
        "columns",
        "first, s",
        "s",
        "million rows/s",
        "for each core",
        "CPU s",
    ),
    "million rows per CPU s",
)


@dataclass(frozen=True, slots=True)
class Measured:
    case: str
    flags: str
    cores: int
    columns: str
    rows: int
    first: float
    """Seconds of the first reading of these columns in its session."""
    seconds: float
    """Median seconds of the later readings."""
    cpu_seconds: float
    """Of Java and Python together, compilers included."""

    @property
    def per_core(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds / self.cores

    @property
    def per_cpu_second(self) -> float:
        return self.rows / self.cpu_seconds


def main() -> None:
    options = parse(sys.argv[1:])
    if options.read:
        sys.stdout.writelines(
            f"{json.dumps(found)}\n" for found in read(options.read, options.repeat)
        )
        return
    command = shlex.join(["benchmarks/kafka_log.py", *sys.argv[1:]])
    measured: list[Measured] = []
    for case in (case for case in CASES if case.name in options.case):
        data = data_set(case, options.mib << 20)
        for (whose, flags), cores in product(
            ((whose, FLAGS[whose]) for whose in options.flags), options.cores
        ):
            say(f"{case.words}: local[{cores}], flags: {whose}")
            taken = in_session(str(data.log_dir), cores=cores, flags=flags, repeat=options.repeat)
            measured += [
                Measured(case.words, whose, cores, name, data.records, *s) for name, s in taken
            ]
            options.output.write_text(report(measured, command, options.mib), encoding="utf-8")
    say(f"written: {options.output}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=1024, help="keys and values, not compressed")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--case", nargs="+", choices=CHOSEN, default=CHOSEN)
    parser.add_argument("--flags", nargs="+", choices=list(FLAGS), default=list(FLAGS))
    parser.add_argument("--cores", nargs="+", type=int, default=[1, 2])
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results" / "rows-of-kafka-log.md"
    )
    parser.add_argument("--read", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def in_session(
    log_dir: str, *, cores: int, flags: str | None, repeat: int
) -> list[tuple[str, tuple[float, ...]]]:
    """By columns, in a session of its own: what `read` says."""
    conf = [] if flags is None else ["--conf", f"spark.driver.defaultJavaOptions={flags}"]
    done = subprocess.run(
        [sys.executable, __file__, "--read", log_dir, "--repeat", str(repeat)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=session_environment(cores, conf=conf),
    )
    return [(name, tuple(taken)) for name, taken in map(json.loads, done.stdout.splitlines())]


def read(log_dir: str, repeat: int) -> Iterator[tuple[str, tuple[float, float, float]]]:
    """By columns: seconds of the first reading, and medians of the others' seconds and CPU
    seconds.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - in a session only

    import winnow  # noqa: PLC0415

    spark = SparkSession.builder.appName("winnow-benchmark").getOrCreate()
    winnow.register(spark)
    cold = COLD
    for name, schema in SCHEMAS.items():
        reader = spark.read.format("kafka-log")
        rows = (reader.schema(schema) if schema else reader).load(log_dir)
        taken = []
        for _ in range(cold + repeat):
            began, cpu = time.perf_counter(), cpu_of_tree(os.getpid())
            rows.write.format("noop").mode("overwrite").save()
            taken.append((time.perf_counter() - began, cpu_of_tree(os.getpid()) - cpu))
        seconds, cpu_seconds = zip(*taken[cold:], strict=True)
        cold = 1
        yield name, (taken[0][0], median(seconds), median(cpu_seconds))
    spark.stop()


def report(measured: Sequence[Measured], command: str, mib: int) -> str:
    lines = [
        '# Rows of `spark.read.format("kafka-log")`',
        "",
        (
            f"Made by `{command}` on {dt.datetime.now(tz=dt.UTC).date()}: {mib:,} MiB of keys and "
            "values."
        ),
        "",
        describe_machine(),
        (
            "* A warm session, files in the page cache, every row made by Spark and thrown away "
            "(`noop`). Columns are"
        ),
        (
            "  chosen by `.schema(...)`. Java flags: see docs/kafka-log.md. With `local[1]` Java "
            "and "
            "Python share the"
        ),
        "  work, each with a core where there are two: there the CPU seconds tell more.",
        "* `first`: the first reading of these columns in its session, while Java compiles.",
        "",
        f"| {' | '.join(HEADS)} |",
        "|---|---|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    for one in measured:
        cells = (
            *(
                one.case,
                one.flags,
                str(one.cores),
                one.columns,
                f"{one.first:.2f}",
                f"{one.seconds:.2f}",
            ),
            *(f"{one.per_core * one.cores / 1e6:.2f}", f"{one.per_core / 1e6:.2f}"),
            *(f"{one.cpu_seconds:.2f}", f"{one.per_cpu_second / 1e6:.2f}"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"At least {AIM / 1e6:g} million offsets per second and core, whatever was measured:",
        "",
    ]
    smallest = [one for one in measured if one.columns == next(iter(SCHEMAS))]
    lines += [
        held([one for one in smallest if one.flags == whose])
        for whose in dict.fromkeys(one.flags for one in smallest)
    ]
    return "\n".join(lines) + "\n"


def held(some: Sequence[Measured]) -> str:
    """Whether the slowest of them reached the aim."""
    slowest, dearest = min(one.per_core for one in some), min(one.per_cpu_second for one in some)
    verdict = "yes" if slowest >= AIM else "no"
    return (
        f"* with {some[0].flags} flags: {verdict}, {slowest / 1e6:.2f}; per CPU second "
        f"{dearest / 1e6:.2f}."
    )


if __name__ == "__main__":
    main()
