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
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a mistyped command must not wait for Spark

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit's settings hold, and it stops Spark when the job has ended. Doing so here would take a second
        # more: pyspark waits so long for its accumulator server.
        yield SparkSession.builder.getOrCreate()
        return
    builder = SparkSession.builder.appName("winnow").config("spark.python.daemon.module", "winnow.engine.daemon")
    # Progress is told by us; Spark's own bar would be written over it.
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
