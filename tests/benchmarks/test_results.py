"""Results of each benchmark case are saved beside those of the others and compared with targets."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import shapes
from benchmarks.cases import CASES, Case, Shape
from benchmarks.contestants import ContestantFailedError, Measure, disk, older_part_first
from benchmarks.data import made_in, make
from benchmarks.report import report
from benchmarks.results import Result, load_results, save


def result(name: str, kafka: float, own: float) -> Result:
    case = next(case for case in CASES if case.name == name)
    runs = {"kafka-warm": [Measure(kafka, None, 50)] * 5, "warm": [Measure(own, None, 50)] * 5}
    return Result(case, mib=2048, log_bytes=1 << 30, records=1000, runs=runs)


def test_last_result_of_each_case_and_size_is_kept(tmp_path: Path) -> None:
    first, second, other = (
        result("offsets", 8, 2),
        result("offsets", 9, 2),
        result("lz4-100B", 12, 2),
    )
    larger, largest = replace(other, mib=4096), replace(other, mib=16384)
    for one in (first, second, largest, larger, other):
        save(one, tmp_path)
    assert load_results(tmp_path) == [other, larger, largest, second]


def test_report_compares_each_ratio_with_its_target() -> None:
    lines = report([result("lz4-100B", 12, 2), result("offsets", 9, 2)]).splitlines()
    kafka = "Kafka's cleaner, 1 GiB buffer, JVM already warm"
    assert (
        f"| lz4-100B | 2 | 5.0x | {kafka} | 12.00 | 2.00 | 6.0x | 6.0x - 6.0x | - | yes |" in lines
    )
    assert f"| offsets | 2 | 10.0x | {kafka} | 9.00 | 2.00 | 4.5x | 4.5x - 4.5x | - | no |" in lines
    assert sum("* Machine:" in line for line in lines) == 1
    assert "| gzip-100B | - | 3.0x | not measured | - | - | - | - | - | - |" in lines


def test_time_of_the_disk_alone_limits_the_reachable_ratio() -> None:
    one = result("one-1KB", 5, 2.5)
    runs = {**one.runs, "disk": [Measure(2, None, 1 << 20)] * 5}
    assert any(
        "| 2.0x | 2.0x - 2.0x | 2.5x | no |" in line
        for line in report([replace(one, runs=runs)]).splitlines()
    )
    runs = {**one.runs, "disk": [Measure(0.01, None, 50)] * 5}
    assert any(
        "| 2.0x | 2.0x - 2.0x | - | no |" in line
        for line in report([replace(one, runs=runs)]).splitlines()
    )


def test_disk_contestant_writes_and_reads_all_bytes(tmp_path: Path) -> None:
    measure = disk(tmp_path / "disk", 50_000_000, cores=2)
    assert (
        measure.bytes_after
        == sum(file.stat().st_size for file in (tmp_path / "disk").iterdir())
        == 50_000_000
    )
    assert measure.seconds > 0


def test_short_write_fails_the_disk_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:1000], at))
    with pytest.raises(ContestantFailedError, match="no room for 25000000 bytes"):
        disk(tmp_path / "disk", 50_000_000, cores=2)


def test_cold_and_warm_jvm_have_a_row_each() -> None:
    one = result("offsets", 8, 1)
    slower = {"kafka": [Measure(12, None, 50)] * 5, "kafka-1GiB": [Measure(11, None, 50)] * 5}
    lines = report([replace(one, runs={**one.runs, **slower})]).splitlines()
    rows = [line for line in lines if line.startswith("| offsets |")]
    assert [(row.split("|")[4].strip(), row.split("|")[-2].strip()) for row in rows] == [
        ("Kafka's cleaner, 1 GiB buffer", "yes"),
        ("Kafka's cleaner, 1 GiB buffer, JVM already warm", "no"),
    ]


def test_share_of_segments_that_lost_nothing_is_stated() -> None:
    one = result("new-newest-100B", 8, 1)
    runs = {**one.runs, "warm": [Measure(1, None, 50, segments=32, unchanged=29)]}
    lines = report([replace(one, runs={**runs, "kafka-warm": [Measure(8, None, 50)]})]).splitlines()
    assert "29 of 32 closed segments lost nothing." in lines


@pytest.mark.parametrize(
    ("shape", "least", "most"),
    [(Shape.ANY, 0, 10_000), (Shape.NEWEST, 9_500, 500), (Shape.FEW, 0, 1_000)],
)
def test_updates_have_the_keys_of_their_shape(shape: Shape, least: int, most: int) -> None:
    random = np.random.default_rng(1)
    chosen = shapes._updated(random, Case("x", shape=shape), 10_000, 10_000)
    assert least <= chosen.min()
    assert chosen.max() < 10_000
    assert len(np.unique(chosen)) <= most
    if shape is Shape.FEW:
        assert 0.94 < (chosen % 500 == 0).mean() < 0.97, "spread over all of the log"
        assert np.unique(chosen[chosen % 500 == 0]).size == 20


def test_size_of_many_small_partitions_is_not_asked_for() -> None:
    sizes = {case.name: case.mib(2048) for case in CASES}
    assert (sizes["64-partitions"], sizes["2000-partitions"]) == (1024, 125)
    assert (sizes["one-100B"], sizes["new-newest-100B"]) == (2048, 8192)


def test_older_part_is_cleaned_before_what_is_measured(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "new-any-100B")
    make(case, 1 << 20, tmp_path, segment_bytes=1 << 20)
    data = made_in(case, tmp_path)
    bounds = (data.log_dir / "cleaner-offset-checkpoint").read_bytes()
    end = (data.log_dir / "replication-offset-checkpoint").read_bytes()
    seen: list[tuple[bytes, bool]] = []
    ledgers: set[Path] = set()

    def clean(log_dir: Path, *, ledger: Path) -> Measure:
        cleaned = log_dir / "cleaner-offset-checkpoint"
        seen.append(((log_dir / "replication-offset-checkpoint").read_bytes(), cleaned.exists()))
        cleaned.write_bytes(bounds)
        ledgers.add(ledger)
        return Measure(len(seen), None, data.log_bytes)

    assert older_part_first(data, clean, data.log_dir).seconds == 2
    assert seen == [(bounds, False), (end, True)]
    assert bounds != end
    assert len(ledgers) == 1, "what the first run finds out is at hand in the second"
