"""Winnow cleans Apache Kafka log directories without a broker: retention and compaction as a Spark batch job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("kafka-log")` known to a session (docs/kafka-log.md)."""
    from winnow.engine.kafka_log.source import register  # noqa: PLC0415 - importing winnow loads nothing

    register(spark)
