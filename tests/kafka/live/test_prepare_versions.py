"""Brokers of another version, and of another user, live beside a preparation and go on after the
commit (S8.12).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kafka.judge.broker import Broker
from tests.kafka.live.test_prepare import SETTINGS, SOURCES
from tests.spark.preparing import committed, prepared, results, staged
from winnow.cleaning.asked import SettingsAsked

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOBODY = 65534
MAY_READ = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
"""The jars of this machine. It allows to remove nothing."""


@pytest.mark.parametrize("version", ["3.9.2"])
def test_records_are_the_same_after_the_commit(
    spark: SparkSession, tmp_path: Path, version: str
) -> None:
    log_dir, home = tmp_path / "log-dir", tmp_path / "home"
    with Broker(log_dir, home=home, settings=SETTINGS, version=version) as broker:
        broker.produce("main", scale=0.2, topics="(?!t-v1$).*")
        time.sleep(2)  # until the checkpoints are written
        (home / "configs").write_text(broker.topic_configs())
        sources = SettingsAsked(
            topic_configs=str(home / "configs"),
            kafka_version=version,
            replace_cleaner=True,
        )
        made = prepared(spark, log_dir, sources, runs=False)
        done_for = {name for name, one in results(made).items() if "compacted" in one.actions}
        assert len(done_for) > 3
        assert done_for <= staged(log_dir).keys()
        broker.stop()
        broker.start()
        broker.produce("more", seed=77, scale=0.1, topics="[c-t]-(hotkey|tomb|lz4|open|closed)")
        before = broker.consume()
        complaints = [line for line in broker.complaints if "winnow" in line]
        broker.stop()
        done = committed(log_dir)
        assert done.exit_code == 0, [one.why for one in done.partitions if one.failed]
        assert done_for <= {name for name, one in results(done).items() if one.acts}
        broker.start()
        after = broker.consume()
        for name in done_for:
            was, now = before[name], after[name]
            assert (was.state, was.end, was.stuck_at) == (now.state, now.end, now.stuck_at), name
        assert sum(after[name].records < before[name].records for name in done_for) > 3
        broker.produce("more", seed=78, scale=0.1, topics="[c-t]-(hotkey|tomb|lz4|open|closed)")
        assert not [*complaints, *(line for line in broker.complaints if "winnow" in line)]


@pytest.fixture
def foreign(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of another user, whose topics are removed after some seconds."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a broker as another user")
    top = Path(tempfile.mkdtemp(prefix="winnow-"))
    top.chmod(0o755)
    delay = {"log.segment.delete.delay.ms": str(request.param)}
    broker = Broker(top / "log-dir", home=top / "home", settings=SETTINGS | delay)
    try:
        with broker:
            broker.produce("main", scale=0.1)
        for path in (top, *top.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        broker.prefix = (
            "setpriv",
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            "--clear-groups",
            *MAY_READ,
        )
        with broker:
            yield broker
    finally:
        shutil.rmtree(top)


@pytest.mark.parametrize("foreign", [0, 60_000], indirect=True)
def test_topics_are_deleted_and_created_again_while_they_are_prepared(
    spark: SparkSession, foreign: Broker
) -> None:
    """Winnow runs as root. What it has staged goes with the topics."""
    time.sleep(2)  # until the checkpoints are written
    prepared(spark, foreign.log_dir, SOURCES, runs=False)
    staging = [*foreign.log_dir.glob("*/.winnow-*")]
    assert len(staging) > 3
    assert {path.stat().st_uid for one in staging for path in (one, *one.iterdir())} == {NOBODY}
    names = sorted({path.parent.name.rpartition("-")[0] for path in staging})[:6]
    failed: list[BaseException] = []

    def come_and_go() -> None:
        try:
            for name in names:
                foreign.delete_topic(name)
                foreign.create_topic(name)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    deleting = threading.Thread(target=come_and_go)
    deleting.start()
    rounds = 0
    while deleting.is_alive():
        prepared(spark, foreign.log_dir, SOURCES, runs=False)
        rounds += 1
    assert not failed, failed
    assert rounds > 1
    assert foreign.poll() is None
    assert not [line for line in foreign.complaints if ".winnow" in line or "offline" in line]
    assert foreign.consume()
