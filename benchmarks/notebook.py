"""What a topic of a million records of 1 KB costs in a notebook: seconds and peak memory of what
`docs/how-to/notebook.md` does; writes notebook.md.

    .venv/bin/python benchmarks/notebook.py [--mib 1016] [--output FILE]

The session is that of `SparkSession.builder.getOrCreate()`, with Spark's own defaults, as in a
notebook: `local[*]`, and 1 GiB for Java's heap. The steps run in turn, and each one once. Needs the
project set up with what tests need (`./run-tests.sh --version` does that), and a quiet machine.
Linux only.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))

from benchmarks.cases import Case  # noqa: E402 - needs the path above
from benchmarks.data import NOW, DataSet, data_set, fresh_copy, warm_page_cache  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402
from benchmarks.peak import PeakMemory, tree_of  # noqa: E402
from winnow.runtime.side_by_side import repeating  # noqa: E402

CASE = Case("notebook", value_bytes=1024)
KEY = "key binary, offset bigint"
Step = tuple[str, Callable[[dict[str, Any]], object]]
"""What is called, and the call. It gets the names of the notebook."""
Taken = tuple[str, float, float, int, int]


def main() -> None:
    options = parse(sys.argv[1:])
    if options.measure:
        for found in measure(*options.measure):
            sys.stdout.write(f"{json.dumps(found)}\n")
            sys.stdout.flush()
        return
    data = data_set(CASE, options.mib << 20)
    warm_page_cache(data)
    with tempfile.TemporaryDirectory(dir=data.log_dir.parent, prefix="notebook-") as scratch:
        copy = fresh_copy(data, Path(scratch) / "log-dir")
        measured = in_session(str(copy), str(data.topic_configs))
    command = shlex.join(["benchmarks/notebook.py", *sys.argv[1:]])
    options.output.write_text(report(data, measured, command), encoding="utf-8")
    say(f"written: {options.output}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=1016, help="keys and values, not compressed")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results" / "notebook.md"
    )
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def in_session(log_dir: str, topic_configs: str) -> list[Taken]:
    """Return what `measure` yields in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure", log_dir, topic_configs],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "lib"), "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def steps(log_dir: str, topic_configs: str) -> Iterator[Step]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - in a session only

    import winnow  # noqa: PLC0415

    def rows(names: dict[str, Any], schema: str) -> Any:  # noqa: ANN401 - a DataFrame
        reader = names["spark"].read.format("kafka-log")
        return (reader.schema(schema) if schema else reader).load(log_dir)

    def start(names: dict[str, Any]) -> None:
        names["spark"] = SparkSession.builder.getOrCreate()
        winnow.register(names["spark"])

    def plan(names: dict[str, Any]) -> None:
        names["plan"] = winnow.plan(
            names["spark"], log_dir, topic_configs=topic_configs, now=NOW, estimate=True
        )

    yield "start the session", start
    yield "`winnow.plan(..., estimate=True)`", plan
    yield (
        "`plan.what_if(retention_ms=...)`",
        lambda names: names["plan"].what_if(retention_ms=86_400_000),
    )
    yield (
        "the ten keys with the most records, with the schema `key binary, offset bigint`",
        lambda names: (
            rows(names, KEY).groupBy("key").count().orderBy("count", ascending=False).head(10)
        ),
    )
    yield (
        "the same, with all columns",
        lambda names: (
            rows(names, "").groupBy("key").count().orderBy("count", ascending=False).head(10)
        ),
    )
    yield (
        '`winnow.read(key="string")`, all rows, not kept',
        lambda names: (
            winnow.read(names["spark"], log_dir, key="string")
            .write.format("noop")
            .mode("overwrite")
            .save()
        ),
    )
    yield (
        "all keys and offsets in the notebook, by `toArrow()`",
        lambda names: rows(names, KEY).toArrow(),
    )
    yield "`winnow.verify`", lambda names: winnow.verify(names["spark"], log_dir)
    yield "`plan.execute()`", lambda names: names["plan"].execute()


class Cpu:
    """CPU seconds of this process and of all that it starts, also of those that end."""

    def __init__(self) -> None:
        self._ticks: dict[int, int] = {}

    def look(self) -> None:
        for pid in tree_of(os.getpid()):
            try:
                stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # it has ended
            self._ticks[pid] = sum(map(int, stat.rpartition(")")[2].split()[11:13]))

    @property
    def seconds(self) -> float:
        self.look()
        return sum([*self._ticks.values()]) / os.sysconf("SC_CLK_TCK")


def measure(log_dir: str, topic_configs: str) -> Iterator[Taken]:
    """Yield each step with its seconds, its CPU seconds, and the peak of the memory of all
    processes, in bytes: of Python and Java together, and of Java alone.
    """
    names: dict[str, Any] = {}
    cpu = Cpu()
    for name, call in steps(log_dir, topic_configs):
        with PeakMemory(os.getpid()) as peak, repeating(cpu.look, every_s=0.5):
            began, before = time.perf_counter(), cpu.seconds
            call(names)
            seconds, after = time.perf_counter() - began, cpu.seconds
        yield name, seconds, after - before, peak.anonymous_bytes, peak.jvm_bytes
    names["spark"].stop()


def report(data: DataSet, measured: Sequence[Taken], command: str) -> str:
    mib = data.log_bytes / (1 << 20)
    today = dt.datetime.now(tz=dt.UTC).date()
    lines = [
        "# A topic of 1 KB records in a notebook",
        "",
        f"Made by `{command}` on {today}: {data.records:,} records, values of",
        f"{CASE.value_bytes} B, one partition, {mib:,.0f} MiB on disk, half of them superseded.",
        "",
        describe_machine(),
        "* One session with Spark's defaults, files in the page cache, compiled kernels. Each step",
        "  runs once, in this order.",
        "* Seconds by the clock depend on what else the machine does, CPU seconds hardly.",
        "* Memory: the peak of all processes together (PSS without mapped files). Java keeps its",
        "  heap.",
        "",
        "| step | s | CPU s | GiB | of these Java |",
        "|---|--:|--:|--:|--:|",
        *(
            f"| {name} | {seconds:.1f} | {cpu:.1f} | {all_ / (1 << 30):.1f} "
            f"| {java / (1 << 30):.1f} |"
            for name, seconds, cpu, all_, java in measured
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
