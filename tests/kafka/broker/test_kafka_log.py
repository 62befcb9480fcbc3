"""`kafka-log` returns what consumers of a broker on the same directory get, and reads v0 and v1 as
Kafka's classes do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import winnow
from tests.fixtures.data import copy_log_dir, partition_dirs
from tests.kafka.judge.broker import Broker
from tests.kafka.judge.judge import Kafka
from tests.unit.kafka_log.test_recorded import as_dumped, dumped

pytestmark = pytest.mark.spark

AS_IT_IS = {
    "log.cleaner.enable": "false",
    # The open transaction of t-open stays open.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "86400000",
}
ISOLATIONS = ("read_uncommitted", "read_committed")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def registered(spark: SparkSession) -> SparkSession:
    winnow.register(spark)
    return spark


def load(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    reader = spark.read.format("kafka-log")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(str(path))


def text(data: bytes | None) -> str:
    return "-" if data is None else f"x{data.hex()}"


def lines(frame: DataFrame, isolation: str) -> Iterator[str]:
    for row in frame.toArrow().to_pylist():
        headers = ",".join(
            f"{text(h['key'].encode())}={text(h['value'])}" for h in row["headers"] or ()
        )
        ms = round((row["timestamp"] - EPOCH).total_seconds() * 1000)
        words = [isolation, row["topic"], row["partition"], row["offset"], ms, row["timestampType"]]
        yield " ".join([*map(str, words), text(row["key"]), text(row["value"]), headers])


def of(spark: SparkSession, log_dir: Path) -> list[str]:
    frames = {
        isolation: load(spark, log_dir, isolationLevel=isolation, mode="FAILFAST")
        for isolation in ISOLATIONS
    }
    return sorted(line for isolation, frame in frames.items() for line in lines(frame, isolation))


@pytest.mark.slow
def test_rows_equal_the_records_of_consumers(registered: SparkSession, tmp_path: Path) -> None:
    """From the directory of a running broker, and from the same directory after it has stopped."""
    log_dir = copy_log_dir("clean", tmp_path / "log-dir")
    with Broker(log_dir, home=tmp_path / "broker", settings=AS_IT_IS) as broker:
        consumed = sorted(broker.records())
        live = of(registered, log_dir)
    assert {line.partition(" ")[0] for line in consumed} == set(ISOLATIONS)
    assert live == consumed
    assert of(registered, log_dir) == consumed


def test_old_formats_are_read_like_kafka(
    registered: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("legacy", tmp_path / "log-dir")
    found: dict[str, list[dict[str, Any]]] = {}
    for row in load(registered, log_dir, mode="FAILFAST").toArrow().to_pylist():
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(as_dumped(row))
    for directory in partition_dirs(log_dir):
        kafkas = list(dumped([json.dumps(line) for line in kafka.dump(directory, aux=False)]))
        assert found.pop(directory.name) == kafkas, directory.name
    assert found == {}
