"""docs/python.md is true: its snippets run, and its columns are those of the DataFrame."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import winnow
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from winnow.values.comparing import COMPARED
from winnow.values.frame import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_snippets_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "kafka", only=["c-tomb-0", "d-time-0", "c-none-0"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topic-configs.txt").write_bytes(TOPIC_CONFIGS.read_bytes())
    snippets = "".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    names: dict[str, Any] = {"spark": spark}
    exec(snippets.replace("/var/lib/kafka", str(log_dir)), names)  # noqa: S102 - that is the point
    assert isinstance(names["plan"], winnow.Plan)
    assert names["result"].freed_bytes == names["eager"].freed_bytes > 0
    assert (tmp_path / "cleaning.html").stat().st_size > 1000
    assert names["past"].count() == 3
    assert not names["findings"].findings
    assert "sum(freed_bytes)" in capsys.readouterr().out


def test_the_columns_are_those_of_the_page() -> None:
    told = re.findall(r"^\| `(\w+)` \| ([a-z<>]+) \|", PAGE.partition("## Columns of `to_df()`")[2], re.MULTILINE)
    assert told == [(field.name, field.dataType.simpleString()) for field in PARTITIONS.fields]
    for field in COMPARED.fields:
        assert f"`{field.name}`" in PAGE
