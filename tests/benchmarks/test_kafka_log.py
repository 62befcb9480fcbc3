from dataclasses import replace

from benchmarks.kafka_log import Measured, report


def test_the_slowest_reading_of_offsets_is_held_against_the_aim() -> None:
    fast = Measured("1 x none", "Winnow's", 2, "offset", 12_000_000, seconds=1.5, cpu_seconds=2.4)
    assert fast.per_core == 4e6
    other = replace(fast, columns="all 24", seconds=60.0)
    assert report([fast, other], "this").splitlines()[-1].endswith("per second and core: yes, 4.00.")
    assert report([fast, other, replace(fast, seconds=3.0)], "this").splitlines()[-1].endswith("core: no, 2.00.")
    assert "| 1 x none | Winnow's | 2 | offset | 1.50 | 8.00 | 4.00 | 2.40 | 5.00 |" in report([fast], "this")
