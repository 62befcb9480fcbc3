"""A follower that hangs holds the high watermark of its leader back, and `doctor` finds that."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from tests.kafka.judge.cluster import Cluster
from tests.kafka.live.clients import QUIET
from winnow import api
from winnow.policy.sources import Settings
from winnow.verbs.doctor.values import UNCOMMITTED, Diagnosis

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SETTINGS = {
    # The controller does not fence the follower, and the leader keeps it in the in-sync replicas.
    "broker.session.timeout.ms": "3600000",
    "replica.lag.time.max.ms": "3600000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
HELD_BACK, FREE = "held-back", "free"
RECORDS = 100
HOUR_MS = 3_600_000
SECONDS = 60


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, **QUIET})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(SECONDS) == 0


def doctor(spark: SparkSession, log_dir: Path, *, later_ms: int = 0) -> Diagnosis:
    now = int(time.time() * 1000) + later_ms
    return api.doctor(spark, str(log_dir), settings=Settings(), now=now)


def stuck(found: Diagnosis) -> dict[str, str]:
    return {held.topic: held.words for held in found.held if held.by == UNCOMMITTED}


def test_follower_that_hangs_holds_back_the_high_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Cluster(tmp_path / "cluster", settings=SETTINGS) as cluster:
        _, leader, follower = cluster.nodes
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
        config = {"min.insync.replicas": "1"}
        assignments = {HELD_BACK: [[2, 3]], FREE: [[2]]}
        made = [
            NewTopic(name, num_partitions=1, replica_assignment=replicas, config=config)
            for name, replicas in assignments.items()
        ]
        for answer in admin.create_topics(made).values():
            answer.result(SECONDS)
        for topic in assignments:
            produce(leader.bootstrap, topic)
        time.sleep(2)  # until the checkpoints are written
        assert stuck(doctor(spark, leader.log_dir, later_ms=HOUR_MS)) == {}
        assert follower.pid is not None
        os.kill(follower.pid, signal.SIGSTOP)
        try:
            for topic in assignments:
                produce(leader.bootstrap, topic)
            time.sleep(2)
            assert stuck(doctor(spark, leader.log_dir)) == {}
            found = doctor(spark, leader.log_dir, later_ms=HOUR_MS)
        finally:
            os.kill(follower.pid, signal.SIGCONT)
        words = f"the high watermark is {RECORDS}, {RECORDS} offsets below the log end"
        assert [*stuck(found)] == [HELD_BACK]
        assert stuck(found)[HELD_BACK].startswith(words)
        assert any("does not move: held-back-0" in line for line in found.attention)
        started = f"The running broker was started with {leader.home}/server.properties."
        assert any(started in one.why for one in found.advice)
        time.sleep(5)
        assert stuck(doctor(spark, leader.log_dir, later_ms=HOUR_MS)) == {}
