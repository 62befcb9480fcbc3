"""What a run costs, as a sum of what there is of everything; fitted to some points and checked
against others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PB = 10**15
TRAVELLING_BYTES = 24
"""Of each record, at most, between the executors of a cluster: its key's hash and its number, and
the number again if it stays. On one machine tasks hand them over in files, and Spark shuffles next
to nothing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measured run."""

    factor: str
    """What was varied to get here."""
    cores: int
    partitions: int
    log_bytes: int
    records: int
    keys: int
    """Different ones, as the data was meant to have them."""
    seconds: float
    """Of the wall."""
    task_seconds: float
    driver_seconds: float
    """In which no Spark job ran."""
    shuffled_bytes: int
    written_bytes: int
    peak_bytes: int
    """Of all processes together, mapped files included (PSS)."""
    anonymous_bytes: int


TERMS = (
    "once",
    "per GB of log and core",
    "per million records and core",
    "per million keys and core",
    "per partition",
)


@dataclass(frozen=True, slots=True)
class Model:
    """Seconds of the wall of a run in a session that is warm."""

    coefficients: tuple[float, ...]
    """Beside TERMS; none is below 0: nothing gets cheaper by being more."""

    def seconds(self, point: Point) -> float:
        return float(terms(point) @ np.array(self.coefficients))

    def core_seconds(self, *, log_bytes: float, records: float, keys: float) -> float:
        """Of all cores together, for what is spread over them."""
        _, per_gb, per_million_records, per_million_keys, _ = self.coefficients
        return (
            per_gb * log_bytes / 1e9
            + per_million_records * records / 1e6
            + per_million_keys * keys / 1e6
        )


def terms(point: Point) -> NDArray[np.float64]:
    spread = np.array([point.log_bytes / 1e9, point.records / 1e6, point.keys / 1e6]) / point.cores
    return np.array([1.0, *spread, point.partitions])


def fit(points: Sequence[Point]) -> Model:
    """Least squares of the relative errors, without a coefficient below 0. ValueError for too few
    points.
    """
    if len(points) < len(TERMS):
        raise ValueError(f"{len(points)} points for {len(TERMS)} terms")
    seconds = np.array([point.seconds for point in points])
    rows = np.array([terms(point) for point in points]) / seconds[:, None]
    # Columns are of very different sizes: a solver that cuts small singular values would drop some
    # of them.
    sizes = np.linalg.norm(rows, axis=0)
    sizes[sizes == 0] = 1
    chosen = np.ones(len(TERMS), np.bool_)
    found = np.zeros(len(TERMS))
    while chosen.any():
        found[:] = 0
        found[chosen] = np.linalg.lstsq(rows[:, chosen] / sizes[chosen], np.ones(len(points)))[0]
        if (found >= 0).all():
            break
        chosen[np.argmin(found)] = False
    return Model(tuple((found / sizes).tolist()))


def split(points: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """Those to fit, and every third, which the model never sees."""
    held_out = [point for number, point in enumerate(points) if number % 3 == 2]
    return [point for number, point in enumerate(points) if number % 3 != 2], held_out


def errors(model: Model, points: Sequence[Point]) -> list[float]:
    """Of each point, as a share of what was measured; above 0 where the model says more."""
    return [model.seconds(point) / point.seconds - 1 for point in points]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    nodes: int = 50
    cores: int = 32
    """Of each node, with one executor core each."""
    disk_bytes_per_second: float = 2e9
    """Of each node, read or written."""
    network_bytes_per_second: float = 1.25e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Hours that each resource alone would take; the run takes about as long as the longest of
    them, and the driver.
    """

    cpu_hours: float
    disk_hours: float
    network_hours: float
    driver_hours: float

    @property
    def hours(self) -> float:
        return max(self.cpu_hours, self.disk_hours, self.network_hours) + self.driver_hours


def need(model: Model, like: Point, cluster: Cluster, *, log_bytes: float, partitions: int) -> Need:
    """For logs with as many records, keys and survivors per byte as `like` has.

    Logs are read three times (headers, scan, rewrite) and what is left is written and read back
    once.
    """
    more = log_bytes / like.log_bytes
    cores, disks = cluster.nodes * cluster.cores, cluster.nodes * cluster.disk_bytes_per_second
    spread = model.core_seconds(
        log_bytes=log_bytes, records=like.records * more, keys=like.keys * more
    )
    moved = 3 * log_bytes + 2 * like.written_bytes * more
    travelling = TRAVELLING_BYTES * like.records * more
    return Need(
        cpu_hours=spread / cores / 3600,
        disk_hours=moved / disks / 3600,
        network_hours=travelling / (cluster.nodes * cluster.network_bytes_per_second) / 3600,
        driver_hours=(model.coefficients[0] + model.coefficients[-1] * partitions) / 3600,
    )
