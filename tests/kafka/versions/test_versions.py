"""Brokers of other versions start on what Winnow left, and clean alike.

All versions: `python -m tests.kafka.versions`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kafka.versions.eras import ERAS
from tests.kafka.versions.story import tell
from tests.kafka.versions.verbs import command_of

pytestmark = pytest.mark.spark

LAST_OF_3 = "3.9.2"
OLDEST_AND_NEWEST = ("2.8.2-zookeeper", "4.4.0")
PARTITIONS, COMPACTED = 28, 24
"""Of a directory without old message formats: 28 partitions. Retention alone concerns two of them,
two are empty.
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [LAST_OF_3, *OLDEST_AND_NEWEST])
def test_broker_starts_on_the_result_and_its_cleaner_keeps_the_same(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (era,) = (era for era in ERAS if era.name == name)
    outcome = tell(era, tmp_path, command_of(spark, monkeypatch), quick=True)
    assert outcome.problems == []
    assert outcome.partitions >= PARTITIONS
    assert outcome.compacted >= COMPACTED
    assert outcome.records_after < outcome.records_before / 3
