"""Clients of a cluster that write and read all the time, and know what must be there afterwards."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.threads import in_threads

COMPACTED, ALL = "compacted", "all"
"""Both are written in each transaction: the same keys again and again, and each record once."""
IDEMPOTENT = "idempotent"
"""Compacted, written by an idempotent producer."""
KEYS, EACH = 50, 5
ABORTED = 4
"""Each fourth transaction is aborted."""
QUIET = {"log_level": 0}


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    small = {"segment.ms": "2000", "min.insync.replicas": "2"}
    compact = small | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    topics = [
        NewTopic(name, num_partitions=2, replication_factor=3, config=config)
        for name, config in ((COMPACTED, compact), (IDEMPOTENT, compact), (ALL, small))
    ]
    for answer in admin.create_topics(topics).values():
        answer.result(timeout=30)


@dataclass
class Clients:
    """What was acknowledged, and what the consumer got meanwhile."""

    bootstrap: str
    last: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    """Topic and key -> the value that must be the last one."""
    committed: list[bytes] = field(default_factory=list)
    """The records of ALL."""
    got: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    """What the consumer got: topic, key and value."""
    stop: threading.Event = field(default_factory=threading.Event)
    failed: list[BaseException] = field(default_factory=list)
    transactions: int = 0

    def transact(self) -> None:
        producer = Producer(self._settings() | {"transactional.id": "t", "linger.ms": 0})
        producer.init_transactions(60)
        while not self.stop.is_set():
            self.transactions += 1
            number = self.transactions
            producer.begin_transaction()
            written = [
                (b"%d" % ((number * EACH + i) % KEYS), b"%d.%d" % (number, i) + b"." * 100)
                for i in range(EACH)
            ]
            for key, value in written:
                producer.produce(COMPACTED, key=key, value=value)
                producer.produce(ALL, key=key, value=value)
            if number % ABORTED == 0:
                producer.flush(60)
                producer.abort_transaction(60)
                continue
            if self._commit(producer):
                self.committed += [value for _, value in written]
                self.last |= {(COMPACTED, key): value for key, value in written}
            time.sleep(0.01)

    def _commit(self, producer: Producer) -> bool:
        """Commit as Kafka's documentation says. Return whether it was committed."""
        while True:
            try:
                producer.commit_transaction(60)
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if cause.retriable():
                    continue
                if cause.txn_requires_abort():
                    producer.abort_transaction(60)
                    return False
                raise
            return True

    def produce(self) -> None:
        producer = Producer(self._settings() | {"enable.idempotence": True})
        number = 0

        def acknowledged(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failed.append(KafkaException(error))
            else:
                self.last[IDEMPOTENT, message.key()] = message.value()

        while not self.stop.is_set():
            number += 1
            producer.produce(
                IDEMPOTENT,
                key=b"%d" % (number % KEYS),
                value=b"%d" % number + b"." * 100,
                on_delivery=acknowledged,
            )
            producer.poll(0.002)
        if producer.flush(60):
            raise AssertionError("records without an acknowledgement")

    def consume(self) -> None:
        """A member of a group; stops when it has nothing more to read after the producers' end."""
        consumer = self._consumer("group")
        consumer.subscribe([COMPACTED, IDEMPOTENT, ALL])
        try:
            while (message := consumer.poll(5 if self.stop.is_set() else 0.2)) or not (
                self.stop.is_set()
            ):
                self._keep(message, self.got)
        finally:
            consumer.close()

    def read_again(self) -> list[tuple[str, bytes, bytes]]:
        """All that a new consumer gets."""
        found: list[tuple[str, bytes, bytes]] = []
        consumer = self._consumer("new")
        consumer.assign(
            [TopicPartition(topic, p, 0) for topic in (COMPACTED, IDEMPOTENT, ALL) for p in (0, 1)]
        )
        while message := consumer.poll(5):
            self._keep(message, found)
        consumer.close()
        return found

    def _keep(self, message: Message | None, found: list[tuple[str, bytes, bytes]]) -> None:
        if message is None:
            return
        if message.error() is not None:
            if message.error().retriable():
                return
            raise KafkaException(message.error())
        found.append((message.topic(), message.key(), message.value()))

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            self._settings()
            | {
                "group.id": group,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )

    def _settings(self) -> dict[str, object]:
        return {"bootstrap.servers": self.bootstrap, **QUIET}

    def check(self) -> None:
        """Under read_committed nothing is lost, and nothing is there twice: for the consumer that
        read all the time, and for a new one.
        """
        again = self.read_again()
        for what, got in (("meanwhile", self.got), ("afterwards", again)):
            every = Counter(value for topic, _, value in got if topic == ALL)
            assert every == Counter(self.committed), f"{what}: not each record once"
            last = {(topic, key): value for topic, key, value in got if topic != ALL}
            assert last == self.last, f"{what}: not the last values"
            written = Counter(one for one in got if one[0] != ALL)
            assert not [one for one, count in written.items() if count > 1], f"{what}: twice"


@contextmanager
def working(bootstrap: str) -> Iterator[Clients]:
    """Producers and a consumer at work inside the block."""
    clients = Clients(bootstrap)

    with in_threads(clients.stop, (clients.transact, clients.produce, clients.consume)):
        yield clients
    if clients.failed:
        raise clients.failed[0]
