"""Fixtures for all tests: recorded log directories to write into, and Kafka itself as the judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.kafka.judge import Kafka


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """Kafka's cleaner, retention, loader and dump in one JVM; fetched from Maven Central on first use."""
    with Kafka() as judge:
        yield judge


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A fresh writable copy of the whole recorded log directory (16 MB, 34 partitions)."""
    return copy_log_dir("clean", tmp_path / "log-dir")


@pytest.fixture(scope="session")
def topic_configs() -> Path:
    """Settings of the topics in `log_dir`, a file of lines `topic key=value`."""
    return TOPIC_CONFIGS


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local session with two cores for all tests, set up as `conf/spark-defaults.conf` says."""
    builder = SparkSession.builder.master("local[2]").appName("winnow-tests")
    settings = {
        "spark.python.daemon.module": "winnow.engine.daemon",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
