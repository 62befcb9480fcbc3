"""Points of scaling.py as a table, plots, a model and what follows from it."""

from __future__ import annotations

import csv
import datetime as dt
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from benchmarks.machine import describe_machine
from benchmarks.scaling_model import (
    PB,
    TERMS,
    TRAVELLING_BYTES,
    Cluster,
    Model,
    Point,
    errors,
    fit,
    need,
    split,
)

AXES: dict[str, tuple[str, Callable[[Point], float]]] = {
    "input size": ("GiB of log", lambda point: point.log_bytes / 2**30),
    "unique keys": ("million different keys", lambda point: point.keys / 1e6),
    "record size": ("bytes of a record", lambda point: point.log_bytes / point.records),
    "partitions": ("partitions", lambda point: point.partitions),
    "cores": ("cores", lambda point: point.cores),
}
PETABYTE_PARTITIONS = 20_000
ABOUT_NEW = "## Cost against what is new"


def write(points: Sequence[Point], directory: Path, *, command: str) -> None:
    """cost-as-data-grows.md, cost-as-data-grows.csv and cost-as-data-grows.png."""
    fitted, held_out = split(points)
    model = fit(fitted)
    _write_csv(points, directory / "cost-as-data-grows.csv")
    _plot(points, model, directory / "cost-as-data-grows.png")
    lines = [
        *_head(command),
        *_table(points, model),
        *_of_model(model, fitted, held_out),
        *_of_petabyte(model, points),
    ]
    page = directory / "cost-as-data-grows.md"
    lines += [ABOUT_NEW, *rest_of(page).splitlines()]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def rest_of(page: Path) -> str:
    """Return what follows the title of the section that `benchmarks/second_run.py` writes, which
    is the last one.
    """
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return text.partition(f"{ABOUT_NEW}\n")[2]


def _head(command: str) -> list[str]:
    return [
        "# What a cleaning costs as it grows",
        "",
        f"Made by `{command}` on {dt.datetime.now(tz=dt.UTC).date()}.",
        "",
        describe_machine(),
        (
            "* One session, warm; page cache warm; half of the records superseded unless keys are "
            "varied, values of 100"
        ),
        (
            "  bytes unless records are. Times are medians. Memory is the peak of all processes "
            "together (PSS): with"
        ),
        "  mapped logs, and without files. Points:",
        "  [cost-as-data-grows.csv](cost-as-data-grows.csv).",
        "",
        "![Seconds against each of what was varied; the line is the model](cost-as-data-grows.png)",
        "",
    ]


def _table(points: Sequence[Point], model: Model) -> list[str]:
    lines = [
        (
            "| varied | cores | partitions | MiB | million records | million keys | s | model | "
            "task s "
            "| driver alone s | MiB shuffled | peak MiB | without files |"
        ),
        "|---|" + "--:|" * 12,
    ]
    for point in points:
        cells = (
            *(
                point.factor,
                f"{point.cores}",
                f"{point.partitions}",
                f"{point.log_bytes / 2**20:,.0f}",
            ),
            *(f"{point.records / 1e6:.2f}", f"{point.keys / 1e6:.2f}", f"{point.seconds:.2f}"),
            *(
                f"{model.seconds(point):.2f}",
                f"{point.task_seconds:.2f}",
                f"{point.driver_seconds:.2f}",
            ),
            *(
                f"{size / 2**20:,.0f}"
                for size in (point.shuffled_bytes, point.peak_bytes, point.anonymous_bytes)
            ),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _of_model(model: Model, fitted: Sequence[Point], held_out: Sequence[Point]) -> list[str]:
    lines = [
        "## The model",
        "",
        "Seconds of the wall are the sum of:",
        "",
        "| | seconds |",
        "|---|--:|",
    ]
    lines += [
        f"| {term} | {value:.4g} |" for term, value in zip(TERMS, model.coefficients, strict=True)
    ]
    lines.append("")
    for what, points in (
        (f"the {len(fitted)} points it was fitted to", fitted),
        ("points it never saw", held_out),
    ):
        off = [abs(error) for error in errors(model, points)]
        median, most = statistics.median(off), max(off)
        lines.append(
            f"Off on {what}: {100 * median:.0f} % at the median, {100 * most:.0f} % at most "
            f"({len(off)})."
        )
        lines.append("")
    return lines


def _of_petabyte(model: Model, points: Sequence[Point]) -> list[str]:
    cluster = Cluster()
    like = max(
        (point for point in points if point.factor == "input size"),
        key=lambda point: point.log_bytes,
    )
    found = need(model, like, cluster, log_bytes=PB, partitions=PETABYTE_PARTITIONS)
    shuffled = TRAVELLING_BYTES * like.records / like.log_bytes
    travelling = f"{TRAVELLING_BYTES} bytes of a record at most"
    per_core = max(point.anonymous_bytes / point.cores for point in points)
    return [
        f"## A petabyte on {cluster.nodes} nodes",
        "",
        (
            f"Not measured: the model, with {cluster.cores} cores, disks of "
            f"{cluster.disk_bytes_per_second / 1e9:.1f} "
            f"GB/s and a network of {cluster.network_bytes_per_second * 8 / 1e9:.0f} Gbit/s a "
            "node, the cores as fast "
            f"as here, and {PETABYTE_PARTITIONS:,} partitions of such records and keys as in the "
            "largest point above. "
            "The cores of a cluster share less than those here did, and its disks are cold, which "
            "the disks' hours "
            "stand for."
        ),
        "",
        "| | hours if nothing else took time |",
        "|---|--:|",
        f"| CPU | {found.cpu_hours:.2f} |",
        (
            "| disks: logs read three times, what is left written and read back | "
            f"{found.disk_hours:.2f} |"
        ),
        f"| network: {travelling}, {shuffled:.0%} of the logs' size | {found.network_hours:.2f} |",
        f"| the driver, which commits one partition after the other | {found.driver_hours:.2f} |",
        f"| **about, in all** | **{found.hours:.1f}** |",
        "",
        (
            f"Memory: at most {per_core / 2**20:,.0f} MiB a core, driver and JVM included, in any "
            "point above."
        ),
    ]


def _write_csv(points: Sequence[Point], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Point)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(point) for point in points)


def _plot(points: Sequence[Point], model: Model, path: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - slow to load

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    shown = [factor for factor in AXES if any(point.factor == factor for point in points)]
    figure, grid = plt.subplots(
        1, len(shown), figsize=(4 * len(shown), 3.6), layout="constrained", squeeze=False
    )
    axes = grid[0]
    for axis, factor in zip(axes, shown, strict=True):
        label, of = AXES[factor]
        chosen = sorted((point for point in points if point.factor == factor), key=of)
        places = [of(point) for point in chosen]
        axis.plot(places, [point.seconds for point in chosen], "o", label="measured")
        axis.plot(places, [model.seconds(point) for point in chosen], "-", label="model")
        memory = axis.twinx()
        memory.plot(
            places,
            [point.anonymous_bytes / 2**20 for point in chosen],
            "x",
            color="tab:gray",
            label="MiB",
        )
        memory.set_ylim(bottom=0)
        memory.set_ylabel("peak MiB without files (x)")
        axis.set_ylim(bottom=0)
        axis.set_xlabel(label)
        axis.set_ylabel("seconds")
        if factor in {"partitions", "record size"}:
            axis.set_xscale("log")
            axis.minorticks_off()
    axes[0].legend()
    figure.savefig(path, dpi=100)
    plt.close(figure)
