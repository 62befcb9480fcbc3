"""A real broker with `log.cleaner.enable=false`: it leaves even the retention of compacted topics
alone.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import winnow
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.kafka.judge.broker import Broker
from tests.spark.runs import by_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETTINGS = {
    "log.cleaner.enable": "false",
    "log.retention.bytes": "1",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
}
CHECKS_S = 2
"""Ten more checks of retention."""


def bases(log_dir: Path, partition: str) -> list[str]:
    return sorted(log.name for log in (log_dir / partition).glob("*.log"))


def test_broker_without_a_cleaner_leaves_what_winnow_leaves(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both topics have a larger log than `retention.bytes` allows."""
    deleted, both = "d-start-0", "cd-mixed-0"
    log_dir = copy_log_dir("clean", tmp_path / "d", only=(deleted, both, "__cluster_metadata-0"))
    before = bases(log_dir, both)
    assert min(len(before), len(bases(log_dir, deleted))) > 1
    with Broker(log_dir, home=tmp_path / "broker", settings=SETTINGS) as broker:
        end = time.monotonic() + 20
        while len(bases(log_dir, deleted)) > 1 and time.monotonic() < end:
            time.sleep(0.1)
        assert len(bases(log_dir, deleted)) == 1
        time.sleep(CHECKS_S)
        assert bases(log_dir, both) == before
    given = {
        "server_properties": str(broker.home / "server.properties"),
        "topic_configs": str(TOPIC_CONFIGS),
        "topics": "cd-mixed",
        "only": "retention",
    }
    left = by_name(winnow.clean(spark, str(log_dir), **given).run)[both]
    assert (left.rule, left.actions) == ("S9.1", ("none",))
    assert bases(log_dir, both) == before
    done = by_name(winnow.clean(spark, str(log_dir), replace_cleaner=True, **given).run)[both]
    assert done.actions == ("retained",)
    assert len(bases(log_dir, both)) == 1
