"""What `kafka-log` refuses, and when: one sentence, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import winnow
from tests.fixtures.data import unpacked
from winnow.errors import UsageError

pytestmark = pytest.mark.spark

LOG_DIR = str(unpacked("before-clean") / "clean")


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    winnow.register(spark)


def load(spark: SparkSession, schema: str = "key binary", **options: str) -> object:
    return spark.read.format("kafka-log").schema(schema).options(**options).load(LOG_DIR).collect()


STREAMS_AND_WRITES: Mapping[str, Callable[[SparkSession], object]] = {
    "readStream": lambda spark: spark.readStream.format("kafka-log"),
    "readStream.load": lambda spark: spark.readStream.load(LOG_DIR, format="Kafka-Log"),
    "write": lambda spark: spark.range(1).write.format(source="kafka-log"),
    "write.save": lambda spark: spark.range(1).write.save("/nothing", format="kafka-log"),
    "write.saveAsTable": lambda spark: spark.range(1).write.saveAsTable("no", format="kafka-log"),
    "writeStream": lambda spark: (
        spark.readStream.format("rate").load().writeStream.format("kafka-log")
    ),
}


@pytest.mark.parametrize("name", STREAMS_AND_WRITES)
def test_stream_and_write_are_refused_before_they_start(spark: SparkSession, name: str) -> None:
    problem = "kafka-log can't be read as a stream: .*topic-to-delta.md"
    if not name.startswith("read"):
        problem = "kafka-log is read-only: .* use Spark's Kafka sink"
    with pytest.raises(UsageError, match=f"^{problem}"):
        STREAMS_AND_WRITES[name](spark)


def test_write_that_names_no_format_is_refused_by_the_source(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="UsageError: kafka-log is read-only: ") as caught:
        spark.range(1).writeTo("no_table").using("kafka-log").create()
    assert "Traceback" not in str(caught.value)


def test_session_that_knows_the_source_is_not_warned_that_it_is_replaced(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def register(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(type(spark.dataSource), "register", register)
    winnow.register(spark)


def test_other_formats_are_not_refused(spark: SparkSession) -> None:
    assert spark.readStream.format("rate").load().isStreaming
    spark.range(1).write.format("noop").mode("append").save()


MISTAKES: Mapping[str, Callable[[SparkSession], object]] = {
    "option": lambda spark: spark.read.format("kafka-log").load(LOG_DIR, startingOffset="5"),
    "value of an option": lambda spark: load(spark, partitions="x"),
    "column": lambda spark: load(spark, "nothing int"),
    "topic": lambda spark: load(spark, topics="c-tom"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_error_of_an_option_is_one_sentence(spark: SparkSession, name: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        MISTAKES[name](spark)
    sentence, state = str(caught.value).splitlines()
    assert ": winnow.errors.UsageError: " in sentence
    assert "SQLSTATE" in state


def test_errors_of_other_code_keep_their_traceback(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException):
        load(spark, partitions="x")
    with pytest.raises(PythonException, match="Traceback"):
        spark.range(1).select(udf(lambda value: value / 0, useArrow=False)("id")).collect()
