"""docs/python.md is true: its snippets run, and its columns are those of the DataFrame."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

import winnow
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.pages import DOCS, LOG_DIR, Reader
from winnow.api.plans import COMPARED
from winnow.api.result import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = DOCS / "python.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_snippets_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "kafka", only=["c-tomb-0", "d-time-0", "c-none-0"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topic-configs.txt").write_bytes(TOPIC_CONFIGS.read_bytes())
    reader = Reader(spark, tmp_path, instead={LOG_DIR: str(log_dir)})
    reader.follow(PAGE)
    names = reader.names
    assert isinstance(names["plan"], winnow.Plan)
    assert names["result"].freed_bytes == names["eager"].freed_bytes > 0
    assert (tmp_path / "cleaning.html").stat().st_size > 1000
    assert names["past"].count() == 3
    assert not names["findings"].findings
    assert "sum(freed_bytes)" in reader.printed


def test_columns_match_the_page() -> None:
    told = re.findall(
        r"^\| `(\w+)` \| `?([a-z<>]+)`? \|",
        TEXT.partition("## Columns of `to_df()`")[2],
        re.MULTILINE,
    )
    columns = StructType.fromDDL(PARTITIONS)
    assert told == [(field.name, field.dataType.simpleString()) for field in columns]
    for name in StructType.fromDDL(COMPARED).names:
        assert f"`{name}`" in TEXT
