import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.memory import GIB, Point, parse, plan, verdicts, write
from benchmarks.watch import FirstOpen


def point(factor: str, peak_bytes: int, *, gib: int = 2, keys: int = 1_000_000) -> Point:
    return Point(
        factor=factor,
        log_bytes=gib * GIB,
        records=10_000_000,
        keys=keys,
        seconds=1,
        peak_bytes=peak_bytes,
        anonymous_bytes=peak_bytes // 2,
        jvm_bytes=peak_bytes // 4,
        shuffled_bytes=0,
        spilled_bytes=0,
    )


def test_every_point_is_compared_with_the_targets() -> None:
    flat = [point("input size", 1000 << 20), point("input size", 1090 << 20, gib=32)]
    assert [line.split(": ")[1] for line in verdicts(flat)] == [
        "yes, 1,090.",
        "yes, 9%; 9% of what is the processes' own.",
    ]
    keys = [point("unique keys", 1400 << 20), point("unique keys", 1600 << 20, keys=200_000_000)]
    assert [line.split(": ")[1] for line in verdicts([*flat, *keys])] == [
        "no, 1,600.",
        "yes, 9%; 9% of what is the processes' own.",
        "no, 14%; 14% of what is the processes' own.",
    ]


def test_default_plan_of_measurements() -> None:
    planned = list(plan(parse([])))
    assert [(factor, size // GIB, keys) for factor, size, keys, _ in planned] == [
        *(("input size", gib, 1_000_000) for gib in (2, 8, 32)),
        *(("unique keys", 12, keys) for keys in (1_000_000, 20_000_000, 200_000_000)),
    ]


def test_report_has_table_chart_and_csv(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    points = [point("input size", 1000 << 20), point("unique keys", 1000 << 20)]
    write(points, tmp_path, command="this")
    text = (tmp_path / "peak-memory.md").read_text(encoding="utf-8")
    assert "| unique keys | 2.0 | 10.0 | 1 | 1.0 | 0 | 0 | 1,000 | 500 | 250 |" in text
    assert (tmp_path / "peak-memory.svg").stat().st_size > 0
    assert len((tmp_path / "peak-memory.csv").read_text().splitlines()) == 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")
class TestFirstOpen:
    def test_wait_returns_when_file_is_first_opened(self, tmp_path: Path) -> None:
        (tmp_path / "a").touch()
        (tmp_path / "b").touch()
        with FirstOpen([tmp_path / "a", tmp_path / "b"]) as opened:
            (tmp_path / "b").stat()
            assert opened.wait(seconds=0) is None
            before = time.perf_counter()
            subprocess.run(["cat", str(tmp_path / "b")], check=True)
            when = opened.wait(seconds=60)
            assert when is not None
            assert before < when

    def test_missing_file_cannot_be_watched(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match=os.strerror(2)), FirstOpen([tmp_path / "none"]):
            pass
