"""Kafka's cleaner and Winnow over the same fresh data, pass after pass, in the same test.

A real broker makes the data from the random seed below; nothing is recorded.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.compare import assert_same_partition
from tests.fixtures.data import copy_tree, partition_dirs
from tests.kafka.cleaner.runs import assert_as_kafka, is_compressed, run_winnow
from tests.kafka.judge.broker import Broker
from tests.kafka.judge.judge import Kafka

pytestmark = pytest.mark.spark

SEED = 20_261_121
TOPICS = "c-.*|cd-mixed|t-.*"
AFTER_IT_WAS_MADE = 4_000_000_000_000
"""ms, 2096: later than any clock that made the data."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A log directory from a broker that was stopped in good order, and its topics' settings."""
    home = tmp_path_factory.mktemp("made")
    with Broker(home / "log-dir", home=home / "broker") as broker:
        broker.produce(seed=SEED, scale=0.5, topics=TOPICS)
        topic_configs = broker.topic_configs()
    return home / "log-dir", topic_configs


def test_each_pass_leaves_the_same_files_as_kafka(
    made: tuple[Path, str], spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    source, topic_configs = made
    ours, theirs = tmp_path / "winnow", tmp_path / "kafka"
    copy_tree(source, ours)
    copy_tree(source, theirs)
    configs = tmp_path / "topic-configs.txt"
    configs.write_text(topic_configs)
    names = [d.name for d in partition_dirs(ours) if not d.name.startswith("__")]
    # Tombstones get a horizon in the first pass, outlive the second, 1 ms before it, and go in the
    # third, at it.
    horizon = AFTER_IT_WAS_MADE + 1000
    for now in (AFTER_IT_WAS_MADE, horizon - 1, horizon):
        for log_dir in (ours, theirs):
            (log_dir / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        results = run_winnow(
            spark,
            ours,
            now=now,
            topic_configs=topic_configs,
            topic_sets=["*:min.cleanable.dirty.ratio=0", "*:delete.retention.ms=1000"],
            topics=["c-*", "cd-*", "t-*"],
            only="compaction",
        )
        kafka.clean(
            [theirs / name for name in names],
            now=now,
            first_dirty=0,
            delete_retention_ms=1000,
            topic_configs=configs,
        )
        assert {name for name, result in results.items() if result.left_alone} == set()
        judged = {name: kafka.dump(theirs / name) for name in names}
        assert_as_kafka(kafka, ours, judged, results)
        for name in names:
            if not is_compressed(judged[name]):
                assert_same_partition(ours / name, theirs / name)
