import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peak import PeakMemory, memory_of, tree_of
from benchmarks.scaling import plan
from benchmarks.scaling_model import TERMS, Cluster, Model, Point, errors, fit, need, split
from benchmarks.scaling_report import write

TRUTH = (1.5, 2.0, 0.25, 0.125, 0.01)


def point(random: np.random.Generator, factor: str = "input size") -> Point:
    log_bytes = int(random.integers(10**8, 10**10))
    records = int(log_bytes / random.integers(50, 2000))
    made = Point(
        factor=factor,
        cores=int(random.integers(1, 9)),
        partitions=int(random.integers(1, 200)),
        log_bytes=log_bytes,
        records=records,
        keys=int(records * random.random()),
        seconds=1,
        task_seconds=1,
        driver_seconds=1,
        shuffled_bytes=20 * records,
        written_bytes=log_bytes // 2,
        peak_bytes=1 << 30,
        anonymous_bytes=1 << 29,
    )
    return Point(
        **{name: getattr(made, name) for name in Point.__slots__}
        | {"seconds": Model(TRUTH).seconds(made)}
    )


POINTS = [
    point(np.random.default_rng(seed), factor)
    for seed, factor in enumerate(["input size", "cores"] * 10)
]


def test_fit_recovers_the_coefficients_of_the_points() -> None:
    fitted, held_out = split(POINTS)
    assert (len(fitted), len(held_out)) == (14, 6)
    model = fit(fitted)
    assert model.coefficients == pytest.approx(TRUTH, rel=1e-6)
    assert max(map(abs, errors(model, held_out))) < 1e-6


def test_fitted_coefficients_are_never_negative() -> None:
    cheaper = [
        Point(
            **{name: getattr(p, name) for name in Point.__slots__}
            | {"seconds": 100 - p.partitions / 4}
        )
        for p in POINTS
    ]
    model = fit(cheaper)
    assert min(model.coefficients) >= 0
    assert model.coefficients[TERMS.index("per partition")] == 0


def test_too_few_points_are_refused() -> None:
    with pytest.raises(ValueError, match="4 points for 5 terms"):
        fit(POINTS[:4])


def test_cluster_hours_follow_the_scarcest_resource() -> None:
    like = POINTS[0]
    cluster = Cluster(nodes=2, cores=4, disk_bytes_per_second=1e9, network_bytes_per_second=1e9)
    found = need(Model(TRUTH), like, cluster, log_bytes=like.log_bytes * 10, partitions=100)
    spread = 2.0 * like.log_bytes / 1e8 + 0.25 * like.records / 1e5 + 0.125 * like.keys / 1e5
    assert found.cpu_hours * 3600 == pytest.approx(spread / 8)
    assert found.disk_hours * 3600 == pytest.approx(
        (3 * like.log_bytes + 2 * like.written_bytes) * 10 / 2e9
    )
    assert found.network_hours * 3600 == pytest.approx(24 * like.records * 10 / 2e9)
    assert found.driver_hours * 3600 == pytest.approx(1.5 + 1)
    assert (
        found.hours
        == max(found.cpu_hours, found.disk_hours, found.network_hours) + found.driver_hours
    )


def test_plan_varies_one_factor_at_a_time() -> None:
    plans = list(plan(1 << 20, 4))
    for factor in {p.factor for p in plans}:
        others = [
            {"input size": p.raw_bytes, "cores": p.cores, "partitions": p.case.partitions}
            | {"unique keys": p.case.unique, "record size": p.case.value_bytes}
            for p in plans
            if p.factor == factor
        ]
        assert (
            len(
                {
                    tuple(value for name, value in other.items() if name != factor)
                    for other in others
                }
            )
            == 1
        )
        assert len({other[factor] for other in others}) == len(others) > 1


def test_report_has_every_point(tmp_path: Path) -> None:
    write(POINTS, tmp_path, command="a command")
    text = (tmp_path / "cost-as-data-grows.md").read_text()
    assert sum(line.startswith(("| input size", "| cores")) for line in text.splitlines()) == len(
        POINTS
    )
    assert "0 % at the median, 0 % at most (6)" in text
    assert (tmp_path / "cost-as-data-grows.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / "cost-as-data-grows.csv").read_text().splitlines()) == 1 + len(POINTS)


def test_peak_memory_covers_process_and_children() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert child.pid in tree_of(os.getpid())
        held = np.ones(50 << 20, np.uint8)
        with PeakMemory(os.getpid()) as peak:
            pass
        whole, anonymous = memory_of(os.getpid())
        assert peak.bytes >= whole * 0.9 > 0
        assert peak.anonymous_bytes >= anonymous * 0.9 >= held.nbytes * 0.9
    finally:
        child.kill()
        child.wait()
    assert memory_of(child.pid) == (0, 0)
