"""An unclean leader election between a preparation and its commit (S8.12)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

import winnow
from tests.kafka.judge.cluster import Cluster, Node
from tests.kafka.live.clients import QUIET
from tests.kafka.live.test_prepare import SETTINGS, SOURCES
from tests.spark.preparing import committed, prepared, results, staged
from winnow.api import compare_replicas

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ABOVE, BELOW = "above", "below"
"""The new leader has all of what was prepared of the first topic, and lacks the end of what was
prepared of the second."""
KEYS, VALUE_BYTES = 20, 10_000
SECONDS = 60


class Topics:
    """Both topics, with a replica on each of two nodes. Node 1 is the controller."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        _, self.first, self.second = cluster.nodes
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
        config = {
            "cleanup.policy": "compact",
            "min.insync.replicas": "1",
            "segment.bytes": str(2**20),
            "unclean.leader.election.enable": "true",
        }
        made = [
            NewTopic(name, num_partitions=1, replica_assignment=[[2, 3]], config=config)
            for name in (ABOVE, BELOW)
        ]
        for answer in self.admin.create_topics(made).values():
            answer.result(SECONDS)

    def produce(self, topic: str, count: int, what: str) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, **QUIET})
        for number in range(count):
            value = f"{what} {number} ".encode().ljust(VALUE_BYTES, b".")
            producer.produce(topic, key=b"%d" % (number % KEYS), value=value)
        assert producer.flush(SECONDS) == 0

    def wait_until(self, what: Callable[[int, list[int]], bool]) -> None:
        """Until it is true of the leader and the in-sync replicas of both partitions."""
        end = time.monotonic() + SECONDS
        while True:
            described = self.admin.describe_topics(TopicCollection([ABOVE, BELOW]))
            found = [answer.result(SECONDS).partitions[0] for answer in described.values()]
            if all(
                what(one.leader.id if one.leader else -1, [n.id for n in one.isr]) for one in found
            ):
                return
            assert time.monotonic() < end, found
            time.sleep(0.2)

    def elect_unclean(self) -> None:
        partitions = [TopicPartition(topic, 0) for topic in (ABOVE, BELOW)]
        self.admin.elect_leaders(ElectionType.UNCLEAN, partitions).result(SECONDS)


def restart(node: Node, topics: Topics) -> None:
    node.start()
    topics.wait_until(lambda _, in_sync: sorted(in_sync) == [2, 3])


def test_commit_drops_preparations_with_records_lost_by_an_unclean_leader_election(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The new leader was compacted meanwhile, and has other records of the same size where the old
    one had its last ones.
    """
    with Cluster(tmp_path / "cluster", settings=SETTINGS) as cluster:
        topics = Topics(cluster)
        for topic in (ABOVE, BELOW):
            topics.produce(topic, 450, "both have")
        topics.second.stop()
        topics.produce(BELOW, 300, "only the first has")
        time.sleep(2)  # until the checkpoints are written
        made = prepared(spark, topics.first.log_dir, SOURCES, runs=False)
        assert made.exit_code == 0
        assert {f"{ABOVE}-0", f"{BELOW}-0"} <= staged(topics.first.log_dir).keys()
        topics.produce(ABOVE, 50, "only the first has")
        topics.first.stop()
        cleaned = winnow.clean(spark, str(topics.second.log_dir), replace_cleaner=True)
        assert {one.topic for one in cleaned.partitions if one.acts} >= {ABOVE, BELOW}
        topics.second.start()
        topics.elect_unclean()
        topics.wait_until(lambda leader, _: leader == 3)
        for topic, count in ((ABOVE, 30), (BELOW, 400)):
            topics.produce(topic, count, "after the election")
        restart(topics.first, topics)
        topics.first.stop()
        done = results(committed(topics.first.log_dir))
        assert done[f"{ABOVE}-0"].actions == ("compacted",)
        assert re.fullmatch(
            "the preparation was dropped: leader epochs below offset 750: "
            r"expected 0 from 0, found 0 from 0, [1-9]\d* from 450",
            done[f"{BELOW}-0"].why,
        )
        restart(topics.first, topics)
    compared = compare_replicas(
        spark, [str(node.log_dir) for node in (topics.first, topics.second)]
    )
    assert (compared.status, compared.exit_code) == ("same", 0), compared
