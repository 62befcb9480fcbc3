"""What consumers notice of a program that reads cold logs beside their broker: their latency, and
how much of the active segments stays in the page cache. Writes beside-a-broker.md.

    .venv/bin/python benchmarks/beside.py [--cold-mib 6144] [--limit-mib 3072] [--seconds 60]
        [--repeat 2] [--on DIR]

Broker and program share a container: a cgroup whose memory, page cache included, is smaller than
the cold logs. That needs root. A producer writes to one topic all the time, and a consumer reads at
its end. Each program has its turn: none, `winnow verify`, `winnow prepare`, which also writes,
Kafka's own `kafka-dump-log`, and `cat`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]

from benchmarks.arguments import benchmark_parser  # noqa: E402 - needs the path above
from benchmarks.cases import Case  # noqa: E402
from benchmarks.data import make  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402
from tests.kafka.judge.broker import Broker  # noqa: E402
from tests.kafka.judge.jars import quick_java  # noqa: E402
from tests.threads import in_threads  # noqa: E402
from winnow.storage.live.page_cache import cached_pages  # noqa: E402

MIB = 2**20
PAGE = os.sysconf("SC_PAGE_SIZE")
COLD = Case("cold", value_bytes=1000, partitions=8)
ACTIVE = "active"
ACTIVE_MIB = 256
PAUSE = 0.005
"""Seconds between two records."""
QUIET = {"log_level": 0}
GROUPS = {  # cgroup v1 and v2: the directory, and the file of the limit
    Path("/sys/fs/cgroup/memory/winnow-beside"): "memory.limit_in_bytes",
    Path("/sys/fs/cgroup/winnow-beside"): "memory.max",
}
NONE, VERIFY, PREPARE = "none", "`winnow verify`", "`winnow prepare`"
DUMP, CAT = "`kafka-dump-log`", "`cat`"
OUTPUT = ROOT / "benchmarks" / "results" / "beside-a-broker.md"


@dataclass(frozen=True, slots=True)
class Turn:
    seconds: float
    """Of the program."""
    latencies: tuple[float, ...]
    """Seconds from the producer's call to the consumer's, of each record."""
    resident: float
    """Share of the active segments that is in the page cache afterwards."""


def main() -> None:
    options = parse(sys.argv[1:])
    options.on.mkdir(parents=True, exist_ok=True)
    turns: dict[str, list[Turn]] = {name: [] for name in (NONE, VERIFY, PREPARE, DUMP, CAT)}
    with (
        tempfile.TemporaryDirectory(dir=options.on, prefix="beside-") as place,
        container(options.limit_mib * MIB) as inside,
    ):
        home = Path(place)
        broker = Broker(home / "log-dir", home=home / "broker")
        say(f"making {options.cold_mib} MiB of cold logs in {home}")
        fill(broker, home, options.cold_mib * MIB)
        broker.prefix = inside
        with broker, traffic(broker.bootstrap) as latencies:
            for number in range(options.repeat):
                for name, found in turns.items():
                    command = program(name, broker.log_dir, options.seconds)
                    found.append(turn([*inside, *command], broker.log_dir, latencies))
                    say(f"{number + 1}/{options.repeat} {name}: {shown(found[-1:])}")
    options.output.write_text(report(turns, options), encoding="utf-8")
    say(f"written: {options.output}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = benchmark_parser(__doc__, output=OUTPUT)
    parser.add_argument("--cold-mib", type=int, default=6144)
    parser.add_argument("--limit-mib", type=int, default=3072, help="memory of the container")
    parser.add_argument("--seconds", type=int, default=60, help="of the turn without a program")
    parser.add_argument("--repeat", type=int, default=2)
    return parser.parse_args(arguments)


@contextmanager
def container(limit: int) -> Iterator[list[str]]:
    """Yield the words before a command that is to run in it."""
    group, limit_file = next(
        (group, file) for group, file in GROUPS.items() if group.parent.is_dir()
    )
    group.mkdir(exist_ok=True)
    try:
        (group / limit_file).write_text(str(limit))
        yield ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group)]
    finally:
        group.rmdir()


def fill(broker: Broker, home: Path, cold_bytes: int) -> None:
    """Make the topics, with a log of both."""
    with broker:
        broker.create_topic(COLD.topic, partitions=COLD.partitions)
        broker.create_topic(ACTIVE)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, **QUIET})
        value = os.urandom(100_000)
        for _ in range(ACTIVE_MIB * MIB // len(value)):
            producer.produce(ACTIVE, value)
            producer.flush(60)
    make(COLD, cold_bytes, home)
    os.sync()


@contextmanager
def traffic(bootstrap: str) -> Iterator[list[float]]:
    """Write and read inside the block. The list gets the latency of each record."""
    stop, latencies = threading.Event(), list[float]()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "end", **QUIET})
    _, end = consumer.get_watermark_offsets(TopicPartition(ACTIVE, 0), timeout=60)
    consumer.assign([TopicPartition(ACTIVE, 0, end)])

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **QUIET})
        while not stop.is_set():
            producer.produce(ACTIVE, b"%.6f" % time.monotonic() + bytes(1000))
            producer.poll(PAUSE)
        producer.flush(60)

    def read() -> None:
        while not stop.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                sent = float(bytes(message.value()).rstrip(b"\0"))
                latencies.append(time.monotonic() - sent)
        consumer.close()

    with in_threads(stop, (write, read)):
        yield latencies


def program(name: str, log_dir: Path, seconds: int) -> list[str]:
    logs = sorted(map(str, log_dir.glob(f"{COLD.topic}-*/*.log")))
    if name == NONE:
        return ["sleep", str(seconds)]
    if name == VERIFY:
        return [str(ROOT / "spark-submit.sh"), "verify", str(log_dir), "--quiet"]
    if name == PREPARE:
        options = ["--topic-set", f"{COLD.topic}:cleanup.policy=compact"]
        options += ["--server-properties", str(log_dir.parent / "broker" / "server.properties")]
        return [str(ROOT / "spark-submit.sh"), "prepare", str(log_dir), *options, "--quiet"]
    if name == DUMP:
        return [
            *quick_java("-Xmx256m"),
            "org.apache.kafka.tools.DumpLogSegments",
            "--files",
            ",".join(logs),
        ]
    return ["cat", *logs]


def turn(command: Sequence[str], log_dir: Path, latencies: list[float]) -> Turn:
    """Run a program while the cold logs are on the disk only, and the active ones in memory."""
    for path in log_dir.glob(f"{COLD.topic}-*/*.log"):
        evict(path)
    active = [*log_dir.glob(f"{ACTIVE}-*/*.log")]
    for path in active:
        path.read_bytes()
    time.sleep(2)
    before, begun = len(latencies), time.monotonic()
    with (log_dir.parent / "output").open("w+b") as output:
        done = subprocess.run(command, check=False, stdout=output)
        if done.returncode != 0:
            output.seek(max(0, output.tell() - 2000))
            raise SystemExit(f"{command} ended with {done.returncode}\n{output.read().decode()}")
    for staged in log_dir.glob("*/.winnow-*"):
        shutil.rmtree(staged)
    return Turn(time.monotonic() - begun, tuple(latencies[before:]), resident(active))


def evict(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def resident(paths: Sequence[Path]) -> float:
    """Return the share of the files' pages that is in the page cache."""
    cached = pages = 0
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        size = os.fstat(descriptor).st_size
        cached += cached_pages(descriptor, 0, size)
        pages += -(-size // PAGE)
        os.close(descriptor)
    return cached / pages


def shown(turns: Sequence[Turn]) -> str:
    """Cells of the table: medians of the turns, and the highest latency of all."""
    ordered = [sorted(turn.latencies) for turn in turns]
    cells = [f"{statistics.median(turn.seconds for turn in turns):.0f}"]
    for share in (0.5, 0.99):
        each = [latencies[int(len(latencies) * share)] for latencies in ordered]
        cells.append(f"{statistics.median(each) * 1000:.1f}")
    cells.append(f"{max(latencies[-1] for latencies in ordered) * 1000:.0f}")
    cells.append(f"{statistics.median(turn.resident for turn in turns):.0%}")
    return " | ".join(cells)


def report(turns: dict[str, list[Turn]], options: argparse.Namespace) -> str:
    lines = [
        "# A program that reads cold logs beside a broker",
        "",
        f"Made by `benchmarks/beside.py` on {dt.datetime.now(tz=dt.UTC).date()}.",
        "",
        f"Broker and program share {options.limit_mib:,} MiB of memory, page cache included. The",
        f"cold logs have {options.cold_mib:,} MiB, the active ones {ACTIVE_MIB} MiB and what is",
        f"written meanwhile. Medians of {options.repeat} turns; `max` is that of all turns.",
        "",
        describe_machine(),
        "",
        "| program | s | latency p50, ms | p99, ms | max, ms | active segments in memory |",
        "|---|--:|--:|--:|--:|--:|",
        *(f"| {name} | {shown(found)} |" for name, found in turns.items()),
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
