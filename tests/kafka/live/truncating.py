"""Followers that truncate: two brokers in turns lose the last records of their logs, because the
other one is elected although it lacks them.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.judge.broker import BrokerFailedError, segment_key
from tests.kafka.judge.cluster import Cluster, Node
from tests.kafka.live.clients import QUIET as SILENT
from tests.kafka.live.load import BUSY, QUIET
from tests.threads import in_threads

SETTINGS = BUSY | {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
TOPICS = {"cut-compact": "compact", "cut-delete": "delete", QUIET: "compact"}
WRITTEN = [topic for topic in TOPICS if topic != QUIET]
KEYS, VALUE_BYTES, SEGMENT_BYTES = 50, 1_000, 1 << 14
SECONDS = 120
CLIENT = {"socket.timeout.ms": 3000, **SILENT}
"""The broker that a client asks may be stopped."""


@dataclass
class Followers:
    """Nodes 2 and 3 have the replicas. Node 1 is the controller."""

    cluster: Cluster
    version: str
    rounds: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        config = {
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "true",
            segment_key(self.version): str(SEGMENT_BYTES),
        }
        made = [
            NewTopic(
                name,
                num_partitions=1,
                replica_assignment=[[2, 3]],
                config=config | {"cleanup.policy": policy},
            )
            for name, policy in TOPICS.items()
        ]
        admin = self._admin()
        for answer in admin.create_topics(made).values():
            answer.result(SECONDS)
        for topic in TOPICS:
            self._produce(topic, 200, "first")

    @property
    def nodes(self) -> list[Node]:
        return self.cluster.nodes[1:]

    @property
    def truncations(self) -> int:
        """How often a follower truncated a partition below its high watermark."""
        return sum(node.log.count(" below high watermark ") for node in self.nodes)

    def work(self) -> None:
        while not self.stop.is_set():
            ahead, behind = self.nodes[:: 1 if self.rounds % 2 else -1]
            self._lose_records(ahead, behind)
            self.rounds += 1

    def _lose_records(self, ahead: Node, behind: Node) -> None:
        """Only `ahead` has the next records, and `behind` is elected."""
        stopped: set[Node] = set()

        def send(node: Node, what: signal.Signals) -> None:
            assert node.pid is not None
            os.kill(node.pid, what)
            (stopped.add if what == signal.SIGSTOP else stopped.discard)(node)

        try:
            send(behind, signal.SIGSTOP)
            self._wait_until(lambda leader, isr: (leader, isr) == (number(ahead), [number(ahead)]))
            for topic in WRITTEN:
                self._produce(topic, 300, "lost")
            send(ahead, signal.SIGSTOP)
            send(behind, signal.SIGCONT)
            self._wait_until(lambda leader, _: leader == number(behind), elect=True)
            for topic in WRITTEN:
                self._produce(topic, 150, "kept")
        finally:
            for node in [*stopped]:
                send(node, signal.SIGCONT)
        self._wait_until(lambda _, isr: isr == [2, 3])

    def _produce(self, topic: str, count: int, what: str) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "acks": 1, **CLIENT})
        for n in range(count):
            value = f"{what} {self.rounds} {n} ".encode().ljust(VALUE_BYTES, b".")
            producer.produce(topic, key=b"%d" % (n % KEYS), value=value)
            if n % 5 == 0:
                producer.flush(SECONDS)  # a batch
        if left := producer.flush(SECONDS):
            raise BrokerFailedError(f"{left} records were not acknowledged")

    def _wait_until(self, what: Callable[[int, list[int]], bool], *, elect: bool = False) -> None:
        """Until it is true of the leader and the in-sync replicas of all partitions. `elect`: ask
        for an unclean election meanwhile.
        """
        end = time.monotonic() + SECONDS
        states = self._states()
        while not all(what(*state) for state in states):
            if time.monotonic() > end:
                raise BrokerFailedError(f"leaders and in-sync replicas: {states}")
            if elect:
                partitions = [TopicPartition(topic, 0) for topic in TOPICS]
                admin = self._admin()
                with suppress(KafkaException):  # not possible yet
                    admin.elect_leaders(ElectionType.UNCLEAN, partitions).result(SECONDS)
            time.sleep(0.1)
            states = self._states()

    def _states(self) -> list[tuple[int, list[int]]]:
        """Leader and in-sync replicas of each partition."""
        topics = self._admin().list_topics(timeout=SECONDS).topics
        found = [topics[topic].partitions[0] for topic in TOPICS]
        return [(one.leader, sorted(one.isrs)) for one in found]

    def _admin(self) -> AdminClient:
        """A new client asks the first node, which is never stopped. Later it asks any."""
        return AdminClient({"bootstrap.servers": self.cluster.nodes[0].bootstrap, **CLIENT})


def number(node: Node) -> int:
    return int(node.properties["node.id"])


@contextmanager
def truncating(home: Path, version: str) -> Iterator[Followers]:
    """A cluster whose followers truncate inside the block."""
    with Cluster(home, version=version, settings=SETTINGS) as cluster:
        followers = Followers(cluster, version)
        with in_threads(followers.stop, [followers.work]):
            yield followers
