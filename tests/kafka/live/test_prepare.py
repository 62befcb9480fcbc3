"""A real broker is prepared for while it serves, and goes on after the commit (S8.12)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import winnow
from tests.kafka.judge.broker import Broker
from tests.kafka.live.load import load
from tests.spark.preparing import committed, prepared, results, staged
from winnow.cleaning.asked import SettingsAsked
from winnow.cleaning.result import RunResult

pytestmark = pytest.mark.spark

SETTINGS = {
    "log.cleaner.enable": "false",
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "0",
}
SOURCES = SettingsAsked(replace_cleaner=True)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "log-dir", home=tmp_path / "home", settings=SETTINGS) as broker:
        broker.produce("main", scale=0.2)
        yield broker


def prepared_beside(spark: SparkSession, broker: Broker) -> RunResult:
    return prepared(spark, broker.log_dir, SOURCES, runs=False)


@pytest.mark.slow
def test_records_are_the_same_after_the_commit(spark: SparkSession, broker: Broker) -> None:
    """Producers and transactions go on while the cleaning is prepared, and afterwards. A deleted
    topic takes its preparation along. The broker may stop and start before the commit.
    """
    with load(broker):
        made = prepared_beside(spark, broker)
    done_for = {name for name, one in results(made).items() if "compacted" in one.actions}
    assert made.exit_code == 0
    assert len(done_for) > 3
    assert done_for <= staged(broker.log_dir).keys()
    assert winnow.verify(spark, str(broker.log_dir)).findings == ()
    deleted = min(name for name in done_for if name.startswith("c-"))
    broker.delete_topic(deleted.rpartition("-")[0])
    broker.wait_until_logged(f"Deleted log for partition {deleted}", timeout_seconds=30)
    assert not (broker.log_dir / deleted).exists()
    done_for.remove(deleted)
    broker.stop()
    broker.start()
    assert done_for <= staged(broker.log_dir).keys()
    broker.produce("more", seed=77, scale=0.1, topics="[c-t]-(hotkey|tomb|lz4|open|closed)")
    before = broker.consume()
    broker.stop()
    done = committed(broker.log_dir)
    assert done.exit_code == 0, [one.why for one in done.partitions if one.failed]
    assert done_for <= {name for name, one in results(done).items() if one.acts}
    broker.start()
    after = broker.consume()
    ends = {name: (one.state, one.end, one.stuck_at) for name, one in before.items()}
    now = {name: (one.state, one.end, one.stuck_at) for name, one in after.items()}
    assert {name: now[name] for name in done_for} == {name: ends[name] for name in done_for}
    assert sum(after[name].records < before[name].records for name in done_for) > 3
    broker.produce("more", seed=78, scale=0.1, topics="[c-t]-(hotkey|tomb|lz4|open|closed)")
    assert not [line for line in broker.complaints if ".winnow" in line]
    assert broker.poll() is None


@pytest.mark.slow
def test_kill_of_the_broker_leaves_the_preparation(spark: SparkSession, broker: Broker) -> None:
    prepared_beside(spark, broker)
    broker.kill()
    done = committed(broker.log_dir)
    assert done.exit_code == 0, [one.why for one in done.partitions if one.failed]
    broker.start()
    assert broker.consume()
