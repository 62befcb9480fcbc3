"""What a cleaning costs as more of the log is new, at one size of the log; writes the last section
of cost-as-data-grows.md, second-run.csv and second-run.png.

    .venv/bin/python benchmarks/second_run.py [--mib 4096] [--repeat 3]

The older part of the log was cleaned by Winnow before, not measured. Updates are of the newest 5 %
of its keys. One session, warm; one run keeps key summaries, the other has none and reads all.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import os
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))

from benchmarks.cases import Case, Shape  # noqa: E402 - needs the path above
from benchmarks.contestants import Measure, WarmWinnow, older_part_first  # noqa: E402
from benchmarks.data import data_set, remove_data  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402
from benchmarks.peak import PeakMemory  # noqa: E402
from benchmarks.run import fresh  # noqa: E402
from benchmarks.scaling_report import ABOUT_NEW  # noqa: E402

MIB = 1 << 20
SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True, slots=True)
class Point:
    new_mib: float
    """Of the log, not cleaned before."""
    seconds: float
    everything_seconds: float
    """Without key summaries."""
    segments: int
    unchanged: int
    peak_bytes: int
    """Of all processes together (PSS), with key summaries."""


def main() -> None:
    options = parse()
    with WarmWinnow(cores=os.cpu_count() or 1) as session:
        # In any order: what changes with time must not look like the share's doing.
        shares = random.Random(0).sample(SHARES, len(SHARES))
        measure(session, shares[0], options.mib // 8, 1)  # pays for workers and kernels
        points = [measure(session, share, options.mib, options.repeat) for share in shares]
    write(sorted(points, key=lambda point: point.new_mib), options.mib, options.output)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=4096, help="raw size of the log")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results", help="a directory"
    )
    return parser.parse_args()


def measure(session: WarmWinnow, share: float, mib: int, repeat: int) -> Point:
    """Times are medians."""
    shape = Shape.NEWEST if share else Shape.NOTHING
    case = Case(f"new-{share}", shape=shape, new=share)
    data = data_set(case, mib * MIB)

    def known(log_dir: Path, *, ledger: Path | None = None) -> Measure:
        return session.clean(data, log_dir, ledger=ledger)

    def unknown(log_dir: Path, *, ledger: Path | None = None) -> Measure:
        del ledger
        return session.clean(data, log_dir)

    runs: dict[bool, list[Measure]] = {True: [], False: []}
    peak_bytes = 0
    for _ in range(repeat):
        for summaries, clean in ((True, known), (False, unknown)):
            with fresh(data) as log_dir, PeakMemory(session.pid) as peak:
                runs[summaries].append(older_part_first(data, clean, log_dir))
            if summaries:
                peak_bytes = max(peak_bytes, peak.bytes)
    last = runs[True][-1]
    point = Point(
        new_mib=data.log_bytes / MIB * share,
        seconds=statistics.median(run.seconds for run in runs[True]),
        everything_seconds=statistics.median(run.seconds for run in runs[False]),
        segments=last.segments or 0,
        unchanged=last.unchanged or 0,
        peak_bytes=peak_bytes,
    )
    say(f"{point.new_mib:.0f} MiB new: {point.seconds:.2f} s, {point.everything_seconds:.2f} s")
    remove_data(case, mib * MIB)
    return point


def write(points: list[Point], mib: int, directory: Path) -> None:
    with (directory / "second-run.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Point.__slots__)
        writer.writerows([getattr(point, name) for name in Point.__slots__] for point in points)
    slope, constant = line_of(points)
    plot(points, slope, constant, directory / "second-run.png")
    page = directory / "cost-as-data-grows.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    above = text.partition(f"{ABOUT_NEW}\n")[0]
    lines = [ABOUT_NEW, *section(points, mib, slope, constant)]
    page.write_text(above + "\n".join(lines) + "\n", encoding="utf-8")
    say(f"written: {page}")


def line_of(points: list[Point]) -> tuple[float, float]:
    """Return the seconds per MiB, and once, that fit the points best."""
    slope, constant = np.polyfit(
        [point.new_mib for point in points], [point.seconds for point in points], 1
    )
    return float(slope), float(constant)


def section(points: list[Point], mib: int, slope: float, constant: float) -> list[str]:
    off = max(abs(slope * point.new_mib + constant - point.seconds) for point in points)
    return [
        "",
        f"Made by `benchmarks/second_run.py --mib {mib}` on {dt.datetime.now(tz=dt.UTC).date()}:",
        f"one partition of {mib:,} MiB of keys and values, of which some is new, as updates of the",
        "newest 5 % of the keys. Winnow has cleaned the rest before.",
        "",
        describe_machine(),
        "",
        "![Seconds against MiB that are new](second-run.png)",
        "",
        "| MiB new | s | without key summaries | closed segments | not written | peak MiB |",
        "|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {point.new_mib:,.0f} | {point.seconds:.2f} | {point.everything_seconds:.2f} "
            f"| {point.segments} | {point.unchanged} | {point.peak_bytes / MIB:,.0f} |"
            for point in points
        ),
        "",
        f"The line: {constant:.2f} s and {1000 * slope:.1f} ms per MiB that is new. Each point is",
        f"at most {off:.2f} s off. Memory is the peak of all processes together (PSS).",
    ]


def plot(points: list[Point], slope: float, constant: float, path: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - slow to load

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    places = [point.new_mib for point in points]
    axis.plot(places, [point.seconds for point in points], "o", label="with key summaries")
    axis.plot(places, [slope * place + constant for place in places], "-", label="the line")
    axis.plot(
        places, [point.everything_seconds for point in points], "x", label="all of it is read"
    )
    axis.set_ylim(bottom=0)
    axis.set_xlabel("MiB that are new")
    axis.set_ylabel("seconds")
    axis.legend()
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    main()
