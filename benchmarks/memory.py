"""The most memory that a cleaning takes as its input and its keys grow; writes peak-memory.md,
peak-memory.csv and peak-memory.svg.

    .venv/bin/python benchmarks/memory.py [--gib 2 8 32] [--keys 1 20 200] [--keys-gib 12]

Each point is a session of its own on `local[2]`, with one partition: made, cleaned in place and
removed before the next one, so that the disk needs room for the largest alone and for what is left
of it: 34 GiB as it is. Needs the project set up with what tests need (`./run-tests.sh --version`
does that) and half an hour of a quiet machine. Linux only.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))

from benchmarks.cases import Case  # noqa: E402 - needs the path above
from benchmarks.contestants import WarmWinnow  # noqa: E402
from benchmarks.data import DATA, made_in, make  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402
from benchmarks.peak import PeakMemory  # noqa: E402
from benchmarks.shapes import records_of  # noqa: E402

GIB, MIB = 1 << 30, 1 << 20
LIMIT_BYTES, LIMIT_GROWTH = 1.5 * GIB, 0.10
"""What all processes may take together, and how much more of it at the last point of an axis than
at the first.
"""
KEYS_OF_SIZES = 1_000_000
"""Different keys, however large the input is."""
VALUE_OF_SIZES, VALUE_OF_KEYS = 100, 32
"""Bytes. Many keys need many records."""
PATIENCE = 3600.0
AXES = {"input size": "GiB of log", "unique keys": "million different keys"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One cleaning. `keys`: different ones, as the data was meant to have them. Bytes: peaks of all
    processes.
    """

    factor: str
    log_bytes: int
    records: int
    keys: int
    seconds: float
    peak_bytes: int
    """Mapped files included (PSS)."""
    anonymous_bytes: int
    jvm_bytes: int
    """Of the anonymous ones those of Java."""
    shuffled_bytes: int
    spilled_bytes: int

    @property
    def place(self) -> float:
        return self.log_bytes / GIB if self.factor == "input size" else self.keys / 1e6


def main() -> None:
    options = parse(sys.argv[1:])
    DATA.mkdir(parents=True, exist_ok=True)
    words = f"--gib {join(options.gib)} --keys {join(options.keys)} --keys-gib {options.keys_gib:g}"
    points: list[Point] = []
    for planned in plan(options):
        points.append(measure(*planned, segment_bytes=options.segment_mib * MIB))
        # After each: what comes last takes longest.
        write(
            points,
            options.output,
            command=f"benchmarks/memory.py {words} --segment-mib {options.segment_mib}",
        )
    say(f"written: {options.output}/peak-memory.md")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--gib", type=float, nargs="*", default=[2, 8, 32], help="raw sizes, all with as many keys"
    )
    parser.add_argument(
        "--keys", type=float, nargs="*", default=[1, 20, 200], help="millions, all in as many bytes"
    )
    parser.add_argument(
        "--keys-gib", type=float, default=12, help="raw size of what has so many keys"
    )
    parser.add_argument("--segment-mib", type=int, default=256)
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results", help="a directory"
    )
    return parser.parse_args(arguments)


def plan(options: argparse.Namespace) -> Iterator[tuple[str, int, int, int]]:
    """What is varied, bytes of raw data, different keys, bytes of a value."""
    for gib in options.gib:
        yield "input size", int(gib * GIB), KEYS_OF_SIZES, VALUE_OF_SIZES
    for millions in options.keys:
        yield "unique keys", int(options.keys_gib * GIB), int(millions * 1e6), VALUE_OF_KEYS


def measure(
    factor: str, raw_bytes: int, keys: int, value_bytes: int, *, segment_bytes: int
) -> Point:
    share = keys / records_of(value_bytes, raw_bytes)
    if not 0 < share < 1:
        raise SystemExit(f"{raw_bytes} bytes are too few for {keys} keys")
    case = Case(f"memory-{keys}", unique=share, value_bytes=value_bytes)
    say(f"{factor}: making {raw_bytes / GIB:g} GiB with {keys / 1e6:g} million keys")
    root = Path(tempfile.mkdtemp(dir=DATA, prefix="memory-"))
    try:
        make(case, raw_bytes, root, segment_bytes=segment_bytes)
        os.sync()
        data = made_in(case, root)
        with WarmWinnow(cores=2, patience=PATIENCE) as session, PeakMemory(session.pid) as peak:
            found, profile = session.clean_profiled(data, data.log_dir)
    finally:
        shutil.rmtree(root)

    def total(name: str) -> int:
        return int(sum(phase[name] for phase in profile["phases"]))

    point = Point(
        factor=factor,
        log_bytes=data.log_bytes,
        records=data.records,
        keys=keys,
        seconds=found.seconds,
        peak_bytes=peak.bytes,
        anonymous_bytes=peak.anonymous_bytes,
        jvm_bytes=peak.jvm_bytes,
        shuffled_bytes=total("shuffle_bytes_written"),
        spilled_bytes=total("spilled_bytes"),
    )
    say(f"{point}")
    return point


