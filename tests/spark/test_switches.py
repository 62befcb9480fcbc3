"""Each optimisation lives behind one function. Without it a run gives the same bytes and
results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.runs import File, add_partition, by_name, clean, files_of, new_log_dir, run
from tests.spark.switches import SWITCHES, switch_off
from winnow.cleaning.result import PartitionResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
SETS = (
    "*:cleanup.policy=compact",
    "*:min.cleanable.dirty.ratio=0",
    "*:internal.segment.bytes=100000000",
)
"""Each partition becomes one segment. Seven are one more than tasks for two cores: the last task
writes two, and the other core helps.
"""
SOURCES = {
    **{name: name for name in ("c-lz4-0", "c-zstd-0", "c-gzip-0", "c-snappy-0")},
    **{f"c-multi-{number}": "c-multi-0" for number in range(3)},
}
"""All compressed: only those are written on several cores. The smallest are last."""


@dataclass(frozen=True)
class Cleaned:
    results: dict[str, PartitionResult]
    files: dict[str, File | None]


def cleaned(spark: SparkSession, path: Path) -> Cleaned:
    log_dir = new_log_dir(path)
    for name, source in SOURCES.items():
        add_partition(log_dir, name, source)
    results = by_name(run(clean, spark, log_dir, sets=SETS))
    same = {name: replace(result, log_dir="") for name, result in results.items()}
    files = files_of(log_dir)
    for name, file in files.items():
        if file is not None and "/" not in name:  # made by this test and this run, just now
            files[name] = replace(file, mtime_ns=0)
    return Cleaned(same, files)


@pytest.fixture(scope="module")
def normal(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Cleaned:
    found = cleaned(spark, tmp_path_factory.mktemp("normal") / "log-dir")
    assert any(result.actions == ("compacted",) for result in found.results.values())
    return found


@pytest.mark.parametrize("function", SWITCHES)
def test_run_without_an_optimisation_gives_the_same_log(
    spark: SparkSession,
    normal: Cleaned,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
) -> None:
    noted = switch_off(function, spark.sparkContext, monkeypatch, tmp_path)
    without = cleaned(spark, tmp_path / "log-dir")
    assert noted.exists(), "this run does not use it"
    assert without.files == normal.files
    assert without.results == normal.results


@pytest.mark.parametrize("function", SWITCHES)
def test_page_names_the_function(function: str) -> None:
    module, _, name = function.removeprefix("winnow.").rpartition(".")
    assert f"`{module}.{name}`" in PAGE.read_text(encoding="utf-8")
