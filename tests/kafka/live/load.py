"""What keeps a broker and its directories changing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from tests.kafka.judge.broker import Broker, BrokerFailedError
from tests.threads import in_threads

BUSY = {
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "1000",
}
"""Cleaner and retention never rest."""
QUIET = "c-none"
"""A compacted topic to which nothing is written meanwhile."""


MOVED = ("c-lz4", "t-closed", QUIET)


@contextmanager
def load(broker: Broker, *, topics: bool = False, log_dirs: Sequence[str] = ()) -> Iterator[None]:
    """Write to all topics but QUIET inside the block, with transactions and commits. `topics`: also
    create topics and delete them. `log_dirs`: also move partitions between these log directories.
    """
    stop = threading.Event()

    def again(do: Callable[[int], None]) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            do(number)

    def write(number: int) -> None:
        try:
            broker.produce("more", seed=number, scale=0.2, topics=f"(?!{QUIET}$).*")
        except BrokerFailedError as error:
            if "TransactionAbortableException" not in str(error):  # a busy machine: write others
                raise

    def come_and_go(number: int) -> None:
        name = f"comes-{number % 3}"
        broker.create_topic(name)
        broker.delete_topic(name)

    def move(number: int) -> None:
        broker.move(MOVED[number % len(MOVED)], log_dirs[number // len(MOVED) % len(log_dirs)])

    work = [write, *([come_and_go] if topics else []), *([move] if log_dirs else [])]
    with in_threads(stop, [partial(again, do) for do in work]):
        yield
