"""A real broker on a log directory that `clean --output` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.kafka.judge.broker import Broker
from tests.spark.runs import by_name, clean, run
from winnow.errors import LogDirInUseError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOME = ("c-tomb-0", "d-size-0", "t-closed-0", "__cluster_metadata-0")


def test_broker_starts_on_output_and_is_detected_as_a_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = copy_log_dir("clean", tmp_path / "source", only=SOME)
    output = tmp_path / "output"
    results = by_name(run(clean, spark, source, output=[str(output)]))
    with Broker(
        output, home=tmp_path / "broker", settings={"log.cleaner.enable": "false"}
    ) as broker:
        consumed = broker.consume("read_uncommitted")
        with pytest.raises(
            LogDirInUseError, match=rf"process {broker.pid} holds its lock: .*kafka\.Kafka"
        ):
            run(clean, spark, output, output=[str(tmp_path / "another")])
    assert [line for line in broker.complaints if "LogLoader" in line or "UnifiedLog" in line] == []
    for name, result in results.items():
        assert consumed[name].records > 0
        assert consumed[name].stuck_at is None
        assert consumed[name].begin == result.log_start_offset_after
