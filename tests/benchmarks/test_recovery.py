import argparse
from pathlib import Path

from benchmarks.cases import Case
from benchmarks.data import DataSet
from benchmarks.recovery import MIB, cat, drop, report


def test_page_has_a_line_for_each_cache_with_ratios(tmp_path: Path) -> None:
    data = DataSet(Case("recovery-many", partitions=4), tmp_path, tmp_path, 1, 32 * MIB)
    seconds = {"cat": [1.0, 3.0, 2.0], "Winnow": [2.5, 2.5, 9.0], "Kafka": [5.0, 5.0, 5.0]}
    taken = {(name, cache): found for name, found in seconds.items() for cache in ("warm", "cold")}
    options = argparse.Namespace(mib=64, partitions=4, repeat=3)
    page = report({"many": (data, taken)}, options)
    assert "| 4 x 8 MiB | warm | 2.00 | 2.50 | 5.00 | 1.25 | 2.00 |" in page
    assert "| 4 x 8 MiB | cold | 2.00 | 2.50 | 5.00 | 1.25 | 2.00 |" in page
    assert "--mib 64 --partitions 4 --repeat 3" in page


def test_dropped_segments_are_read_again_whole(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    segment = tmp_path / "t-0" / "0.log"
    segment.write_bytes(bytes(MIB))
    drop(tmp_path)
    assert cat(tmp_path) > 0
    assert segment.stat().st_size == MIB
