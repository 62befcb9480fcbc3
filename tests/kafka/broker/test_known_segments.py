"""A real broker runs between two nightly runs of Winnow. Segments that the first run knows stay
unread in the second one, for the broker leaves closed segments alone (docs/decisions/0054).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_tree
from tests.kafka.dead_broker.load import Load
from tests.kafka.judge.broker import Broker
from tests.kafka.judge.judge import Kafka
from tests.spark.known_segments import check_known
from tests.spark.nights import bytes_of
from tests.spark.runs import clean
from winnow.cleaning.result import PartitionResult
from winnow.logdir.names import CLEAN_SHUTDOWN, INDEX, LOG, TIMEINDEX
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "65536",
    "index.interval.bytes": "1024",
    "min.cleanable.dirty.ratio": "0",
}
PARTITION = "c-0"
SETTINGS = {
    "log.cleaner.enable": "false",
    # How far a log may be cleaned after a kill.
    "replica.high.watermark.checkpoint.interval.ms": "100",
}


class Days:
    """By day clients write to a broker. By night Winnow cleans what it left."""

    def __init__(self, spark: SparkSession, kafka: Kafka, load: Load, root: Path) -> None:
        self._spark, self._kafka, self._load, self._root = spark, kafka, load, root
        self.log_dir, self.summaries = root / "log-dir", root / "summaries"
        self._days = 0

    def day(self, *, keys: int, segments: int, killed: bool = False) -> None:
        """Write records with this many keys until there are so many new segments. Then stop the
        broker, or kill it.
        """
        broker = Broker(self.log_dir, home=self._root / "broker", settings=SETTINGS).start()
        self._days += 1
        topics = self._root / "topics"
        if self._days == 1:
            config = " ".join(f"{key}={value}" for key, value in CONFIG.items())
            topics.write_text(f"c {config}\n")
            self._load.create(broker.bootstrap, topics)
        # Without the topic's policy there are no tombstones.
        topics.write_text(f"c keys={keys} bytes=400 per_second=3000\n")
        acks = self._root / "acks"
        self._load.start_filling(broker.bootstrap, topics, acks, seed=self._days)
        deadline, wanted = time.monotonic() + 60, self._segments() + segments
        while self._segments() < wanted:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.3)
        self._load.stop_filling()
        (broker.kill if killed else broker.stop)()

    def night(self) -> int:
        """Clean. A run that reads everything must leave the same files, and Kafka's cleaner those
        of the same logs and indexes, after a clean stop.
        """
        now = time.time_ns() // 10**6
        stopped = (self.log_dir / CLEAN_SHUTDOWN).exists()
        other, kafkas = self._root / f"other-{self._days}", self._root / f"kafkas-{self._days}"
        for copy in (other, kafkas):
            copy_tree(self.log_dir, copy)
        known = self._clean(self.log_dir, now, self.summaries)
        self._clean(other, now, None)
        assert bytes_of(self.log_dir) == bytes_of(other)
        if stopped:
            self._kafka.clean(
                kafkas / PARTITION,
                now=now,
                config=CONFIG,
                write_checkpoint=True,
                hw_checkpoint=True,
            )
            assert _logs(self.log_dir) == _logs(kafkas)
        self.known()
        return known.segments_unread or 0

    def _segments(self) -> int:
        return len([*(self.log_dir / PARTITION).glob(f"*{LOG}")])

    def known(self) -> int:
        return check_known(self.summaries, self.log_dir / PARTITION)

    def _clean(self, log_dir: Path, now: int, summaries: Path | None) -> PartitionResult:
        configs = "".join(f"c {key}={value}\n" for key, value in CONFIG.items())
        result = clean(
            self._spark,
            [str(log_dir)],
            settings=Settings(topic_configs=parse_topic_configs(configs)),
            now=now,
            topics=["c"],
            key_summaries=None if summaries is None else str(summaries),
            least_summed_up=1,
        )
        [partition] = [one for one in result.partitions if one.topic == "c"]
        assert partition.error is None
        assert partition.actions == ("compacted",)
        return partition


def _logs(log_dir: Path) -> dict[str, bytes]:
    """Logs and indexes. Kafka's loader removes producer snapshots that a stopped broker left."""
    return {
        path.name: path.read_bytes()
        for path in (log_dir / PARTITION).iterdir()
        if path.suffix in {LOG, INDEX, TIMEINDEX}
    }


@pytest.fixture
def days(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> Iterator[Days]:
    """Most records of the first day are the last of their key, so full segments stay alone."""
    with Load() as load:
        days = Days(spark, kafka, load, tmp_path)
        days.day(keys=100_000, segments=18)
        assert days.night() == 0
        yield days


@pytest.mark.parametrize("more_days", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_segments_stay_known_while_a_broker_runs(days: Days, more_days: int) -> None:
    """A night reads some known segments: those with the keys that are written, and the last ones,
    which producers need or which are merged with what is new.
    """
    known = days.known()
    assert known > 12
    days.day(keys=2, segments=2)
    assert days.known() == known, "the broker has touched a closed segment"
    assert days.night() > known / 2
    known = days.known()
    days.day(keys=2, segments=2, killed=True)
    assert days.known() == known, "the broker has touched a closed segment"
    assert days.night() == 0, "after an unclean shutdown all is read"
    for _ in range(more_days):
        days.day(keys=2, segments=2)
        known = days.known()
        assert days.night() > known / 2 > 6
