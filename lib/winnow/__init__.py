"""Retention and compaction of Apache Kafka log directories without a broker, as a Spark job."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from winnow.api import Plan, Result, clean, compare, explain, ledger_table, plan, verify
    from winnow.reading import Avro, Json, read

_READING = ("Avro", "Json", "read")

__all__ = [
    "Avro",
    "Json",
    "Plan",
    "Result",
    "clean",
    "compare",
    "explain",
    "ledger_table",
    "plan",
    "read",
    "register",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package = "winnow.reading" if name in _READING else "winnow.api"
    return getattr(import_module(package), name)  # importing winnow loads nothing


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("kafka-log")` known to a session (docs/kafka-log.md)."""
    from winnow.kafka_log.source import register  # noqa: PLC0415 - importing winnow loads nothing

    register(spark)
