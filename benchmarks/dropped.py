"""How much of what `prepare` has made a commit can't use, because the broker went on: writes
dropped-preparations.md.

    .venv/bin/python benchmarks/dropped.py [--partitions 12] [--mib 16] [--on DIR]

A broker's compacted topic is written all the time. It is prepared; clients write more; the broker
stops; the preparation is committed. With the broker's cleaner at a dirty ratio of 0.5, and off.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]

from benchmarks.arguments import benchmark_parser  # noqa: E402 - needs the path above
from benchmarks.machine import describe_machine, say  # noqa: E402
from tests.kafka.judge.broker import Broker  # noqa: E402

TOPIC = "state"
VALUE_BYTES = 1000
KEPT = 0.25
"""Different keys, as a share of the records of the log."""
SHARES = (0.05, 0.2, 0.5)
"""What is written between `prepare` and `commit`, as shares of the log."""
MIB = 2**20
QUIET = {"log_level": 0}
OUTPUT = ROOT / "benchmarks" / "results" / "dropped-preparations.md"
COMMON = {
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.cleaner.backoff.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
}


@dataclass(frozen=True, slots=True)
class Cleaner:
    name: str
    settings: Mapping[str, str]
    options: Sequence[str]
    """Of `prepare`."""


CLEANERS = (
    Cleaner("off", {"log.cleaner.enable": "false"}, ["--replace-cleaner"]),
    Cleaner("on, ratio 0.5", {"log.cleaner.min.cleanable.ratio": "0.5"}, []),
    Cleaner(
        "on, ratio 0.5; `prepare` with 0.2",
        {"log.cleaner.min.cleanable.ratio": "0.5"},
        ["--topic-set", f"{TOPIC}:min.cleanable.dirty.ratio=0.2"],
    ),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Staged bytes, by what became of them, and partitions."""

    prepared: int
    dropped: int
    partitions: int
    dropped_partitions: int
    reasons: tuple[str, ...]


def main() -> None:
    options = parse(sys.argv[1:])
    rows: list[tuple[Cleaner, float, Outcome]] = []
    for cleaner in CLEANERS:
        for share in SHARES:
            found = outcome(cleaner, share, options)
            rows.append((cleaner, share, found))
            say(f"cleaner {cleaner.name}, {share:.0%} written meanwhile: {found}")
    options.output.write_text(report(rows, options), encoding="utf-8")
    say(f"written: {options.output}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = benchmark_parser(__doc__, output=OUTPUT)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--mib", type=int, default=16, help="of each partition")
    return parser.parse_args(arguments)


def outcome(cleaner: Cleaner, share: float, options: argparse.Namespace) -> Outcome:
    options.on.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(dir=options.on, prefix="dropped-"))
    log_dir = home / "log-dir"
    try:
        with Broker(log_dir, home=home / "broker", settings=COMMON | cleaner.settings) as broker:
            load = Load(broker.bootstrap, options.partitions, options.mib * MIB)
            load.create()
            load.write(1.0)
            with load.writing():
                winnow("prepare", log_dir, *cleaner.options, "--keep-free", "0")
                load.write(share)
            staged = staged_bytes(log_dir)
        told = json.loads(winnow("commit", log_dir, "--json"))
    finally:
        shutil.rmtree(home)
    reasons = {
        f"{one['topic']}-{one['partition']}": one["reason"]
        for one in told["partitions"]
        if one["reason"].startswith("the preparation was dropped")
    }
    return Outcome(
        prepared=sum(staged.values()),
        dropped=sum(staged[name] for name in reasons),
        partitions=len(staged),
        dropped_partitions=len(reasons),
        reasons=tuple(sorted({kind_of(reason) for reason in reasons.values()})),
    )


class Load:
    """Records of random keys for all partitions, as fast as they are asked for."""

    def __init__(self, bootstrap: str, partitions: int, partition_bytes: int) -> None:
        self.bootstrap, self.partitions = bootstrap, partitions
        self.records = partition_bytes // VALUE_BYTES * partitions
        self.keys = int(self.records * KEPT)

    def create(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        config = {"cleanup.policy": "compact", "segment.bytes": str(MIB)}
        made = admin.create_topics([NewTopic(TOPIC, self.partitions, 1, config=config)])
        made[TOPIC].result(60)

    def write(self, share: float) -> None:
        """Write as many records as `share` of a whole log has."""
        self._write(int(self.records * share))

    def _write(self, count: int, stop: threading.Event | None = None, pause: float = 0.0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20, **QUIET})
        value = random.Random(count).randbytes(VALUE_BYTES)
        for number in range(count):
            key = b"%d" % random.randrange(self.keys)
            while True:
                try:
                    producer.produce(TOPIC, key=key, value=value)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 100 == 0:
                producer.poll(0)
                time.sleep(pause)
                if stop is not None and stop.is_set():
                    break
        if producer.flush(120):
            raise SystemExit("records without an acknowledgement")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write a little all the time inside the block."""
        stop = threading.Event()
        thread = threading.Thread(target=self._write, args=[self.records, stop, 0.2])
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def winnow(verb: str, log_dir: Path, *more: str) -> str:
    command = [str(ROOT / "spark-submit.sh"), verb, str(log_dir), "--quiet", *more]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{verb} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def staged_bytes(log_dir: Path) -> dict[str, int]:
    """Of all new segments, by partition."""
    found: dict[str, int] = {}
    for file in log_dir.glob("*/.winnow-*/*"):
        name = file.parent.parent.name
        found[name] = found.get(name, 0) + file.stat().st_size
    return found


def kind_of(reason: str) -> str:
    """Return the check, without its values."""
    return reason.removeprefix("the preparation was dropped: ").partition(":")[0]


def report(rows: Sequence[tuple[Cleaner, float, Outcome]], options: argparse.Namespace) -> str:
    lines = [
        "# Preparations that a commit drops",
        "",
        f"Made by `benchmarks/dropped.py` on {dt.datetime.now(tz=dt.UTC).date()}.",
        "",
        f"{options.partitions} compacted partitions of {options.mib} MiB in segments of 1 MiB,",
        f"records of 1 KB, keys at random, {KEPT:.0%} of the records with keys of their own.",
        "",
        describe_machine(),
        "",
        "| broker's cleaner | written between | prepared MiB | dropped | partitions | why |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for cleaner, share, found in rows:
        dropped = f"{found.dropped / found.prepared:.0%}" if found.prepared else "-"
        lines.append(
            f"| {cleaner.name} | {share:.0%} of the log | {found.prepared / MIB:.1f} "
            f"| {dropped} | {found.dropped_partitions} of {found.partitions} "
            f"| {'; '.join(found.reasons) or '-'} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
