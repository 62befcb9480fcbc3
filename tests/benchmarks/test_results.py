"""What was measured of one case is kept beside that of the others."""

from dataclasses import replace
from pathlib import Path

from benchmarks.cases import CASES
from benchmarks.contestants import Measure
from benchmarks.report import report
from benchmarks.results import Result, load_results, save


def result(name: str, kafka: float, own: float) -> Result:
    case = next(case for case in CASES if case.name == name)
    runs = {"kafka-warm": [Measure(kafka, None, 50)] * 5, "warm": [Measure(own, None, 50)] * 5}
    return Result(case, mib=2048, log_bytes=1 << 30, records=1000, runs=runs)


def test_each_case_and_size_has_its_last_result(tmp_path: Path) -> None:
    first, second, other = result("offsets", 8, 2), result("offsets", 9, 2), result("lz4-100B", 12, 2)
    larger, largest = replace(other, mib=4096), replace(other, mib=16384)
    for one in (first, second, largest, larger, other):
        save(one, tmp_path)
    assert load_results(tmp_path) == [other, larger, largest, second]


def test_a_ratio_is_held_against_its_aim() -> None:
    lines = report([result("lz4-100B", 12, 2), result("offsets", 9, 2)]).splitlines()
    kafka = "Kafka's cleaner, 1 GiB buffer, JVM already warm"
    assert f"| lz4-100B | 2 | 5.0x | {kafka} | 12.00 | 2.00 | 6.0x | 6.0x - 6.0x | yes |" in lines
    assert f"| offsets | 2 | 10.0x | {kafka} | 9.00 | 2.00 | 4.5x | 4.5x - 4.5x | no |" in lines
    assert sum("* Machine:" in line for line in lines) == 1
    assert "| gzip-100B | - | 3.0x | not measured | - | - | - | - | - |" in lines
