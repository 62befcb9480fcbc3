from pathlib import Path

import pytest

from benchmarks.second_run import Point, line_of, write

POINTS = [
    Point(mib, 0.5 + mib / 100, everything_seconds=9, segments=16, unchanged=15, peak_bytes=3 << 20)
    for mib in (0.0, 40.0, 200.0)
]


def test_line_has_a_constant_and_a_cost_per_mib() -> None:
    assert line_of(POINTS) == pytest.approx((0.01, 0.5))


def test_section_is_the_last_one_and_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "cost-as-data-grows.md"
    page.write_text("# Before\n\n## Cost against what is new\n\nold\n")
    write(POINTS, 4096, tmp_path)
    text = page.read_text()
    assert text.startswith("# Before\n\n## Cost against what is new\n")
    assert "old" not in text
    assert "| 200 | 2.50 | 9.00 | 16 | 15 | 3 |" in text
    assert "0.50 s and 10.0 ms per MiB" in text
    assert (tmp_path / "second-run.png").stat().st_size > 0
    assert (tmp_path / "second-run.csv").read_text().splitlines()[1] == "0.0,0.5,9,16,15,3145728"
