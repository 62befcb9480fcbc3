"""One segment, read by Spark in two ways: ranges of whole batches that Python workers map, and
Spark's own `binaryFile`; writes results/reading-a-segment.md.

    .venv/bin/python benchmarks/reading.py [--mib 64 256] [--repeat 5] [--driver-memory 8g]

Both do the least that any reader of a segment does: walk all headers, and check the CRC of each
batch. Each way and size is a session of its own, warm after one read that is not measured. The page
cache is warm. `binaryFile` has the JVM's own flags, as scripts have that spark-submit.sh starts.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))

from benchmarks.cases import Case  # noqa: E402 - needs the path above
from benchmarks.contestants import session_environment  # noqa: E402
from benchmarks.data import DATA, make  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402
from benchmarks.peak import PeakMemory  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from winnow.wire.buffers import Bytes

MIB = 1 << 20
WAYS = {"ranges": "ranges of whole batches, mapped", "binaryFile": "`binaryFile`, one value"}
_SEGMENT_BYTES = 2**31 - 1
"""The largest that Kafka allows: the data are one segment."""
_LONGEST_S = 300


@dataclass(frozen=True, slots=True)
class Reading:
    way: str
    mib: int
    """Of the `.log` file."""
    batches: int = 0
    tasks: int = 0
    """Of the stage that checks the CRCs."""
    seconds: float = 0.0
    """The median."""
    peak_bytes: int = 0
    """Of all processes (PSS), without mapped files."""
    error: str = ""
    """Why it could not be read."""


def main() -> None:
    options = parse(sys.argv[1:])
    if options.way is not None:
        print(json.dumps(asdict(measure(options.way, options.log, options.repeat))), flush=True)
        return
    readings = []
    for mib in options.mib:
        with segment(mib) as log:
            for way in WAYS:
                readings.append(in_session(way, log, options))
                say(f"{readings[-1]}")
    options.output.mkdir(parents=True, exist_ok=True)
    page = options.output / "reading-a-segment.md"
    page.write_text(report(readings, options), encoding="utf-8")
    say(f"written: {page}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--driver-memory", default="8g", help="Winnow's own default is 2g")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results", help="a directory"
    )
    return parser.parse_args(arguments)


class segment:  # noqa: N801 - a context, read as a word
    """The largest `.log` file of a partition with `mib` MiB of keys and values in one segment."""

    def __init__(self, mib: int) -> None:
        DATA.mkdir(parents=True, exist_ok=True)
        self._place = Path(tempfile.mkdtemp(dir=DATA))
        make(Case("one-100B"), mib * MIB, self._place, segment_bytes=_SEGMENT_BYTES)

    def __enter__(self) -> Path:
        logs = (self._place / "log-dir").glob("*/*.log")
        return max(logs, key=lambda log: log.stat().st_size)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._place)


def in_session(way: str, log: Path, options: argparse.Namespace) -> Reading:
    """Measure in a process of its own, so that its peak is that of this way alone."""
    cores = os.cpu_count() or 1
    conf = ["--driver-memory", options.driver_memory]
    if way == "binaryFile":  # Winnow's flags are for jobs whose work is not Java's
        conf += ["--conf", "spark.driver.defaultJavaOptions="]
    command = [sys.executable, __file__, "--way", way, "--log", str(log)]
    with (
        subprocess.Popen(
            [*command, "--repeat", str(options.repeat)],
            env=session_environment(cores, conf=conf),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        PeakMemory(process.pid) as peak,
    ):
        try:
            out, err = process.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = "", f"more than {_LONGEST_S} s for {options.repeat + 1} reads"
    mib = round(log.stat().st_size / MIB)
    if not out or process.returncode:
        return Reading(way, mib, error=cause_of(err))
    told: dict[str, Any] = json.loads(out.splitlines()[-1])
    return Reading(**told | {"peak_bytes": peak.anonymous_bytes})


def cause_of(text: str) -> str:
    """Return the root cause in what a failed session printed, as one line."""
    causes = re.findall(r"(?:java|org)\.[\w.]+(?:Error|Exception): .*", text)
    return (causes[-1] if causes else text.strip().splitlines()[-1])[:160]


def measure(way: str, log: Path, repeat: int) -> Reading:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only a session of its own needs it

    spark = SparkSession.builder.appName(f"reading-{way}").getOrCreate()
    read = {"ranges": by_ranges, "binaryFile": by_binary_file}[way]
    batches, tasks = read(spark, log)
    seconds = []
    for _ in range(repeat):
        begin = time.perf_counter()
        batches, tasks = read(spark, log)
        seconds.append(time.perf_counter() - begin)
    mib = round(log.stat().st_size / MIB)
    spark.stop()
    return Reading(way, mib, batches, tasks, statistics.median(seconds))


def by_ranges(spark: SparkSession, log: Path) -> tuple[int, int]:
    """As a cleaning does: one task walks the headers and cuts the file into ranges of whole
    batches; then a task maps each range. Return the number of batches, and of ranges.
    """
    context = spark.sparkContext
    (walked,) = context.parallelize([str(log)], 1).map(_ranges_of).collect()
    ranges = [(str(log), *each) for each in walked]
    return sum(context.parallelize(ranges, len(ranges)).map(_check_range).collect()), len(ranges)


def _ranges_of(path: str) -> list[tuple[int, int, int]]:
    from winnow.survey.walk import walk_segment  # noqa: PLC0415 - in a worker

    log = Path(path)
    walk = walk_segment(str(log.parent), int(log.stem), log.stat().st_size)
    return [(split.start, split.end, split.least_offset) for split in walk.splits]


def _check_range(work: tuple[str, int, int, int]) -> int:
    from winnow.storage.segment_io import map_range  # noqa: PLC0415 - in a worker

    path, start, end, least_offset = work
    with map_range(path, start, end) as buffer:
        return _checked(buffer, least_offset)


def _checked(buffer: Bytes, least_offset: int) -> int:
    """Walk and check all batches of a buffer. Return how many there are."""
    from winnow.logdir.batches import HeaderWalk  # noqa: PLC0415 - in a worker
    from winnow.wire.walk import first_bad_crc  # noqa: PLC0415 - in a worker

    count = 0
    walk = HeaderWalk(buffer, least_offset)
    for rows in walk:
        if first_bad_crc(buffer, rows) >= 0:
            raise ValueError("a batch does not match its CRC")
        count += len(rows)
    if walk.end != len(buffer):
        raise ValueError(f"no batch at byte {walk.end} of {len(buffer)}")
    return count


def by_binary_file(spark: SparkSession, log: Path) -> tuple[int, int]:
    """As Spark offers it: the file is one value, which goes through the JVM to one task. Return the
    number of batches, and of tasks.
    """
    found = spark.read.format("binaryFile").load(str(log)).select("content").rdd
    return sum(found.map(_check_value).collect()), found.getNumPartitions()


def _check_value(row: Row) -> int:
    import numpy as np  # noqa: PLC0415 - in a worker

    return _checked(np.frombuffer(row.content, np.uint8), 0)


def report(readings: Sequence[Reading], options: argparse.Namespace) -> str:
    sizes = " ".join(map(str, options.mib))
    lines = [
        "# How one segment is read",
        "",
        f"Made by `benchmarks/reading.py --mib {sizes} --repeat {options.repeat}",
        f"--driver-memory {options.driver_memory}` on {dt.datetime.now(tz=dt.UTC).date()}; medians",
        f"of {options.repeat} reads in a warm session. Both walk all headers and check each CRC.",
        "`binaryFile` has the JVM's own flags. Peak: all processes together, without mapped files.",
        "",
        describe_machine(),
        "",
        "| MiB | read by | tasks | s | MiB/s | peak MiB |",
        "|--:|---|--:|--:|--:|--:|",
    ]
    for reading in readings:
        cells = (
            f"failed: {reading.error} | | | |"
            if reading.error
            else f"{reading.tasks} | {reading.seconds:.2f} "
            f"| {reading.mib / reading.seconds:,.0f} | {reading.peak_bytes / MIB:,.0f} |"
        )
        lines.append(f"| {reading.mib:,} | {WAYS[reading.way]} | {cells}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
