"""A real broker dies, `recover --truncate` recovers its log directory, and the broker starts on it
without recovery. Its controller still treats the shutdown as unclean (KIP-966).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kafka.judge.broker import Broker
from winnow.clock import now_ms
from winnow.logdir.names import CLEAN_SHUTDOWN, METADATA_TOPIC
from winnow.policy.sources import Settings
from winnow.recovery.logs.finish import MARKER
from winnow.recovery.logs.run import recover_unclean
from winnow.recovery.logs.values import TruncateRequest

pytestmark = pytest.mark.spark

UNCLEAN = re.compile(r"handleBrokerUncleanShutdown: changing (\d+) partition")
RECOVERED = re.compile(r"Recovering unflushed segment \d+\. \d+ recovered for (\S+)\.")
METADATA_DIR = f"{METADATA_TOPIC}-0"
SKIPPED = re.compile(r"Skipping recovery of (\d+) logs")
TOPICS = "c-plain|c-none|t-open"


@pytest.mark.slow
def test_broker_skips_recovery_and_its_controller_treats_the_shutdown_as_unclean(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = tmp_path / "log"
    broker = Broker(log_dir, home=tmp_path / "home")
    try:
        broker.start().produce(scale=0.05, topics=TOPICS)
        before = broker.consume()
        broker.kill()
        _tear(log_dir / "c-plain-0")
        plan = recover_unclean(spark, [str(log_dir)], _request(truncate=False))
        assert not (log_dir / CLEAN_SHUTDOWN).exists()
        assert [log.cut_bytes for log in plan.log_dirs] == [7]
        done = recover_unclean(spark, [str(log_dir)], _request(truncate=True))
        assert [log.cut_bytes for log in done.log_dirs] == [7]
        assert (log_dir / CLEAN_SHUTDOWN).read_bytes() == MARKER

        broker.start()
        assert broker.consume() == before
        partitions = _number(SKIPPED, broker.log)
        assert partitions >= 3
        assert _number(UNCLEAN, broker.log) == partitions
        # The metadata log is recovered at every start.
        assert {*RECOVERED.findall(broker.log)} == {METADATA_DIR}
        broker.stop()

        # After a clean stop the marker holds the broker's epoch. The controller believes it.
        broker.start()
        assert SKIPPED.search(broker.log)
        assert not UNCLEAN.search(broker.log)
        broker.stop()

        # Only the epoch decides: here it is replaced by that of Winnow's marker.
        assert (log_dir / CLEAN_SHUTDOWN).read_bytes() != MARKER
        (log_dir / CLEAN_SHUTDOWN).write_bytes(MARKER)
        broker.start()
        assert _number(UNCLEAN, broker.log) == partitions
    finally:
        broker.kill()


@pytest.mark.slow
def test_broker_goes_on_after_a_recovery_as_after_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    broker = Broker(ours, home=tmp_path / "home")
    try:
        broker.start().produce(scale=0.05, topics=TOPICS)
    finally:
        broker.kill()
    _tear(ours / "c-none-0")
    shutil.copytree(ours, theirs)
    assert recover_unclean(spark, [str(ours)], _request(truncate=True)).log_dirs[0].marked
    seen = []
    for log_dir in (ours, theirs):
        broker = Broker(log_dir, home=tmp_path / f"home-{log_dir.name}")
        try:
            broker.start().produce("more", scale=0.05, topics=TOPICS)
            seen.append((broker.records(), broker.consume("read_uncommitted")))
        finally:
            broker.kill()
    assert seen[0][1] == seen[1][1]
    assert len(seen[0][0]) == len(seen[1][0])


def _request(*, truncate: bool) -> TruncateRequest:
    return TruncateRequest(settings=Settings(), now=now_ms(), truncate=truncate)


def _tear(partition: Path) -> None:
    """Leave seven bytes of a batch at the end of a log, as a full disk does."""
    log = max(partition.glob("*.log"))
    log.write_bytes(log.read_bytes() + b"\0\0\0\0\0\0\1")


def _number(pattern: re.Pattern[str], log: str) -> int:
    found = pattern.search(log)
    assert found, pattern.pattern
    return int(found[1])
