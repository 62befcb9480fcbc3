"""A broker and Winnow on one log directory: the second one to start is refused with its own message
(S8.1).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import copy_log_dir
from tests.kafka.judge.broker import Broker, BrokerFailedError
from tests.spark.runs import AtStage, changes, clean, files_of, run
from winnow.errors import LogDirInUseError
from winnow.logdir.names import LEADER_EPOCHS

pytestmark = pytest.mark.spark

ONLY = ["c-tomb-0", "__cluster_metadata-0"]


def test_directory_of_running_broker_is_not_cleaned(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "d", only=ONLY)
    with Broker(log_dir, home=tmp_path / "home") as broker:
        assert broker.pid is not None
        before = files_of(log_dir / "c-tomb-0")
        with pytest.raises(
            LogDirInUseError, match=rf"process {broker.pid} holds its lock: \S*java kafka\.Kafka "
        ) as refusal:
            run(clean, spark, log_dir)
        assert refusal.value.exit_code == 5
        # The broker itself writes this one, beside it and renamed, when it becomes leader: late on
        # a busy machine.
        after = files_of(log_dir / "c-tomb-0")
        assert set(changes(before, after)) <= {LEADER_EPOCHS, f"{LEADER_EPOCHS}.tmp"}


def test_broker_does_not_start_during_a_run_which_continues(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "d", only=ONLY)
    said: list[str] = []

    def start_a_broker() -> None:
        broker = Broker(log_dir, home=tmp_path / "home")
        with pytest.raises(BrokerFailedError, match="stopped while starting"):
            broker.start()
        said.append(broker.log)

    result = run(
        clean, spark, log_dir, topics=["c-*"], progress=AtStage("compacting", start_a_broker)
    )
    (told,) = said
    assert f"Failed to acquire lock on file .lock in {log_dir}" in told
    (partition,) = result.partitions
    assert (partition.actions, partition.error) == (("compacted",), None)
