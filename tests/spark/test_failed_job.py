"""Winnow reports a failed Spark job with the message of the task that failed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from winnow.runtime.failed_job import cause_of, failed_job

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def error_of(rdd: RDD[object]) -> Exception:
    with pytest.raises((Py4JError, PySparkException)) as caught:
        rdd.collect()
    error: Exception = caught.value
    return error


def test_python_error_of_a_task_is_reported(spark: SparkSession) -> None:
    def fails(number: int) -> object:
        raise (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/there")
            if number
            else ValueError("a\nb")
        )

    numbers = spark.sparkContext.parallelize([0], 1)
    assert cause_of(error_of(numbers.map(fails))) == "ValueError: a"
    full = failed_job(error_of(numbers.map(lambda n: fails(n + 1))))
    assert full.exit_code == 6
    assert full.message.endswith(
        "(spark.local.dir): OSError: [Errno 28] No space left on device: '/there'"
    )


def test_java_exception_of_a_task_is_reported(spark: SparkSession) -> None:
    def thrown(words: str) -> Exception:
        return error_of(spark.sql(f"select raise_error('{words}')").rdd)

    assert (
        failed_job(thrown("why")).message
        == "the Spark job failed: [USER_RAISED_EXCEPTION] why SQLSTATE: P0001"
    )
    assert failed_job(thrown("No space left on device")).exit_code == 6


def test_java_exception_outside_spark_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\n")
    lines = spark.sparkContext.textFile(str(tmp_path / "lines"))
    assert lines.getNumPartitions() > 0
    (tmp_path / "lines").unlink()
    failed = failed_job(error_of(lines))
    assert failed.exit_code == 1
    assert failed.message.startswith(
        "the Spark job failed: java.io.FileNotFoundException: File file:"
    )


def test_stopped_spark_points_to_its_own_messages() -> None:
    """Spark stops by itself if no master answers."""
    error = Py4JError("IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis")
    assert failed_job(error).message == (
        "the Spark job failed: Spark has stopped, and its messages above say why"
    )


def test_worker_that_does_not_start_is_reported_with_what_python_says() -> None:
    text = (
        "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent "
        "failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.1 executor 0): "
        "org.apache.spark.SparkException: \nError from python worker:\n"
        "  /usr/bin/python3: No module named winnow\nPYTHONPATH was:\n"
    )
    assert cause_of(Py4JError(text)) == "/usr/bin/python3: No module named winnow"
