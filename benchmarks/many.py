"""`plan` of a node with a great many partitions and segments: how long it takes, and how much
memory; writes plan-of-20000-partitions.md.

    .venv/bin/python benchmarks/many.py [--partitions 20000] [--segments 20] [--compacted 0.25]

Two partitions are written, one for topics that are deleted from and one for topics that are
compacted; all others are hard links to their files. Needs the project set up and a quiet machine,
an inode per directory and 200 MiB.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))

from benchmarks.batches import Cells, encode_batches  # noqa: E402 - needs the path above
from benchmarks.data import DATA, NOW  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402
from benchmarks.peak import PeakMemory  # noqa: E402

MOST_LINKS = 30_000
"""Of one file: half of what ext4 allows."""
PARTITIONS_PER_TOPIC = 100
LIMIT_SECONDS, LIMIT_BYTES = 30, 1.5 * 2**30
"""What `plan` of 20,000 partitions with 400,000 segments may take."""


@dataclass(frozen=True, slots=True)
class Measured:
    partitions: int
    segments: int
    compacted: int
    seconds: float
    peak_bytes: int
    profile: dict[str, Any]


def main() -> None:
    options = parse(sys.argv[1:])
    DATA.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(dir=DATA, prefix="many-"))
    try:
        say(f"making {options.partitions} partitions of {options.segments} segments in {root}")
        compacted = make(root, options.partitions, options.segments, options.compacted)
        say("planning")
        found = measure(root, options.partitions, options.segments, compacted)
    finally:
        shutil.rmtree(root)
    options.output.write_text(report(found), encoding="utf-8")
    say(f"{found.seconds:.1f} s, {found.peak_bytes / 2**20:,.0f} MiB; written: {options.output}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--segments", type=int, default=20, help="of each partition")
    parser.add_argument(
        "--compacted",
        type=float,
        default=0.25,
        help="share of partitions with cleanup.policy=compact",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=ROOT / "benchmarks" / "results" / "plan-of-20000-partitions.md",
    )
    options = parser.parse_args(arguments)
    if (
        not 1 <= options.partitions <= MOST_LINKS
        or options.segments < 2
        or not 0 <= options.compacted <= 1
    ):
        parser.error(f"1 to {MOST_LINKS} partitions, 2 segments or more, and a share of 0 to 1")
    return options


def make(root: Path, partitions: int, segments: int, share: float) -> int:
    """Fills `root`; how many of the partitions are compacted."""
    from tests.log_writer.dir_writer import LogDirWriter  # noqa: PLC0415 - it compiles kernels
    from tests.log_writer.segment_writer import SegmentConfig  # noqa: PLC0415

    compacted = round(partitions * share)
    names = [
        (f"{'c' if number < compacted else 'd'}{number // PARTITIONS_PER_TOPIC:04d}", number)
        for number in range(partitions)
    ]
    first: dict[str, Path] = {}
    with LogDirWriter(root / "log-dir", clock=lambda: NOW - 86_400_000) as log_dir:
        for topic, number in names:
            if topic[0] not in first:
                log = log_dir.partition(topic, number, SegmentConfig(segment_bytes=1 << 20))
                for segment in range(segments - 1):
                    log.append(one_batch(log.log_end_offset, segment))
                    log.roll()
                first[topic[0]] = root / "log-dir" / f"{topic}-{number}"
    for topic, number in names:
        target = root / "log-dir" / f"{topic}-{number}"
        if target != first[topic[0]]:
            target.mkdir()
            for file in first[topic[0]].iterdir():
                os.link(file, target / file.name)
    settings = {
        "c": ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01"),
        "d": ("cleanup.policy=delete", "retention.ms=604800000"),
    }
    topics = sorted({topic for topic, _ in names})
    lines = [f"{topic} {setting}\n" for topic in topics for setting in settings[topic[0]]]
    (root / "topic-configs.txt").write_text("".join(lines), encoding="utf-8")
    high_watermark(
        root / "log-dir", [f"{topic} {number} {10 * (segments - 1)}" for topic, number in names]
    )
    return compacted


def one_batch(base_offset: int, segment: int) -> bytes:
    """Ten records, keys of 2 bytes."""
    import numpy as np  # noqa: PLC0415 - kept with what uses it

    from winnow.wire.buffers import as_bytes  # noqa: PLC0415

    data = as_bytes(b"k%d" % (segment % 7) * 10)
    cells = Cells(data, np.arange(10) * 2, np.full(10, 2))
    timestamps = np.full(10, NOW - 86_400_000 + segment)
    return encode_batches(
        cells, cells, timestamps, np.array([10]), base_offset=base_offset
    ).tobytes()


def high_watermark(log_dir: Path, lines: Sequence[str]) -> None:
    path = log_dir / "replication-offset-checkpoint"
    path.write_text(
        "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)), encoding="ascii"
    )


def measure(root: Path, partitions: int, segments: int, compacted: int) -> Measured:
    command = [
        str(ROOT / "spark-submit.sh"),
        "plan",
        str(root / "log-dir"),
        "--json",
        "--profile",
        "--now",
        str(NOW),
    ]
    command += ["--topic-configs", str(root / "topic-configs.txt"), "--quiet"]
    result = root / "result.json"
    begin = time.perf_counter()
    with result.open("wb") as stdout, (root / "stderr").open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
        with PeakMemory(process.pid) as peak:
            code = process.wait()
    seconds = time.perf_counter() - begin
    if code != 0:
        raise SystemExit(
            f"plan ended with {code}\n{(root / 'stderr').read_text(errors='replace')[-3000:]}"
        )
    told = json.loads(result.read_text(encoding="utf-8"))
    planned = sum("compacted" in partition["actions"] for partition in told["partitions"])
    seen = sum(partition["segments_before"] for partition in told["partitions"])
    if (len(told["partitions"]), seen, planned) != (partitions, partitions * segments, compacted):
        raise SystemExit(
            f"{len(told['partitions'])} partitions, {seen} segments, {planned} to be compacted "
            "were planned"
        )
    return Measured(
        partitions, partitions * segments, compacted, seconds, peak.bytes, told["profile"]
    )


def report(found: Measured) -> str:
    lines = [
        "# A plan of many partitions",
        "",
        f"Made by `benchmarks/many.py` on {dt.datetime.now(tz=dt.UTC).date()}.",
        "",
        describe_machine(),
        "",
        textwrap.fill(
            f"`plan --json` of {found.partitions:,} partitions with {found.segments:,} segments, "
            f"{found.compacted:,} of them to be compacted: **{found.seconds:.1f} s** from process "
            f"start to its end, at most **{found.peak_bytes / 2**20:,.0f} MiB** in all processes "
            "together (PSS, looked at twice a second).",
            100,
        ),
        "",
        (
            f"The limit for 20,000 partitions with 400,000 segments is {LIMIT_SECONDS} s and "
            f"{LIMIT_BYTES / 2**30} GiB."
        ),
        "",
        "| phase | seconds | driver alone | tasks | CPU s in tasks | MiB read |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for phase in found.profile["phases"]:
        cpu = phase["python_cpu_seconds"] + phase["jvm_cpu_seconds"]
        cells = (
            *(
                phase["name"],
                f"{phase['seconds']:.1f}",
                f"{phase['driver_seconds']:.1f}",
                str(phase["tasks"]),
            ),
            *(f"{cpu:.1f}", f"{phase['bytes_read'] / 2**20:,.0f}"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
