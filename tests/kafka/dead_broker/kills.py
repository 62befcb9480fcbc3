"""`python -m tests.kafka.dead_broker.kills --count 50 --seed N [--record PAGE]`: brokers killed
under load at random moments.

After each kill, Winnow's decisions on the directory as it is, and on one that also lost its page
cache, are compared with Kafka's own after its recovery.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tests.conftest import local_session
from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import read_checkpoint
from tests.kafka.dead_broker.decisions import Case, Comparison, compare_cleaning, compare_recovery
from tests.kafka.dead_broker.kill_record import COMPARISONS, Row, add_to
from tests.kafka.dead_broker.load import Load
from tests.kafka.dead_broker.tails import lose_page_cache
from tests.kafka.judge.broker import Broker
from tests.kafka.judge.judge import Kafka
from winnow.logdir.names import RECOVERY_POINT_CHECKPOINT

A_DAY = "retention.ms=86400000"
BY_SIZE = "retention.bytes=200000 retention.ms=-1"
LOADED = "per_second=2000 bytes=200"
SMALL = "internal.segment.bytes=65536 index.interval.bytes=1024"
COMPACTS = f"{SMALL} min.cleanable.dirty.ratio=0 delete.retention.ms=1"
TOPICS = (
    f"d-size partitions=2 {LOADED} {SMALL} cleanup.policy=delete {BY_SIZE}",
    f"d-time old_bytes=300000 codec=lz4 {LOADED} {SMALL} cleanup.policy=delete {A_DAY}",
    f"c-keys partitions=2 keys=150 {LOADED} {COMPACTS} cleanup.policy=compact",
    f"cd-keys keys=150 old_bytes=100000 {LOADED} {COMPACTS} cleanup.policy=compact,delete {A_DAY}",
    f"t-keys keys=100 txn=20 open=1 {LOADED} {COMPACTS} cleanup.policy=compact",
)
LIVES = 5
"""Of a log directory: then a new one begins."""


@dataclass(frozen=True, slots=True)
class Kill:
    seconds: float
    """Under load."""
    synced: bool
    """Whether logs are synced and recovery points written, every moment."""


@dataclass(slots=True)
class Outcome:
    kill: Kill
    recovery_points: int
    """How many partitions had one above 0."""
    records: int
    """Acknowledged in this life."""
    lost: list[str] = field(default_factory=list)
    """What was torn in the copy that lost its page cache."""
    compared: dict[str, Comparison] = field(default_factory=dict)
    """By one of COMPARISONS."""

    def same(self, what: str) -> bool:
        return not self.compared[what].differences

    @property
    def beyond_kafka(self) -> int:
        """Logs of which a comparison found that no broker starts on them."""
        return sum(len(one.beyond_kafka) for one in self.compared.values())


def choose(rng: random.Random) -> Kill:
    return Kill(seconds=rng.uniform(0.1, 2.5), synced=rng.random() < 0.6)


def broker_for(kill: Kill, log_dir: Path, home: Path) -> Broker:
    settings = {"replica.high.watermark.checkpoint.interval.ms": "100"}
    settings |= {"log.cleaner.backoff.ms": "86400000", "log.initial.task.delay.ms": "100"}
    if kill.synced:
        settings |= {"log.flush.offset.checkpoint.interval.ms": "100"}
        settings |= {"log.flush.interval.messages": "300"}
    return Broker(log_dir, home=home, settings=settings)


def topic_configs(file: Path) -> Path:
    """Write the topics' settings as lines `topic key=value`."""
    lines = []
    for topic, *words in map(str.split, TOPICS):
        lines += [f"{topic} {word}" for word in words if "." in word.partition("=")[0]]
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


class Lives:
    """Brokers, each killed, on one log directory after the other."""

    def __init__(self, spark: SparkSession, kafka: Kafka, load: Load, scratch: Path) -> None:
        self._spark, self._kafka, self._load, self._scratch = spark, kafka, load, scratch
        self._topics = scratch / "topics"
        self._topics.write_text("".join(f"{line}\n" for line in TOPICS))
        self._configs = topic_configs(scratch / "configs")
        self._lived = 0

    def kill(self, kill: Kill, rng: random.Random) -> Outcome:
        """Start a broker, kill it under load, and compare."""
        log_dir = self._scratch / "log-dir"
        new = self._lived % LIVES == 0
        if new:
            shutil.rmtree(log_dir, ignore_errors=True)
        self._lived += 1
        broker = broker_for(kill, log_dir, self._scratch / "broker").start()
        try:
            if new:
                self._load.create(broker.bootstrap, self._topics)
            acks = self._scratch / "acks"
            self._load.start_filling(
                broker.bootstrap, self._topics, acks, seed=rng.randrange(2**31)
            )
            time.sleep(kill.seconds)
        finally:
            broker.kill()
        points = read_checkpoint(log_dir / RECOVERY_POINT_CHECKPOINT)
        outcome = Outcome(
            kill, sum(point > 0 for point in points.values()), self._load.stop_filling()
        )
        torn = self._scratch / "torn"
        shutil.rmtree(torn, ignore_errors=True)
        copy_tree(log_dir, torn)
        outcome.lost = lose_page_cache(torn, rng)
        now = time.time_ns() // 10**6
        cases = [Case(dead, self._scratch, now, self._configs) for dead in (log_dir, torn)]
        found = [compare_cleaning(case, self._kafka, self._spark) for case in cases]
        found += [compare_recovery(case, self._kafka) for case in cases]
        outcome.compared = dict(zip(COMPARISONS, found, strict=True))
        return outcome


def main() -> int:
    options = _options()
    rng = random.Random(options.seed)
    session = local_session()
    outcomes: list[Outcome] = []
    with (
        tempfile.TemporaryDirectory(prefix="winnow-kills-") as scratch,
        Kafka() as kafka,
        Load() as load,
    ):
        os.environ["XDG_STATE_HOME"] = f"{scratch}/state"
        lives = Lives(session, kafka, load, Path(scratch))
        for number in range(options.count):
            outcomes.append(lives.kill(choose(rng), rng))
            _say(f"{number + 1}/{options.count} {_line(outcomes[-1])}")
            if options.record:
                add_to(options.record, _row(outcomes[-1], options.seed))
            for what, found in outcomes[-1].compared.items():
                for one in [*found.differences, *found.beyond_kafka.values()]:
                    _say(f"  {what}: {one}")
    session.stop()
    return 0 if all(one.same(what) for one in outcomes for what in COMPARISONS) else 1


def _row(outcome: Outcome, seed: int) -> Row:
    return Row(
        seed=seed,
        seconds=outcome.kill.seconds,
        acknowledged=outcome.records,
        synced=outcome.kill.synced,
        recovery_points=outcome.recovery_points,
        torn_files=len(outcome.lost),
        same=tuple(outcome.same(what) for what in COMPARISONS),
        beyond_kafka=outcome.beyond_kafka,
    )


def _line(outcome: Outcome) -> str:
    count = sum(len(one.differences) for one in outcome.compared.values())
    return f"{outcome.kill} {outcome.records} acknowledged, {count} differences"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="the page to add each kill to")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
