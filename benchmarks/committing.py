"""`commit` of many small partitions: seconds from the lock to its release, and seconds of CPU; and
the seconds in which the broker of the same log directory stops and starts. Writes
commit-of-many-partitions.md.

    .venv/bin/python benchmarks/committing.py [--partitions 400] [--kib 2253] [--repeat 5]
        [--on DIR] [--beside CHECKOUT]

A broker makes the topic, and its partitions are filled and prepared once. Each run commits a copy,
in a process of its own. `--beside`: another checkout of Winnow, set up, which takes turns with this
one.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))

from benchmarks.arguments import benchmark_parser  # noqa: E402 - needs the path above
from benchmarks.cases import Case  # noqa: E402
from benchmarks.data import make  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402
from tests.kafka.judge.broker import Broker  # noqa: E402

AIMS = {400: 1.5, 4_000: 8.0}
"""Most seconds from the lock to its release, by partitions."""
MOST_OF_A_RESTART = 0.15
"""Most seconds from the lock to its release, as a share of the broker's stop and start."""
SEGMENT_BYTES = 1 << 20
OUTPUT = ROOT / "benchmarks" / "results" / "commit-of-many-partitions.md"
_COMMIT = """\
import json, resource, sys, time
import winnow
import winnow.cleaning.prepared.commit
from winnow.logdir import lock

def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

begun, before = time.perf_counter(), cpu()
result = winnow.commit(sys.argv[1])
acted = sum(partition.acts for partition in result.partitions)
taken = time.perf_counter() - begun
print(json.dumps({"seconds": taken, "cpu": cpu() - before, "acted": acted, "process_cpu": cpu()}))
"""


@dataclass(frozen=True, slots=True)
class Commit:
    seconds: float
    """From the lock to its release."""
    cpu: float
    """Seconds of CPU meanwhile."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds of a broker."""

    stop: float
    start: float


def main() -> None:
    options = parse(sys.argv[1:])
    options.on.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(dir=options.on, prefix="committing-"))
    checkouts = {"this": ROOT} | ({"other": options.beside.resolve()} if options.beside else {})
    found: dict[str, list[Commit]] = {name: [] for name in checkouts}
    restarts: list[Restart] = []
    try:
        say(f"making and preparing {options.partitions} partitions in {root}")
        broker = fill(root, options.partitions, options.kib)
        prepare(root)
        for turn in range(options.repeat):
            for name in sorted(checkouts, reverse=bool(turn % 2)):
                one = commit(root, checkouts[name], options.partitions)
                found[name].append(one)
                say(f"{turn + 1}/{options.repeat} {name}: {one.seconds:.2f} s, CPU {one.cpu:.2f} s")
        for turn in range(options.repeat):
            restarts.append(one_restart := restart(broker))
            say(f"{turn + 1}/{options.repeat} broker: {one_restart}")
    finally:
        shutil.rmtree(root)
    options.output.write_text(report(found, restarts, options), encoding="utf-8")
    say(f"written: {options.output}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = benchmark_parser(__doc__, output=OUTPUT)
    parser.add_argument("--partitions", type=int, default=400)
    parser.add_argument("--kib", type=int, default=2253, help="of each partition")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--beside", type=Path, help="another checkout")
    return parser.parse_args(arguments)


def fill(root: Path, partitions: int, kib: int) -> Broker:
    """Let a broker make a topic, and fill its partitions. Return the broker, stopped."""
    case = Case("committing", partitions=partitions, partition_kib=kib)
    broker = Broker(root / "log-dir", home=root / "home")
    with broker:
        broker.create_topic(case.topic, partitions=partitions)
        while len([*broker.log_dir.glob(f"{case.topic}-*")]) < partitions:
            time.sleep(0.1)  # it goes on after the answer
    make(case, partitions * kib << 10, root, segment_bytes=SEGMENT_BYTES)
    return broker


def prepare(root: Path) -> None:
    command = [str(ROOT / "spark-submit.sh"), "prepare", str(root / "log-dir"), "--quiet"]
    command += ["--topic-configs", str(root / "topic-configs.txt"), "--keep-free", "0"]
    subprocess.run([*command, "--max-age", "240h"], check=True, stdout=subprocess.DEVNULL)


def restart(broker: Broker) -> Restart:
    """Start a broker and stop it. What is prepared is ignored."""
    begun = time.perf_counter()
    broker.start()
    started = time.perf_counter()
    broker.stop()
    return Restart(stop=time.perf_counter() - started, start=started - begun)


def commit(root: Path, checkout: Path, partitions: int) -> Commit:
    log_dir = root / "copy"
    shutil.copytree(root / "log-dir", log_dir)
    try:
        stamp_again(log_dir)
        os.sync()
        python = [str(checkout / ".venv" / "bin" / "python"), "-c", _COMMIT, str(log_dir)]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "lib")}
        done = subprocess.run(python, env=environment, check=True, capture_output=True, text=True)
    finally:
        shutil.rmtree(log_dir)
    told = json.loads(done.stdout)
    if told["acted"] != partitions:
        raise SystemExit(f"{told['acted']} of {partitions} partitions were committed")
    return Commit(told["seconds"], told["cpu"])


