from dataclasses import replace

from benchmarks.kafka_log import Measured, report


def test_report_compares_slowest_offset_read_with_target() -> None:
    fast = Measured(
        "1 x none",
        "the JVM's own",
        2,
        "offset",
        12_000_000,
        first=4.0,
        seconds=1.5,
        cpu_seconds=2.4,
    )
    assert fast.per_core == 4e6
    other = replace(fast, columns="all 24", seconds=60.0)
    yes = "* with the JVM's own flags: yes, 4.00; per CPU second 5.00."
    assert report([fast, other], "this", 1024).splitlines()[-1] == yes
    slow = replace(fast, flags="Winnow's", seconds=3.0, cpu_seconds=6.0)
    no = "* with Winnow's flags: no, 2.00; per CPU second 2.00."
    assert report([slow, replace(slow, seconds=2.0), fast, other], "this", 1024).splitlines()[
        -2:
    ] == [no, yes]
    assert (
        "| 1 x none | the JVM's own | 2 | offset | 4.00 | 1.50 | 8.00 | 4.00 | 2.40 | 5.00 |"
        in report([fast], "this", 1024)
    )