def write(points: Sequence[Point], directory: Path, *, command: str) -> None:
    """peak-memory.md, peak-memory.csv and peak-memory.svg."""
    with (directory / "peak-memory.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Point)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(point) for point in points)
    plot(points, directory / "peak-memory.svg")
    lines = [
        "# The memory that a cleaning takes",
        "",
        f"Made by `{command}` on {dt.datetime.now(tz=dt.UTC).date()}.",
        "",
        describe_machine(),
        "* `local[2]`, a session for each point, one partition. Memory is the peak of all",
        (
            "  processes together (PSS, looked at twice a second): with mapped files, and what is "
            "the "
            "processes' own."
        ),
        "",
        "![Peak memory against the size of the input and against different keys](peak-memory.svg)",
        "",
        (
            "| varied | GiB | million records | million keys | s | MiB shuffled | spilled | peak "
            "MiB | "
            "own | of it Java |"
        ),
        "|---|" + "--:|" * 9,
    ]
    for point in points:
        sizes = (
            point.shuffled_bytes,
            point.spilled_bytes,
            point.peak_bytes,
            point.anonymous_bytes,
            point.jvm_bytes,
        )
        cells = (
            *(
                point.factor,
                f"{point.log_bytes / GIB:.1f}",
                f"{point.records / 1e6:.1f}",
                f"{point.keys / 1e6:g}",
            ),
            *(f"{point.seconds:.1f}", *(f"{size / MIB:,.0f}" for size in sizes)),
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *verdicts(points)]
    (directory / "peak-memory.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def verdicts(points: Sequence[Point]) -> Iterator[str]:
    """What was aimed at, and what came of it: in all, and without mapped pages, which are the page
    cache's.
    """
    most = max(point.peak_bytes for point in points)
    yield (
        f"* At most {LIMIT_BYTES / MIB:,.0f} MiB: {'yes' if most <= LIMIT_BYTES else 'no'}, "
        f"{most / MIB:,.0f}."
    )
    for factor in AXES:
        chosen = [point for point in points if point.factor == factor]
        if len(chosen) > 1:
            growth, own = (
                max(getattr(point, name) for point in chosen) / getattr(chosen[0], name) - 1
                for name in ("peak_bytes", "anonymous_bytes")
            )
            flat = "yes" if growth <= LIMIT_GROWTH else "no"
            yield (
                f"* At most {LIMIT_GROWTH:.0%} more than at the first point, by {factor}: {flat}, "
                f"{growth:.0%}; "
                f"{own:.0%} of what is the processes' own."
            )


def plot(points: Sequence[Point], path: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - slow to load

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    shown = {
        factor: label
        for factor, label in AXES.items()
        if any(point.factor == factor for point in points)
    }
    size = (4 * len(shown), 3.6)
    figure, grid = plt.subplots(
        1, len(shown), figsize=size, layout="constrained", sharey=True, squeeze=False
    )
    for axis, (factor, label) in zip(grid[0], shown.items(), strict=True):
        chosen = sorted(
            (point for point in points if point.factor == factor), key=lambda point: point.place
        )
        for name, marker in (("peak_bytes", "o-"), ("anonymous_bytes", "x--"), ("jvm_bytes", ".:")):
            sizes = [getattr(point, name) / MIB for point in chosen]
            axis.plot(
                [point.place for point in chosen], sizes, marker, label=name.partition("_")[0]
            )
        axis.axhline(LIMIT_BYTES / MIB, color="tab:red", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xlabel(label)
        axis.set_ylim(bottom=0)
    grid[0][0].set_ylabel("MiB")
    grid[0][0].legend()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def join(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:g}" for number in numbers)


if __name__ == "__main__":
    main()