def stamp_again(log_dir: Path) -> None:
    """Give the preparations of a copy the inodes and times of the copied files."""
    from winnow.cleaning.prepared.value import (  # noqa: PLC0415 - needs the path above
        Stamp,
        read_prepared,
        write_prepared,
    )
    from winnow.logdir.names import LOG, segment_file  # noqa: PLC0415
    from winnow.storage.local import LocalStorage  # noqa: PLC0415
    from winnow.storage.own_json import MOST_BYTES  # noqa: PLC0415

    storage = LocalStorage()
    for path in log_dir.glob("*/.winnow-*/prepared.json"):
        staging, directory = path.parent, path.parent.parent

        def stamp(file: Path) -> Stamp:
            return Stamp.of(storage.entry(str(file)).stamp)

        prepared = read_prepared(storage, str(staging), most=MOST_BYTES)
        groups = tuple(
            replace(
                group,
                stamps=tuple(stamp(directory / segment_file(b, LOG)) for b in group.source_bases),
                files={
                    suffix: replace(file, stamp=stamp(staging / file.name))
                    for suffix, file in group.files.items()
                },
            )
            for group in prepared.groups
        )
        write_prepared(storage, str(staging), replace(prepared, groups=groups))


def report(
    found: dict[str, list[Commit]], restarts: Sequence[Restart], options: argparse.Namespace
) -> str:
    names = {"this": "this version", "other": "the other checkout"}
    lines = [
        "# A commit of many small partitions",
        "",
        f"Made by `benchmarks/committing.py` on {dt.datetime.now(tz=dt.UTC).date()}.",
        "",
        f"Medians of {options.repeat} runs, in turns.",
        "",
        describe_machine(),
        "",
    ]
    aim = AIMS.get(options.partitions)
    if aim is not None:
        lines += [f"{options.partitions:,} partitions may take {aim} s.", ""]
    what = f"{options.partitions:,} partitions of {options.kib:,} KiB"
    lines += [f"| {what} | s | least-most | CPU s | CPU ms each |", "|---|--:|--:|--:|--:|"]
    for name, runs in found.items():
        seconds = sorted(run.seconds for run in runs)
        cpu = statistics.median(run.cpu for run in runs)
        lines.append(
            f"| {names[name]} | {statistics.median(seconds):.2f} "
            f"| {seconds[0]:.2f}-{seconds[-1]:.2f} | {cpu:.2f} "
            f"| {cpu / options.partitions * 1000:.2f} |"
        )
    stop = statistics.median(restart.stop for restart in restarts)
    start = statistics.median(restart.start for restart in restarts)
    share = statistics.median(run.seconds for run in found["this"]) / (stop + start)
    lines += ["", f"A broker of this directory stops in {stop:.2f} s and starts in {start:.2f} s."]
    lines += [f"The commit takes {share:.2f} of that, and may take {MOST_OF_A_RESTART}."]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
