"""The Spark session of a run: that of spark-submit, else one of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Ends with the context: a command owns its session."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a mistyped command must not wait for Spark

    builder = SparkSession.builder.appName("winnow")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit, which has conf/spark-defaults.conf
        builder = builder.config("spark.python.daemon.module", "winnow.engine.daemon").config(
            "spark.ui.enabled", "false"
        )
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
