"""The example of each public function and class runs, as `help()` and the reference show it."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import winnow
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir, copy_tree
from tests.pages import LOG_DIR
from tests.unit.test_arguments import CLASSES, PUBLIC
from winnow import api

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COPY = "/mnt/copy"
READS_LEDGER = {api.ledger_table, api.history, api.erasures}
"""Their examples read what those of `clean` and `erase` have recorded."""


def test_examples_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = copy_log_dir("clean", tmp_path / "copy", only=["c-tomb-0", "d-time-0", "c-none-0"])
    (tmp_path / "topic-configs.txt").write_bytes(TOPIC_CONFIGS.read_bytes())
    monkeypatch.chdir(tmp_path)
    failed = []
    for number, function in enumerate(sorted([*CLASSES, *PUBLIC], key=READS_LEDGER.__contains__)):
        log_dir = tmp_path / f"{number}"
        copy_tree(copy, log_dir)
        text = str(function.__doc__).replace(LOG_DIR, str(log_dir)).replace(COPY, str(copy))
        names: dict[str, Any] = {"spark": spark, "winnow": winnow}
        example = doctest.DocTestParser().get_doctest(
            text, names, function.__qualname__, filename=None, lineno=None
        )
        assert example.examples, f"{function.__qualname__} has no example"
        told: list[str] = []
        if doctest.DocTestRunner().run(example, out=told.append).failed:
            failed.append("".join(told))
    assert not failed, "\n".join(failed)
