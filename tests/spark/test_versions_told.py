"""Every verb that decides by the rules of a version says which version that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import TOPIC_CONFIGS
from tests.session import verbs_use
from tests.spark.runs import NOW, add_partition, new_log_dir
from winnow.cli.main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CLOCK = ["--now", str(NOW)]
VERBS = {
    "plan": CLOCK,
    "doctor": CLOCK,
    "explain": [*CLOCK, "--partition", "c-tomb-0"],
    "erase": ["--dry-run", "--keys"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_verb_says_whose_rules_it_used(
    verb: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    verbs_use(spark, monkeypatch)
    log_dir = new_log_dir(tmp_path / "log-dir")
    add_partition(log_dir, "c-tomb-0", "c-tomb-0")
    keys = tmp_path / "keys"
    keys.write_text("k0\n", encoding="utf-8")
    words = [verb, str(log_dir), *VERBS[verb], *([str(keys)] if verb == "erase" else [])]
    words += ["--topic-configs", str(TOPIC_CONFIGS), "--kafka-version", "4.3"]
    run(words)
    assert "By the rules of Kafka 4.3 (--kafka-version)." in capsys.readouterr().out
    run([*words, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["kafka_version"], told["kafka_version_source"]) == ("4.3", "--kafka-version")
