"""How `kafka-log` refuses streams and writes, and how its errors reach the user."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from pyspark.sql import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from winnow.errors import UsageError, WinnowError

P = ParamSpec("P")
T = TypeVar("T")


def no_stream() -> UsageError:
    return UsageError(
        "kafka-log can't be read as a stream: a read ends where the files end",
        expected="spark.read",
        found="spark.readStream",
        hint="To read a topic again and again, see docs/how-to/topic-to-delta.md.",
    )


def no_write() -> UsageError:
    return UsageError(
        "kafka-log is read-only: only a broker writes segments",
        expected="spark.read",
        found="a write",
        hint="To write to a topic, use Spark's Kafka sink, format('kafka').",
    )


@cache
def refuse_by_name(name: str) -> None:
    """Let `format(name)` of streams and writes raise UsageError in this process.

    Spark 4.2 would ask the source itself only when the stream is running. Before a write it would
    advise another save mode, which the source then refuses.
    """
    for kind, refusal in (
        (DataStreamReader, no_stream),
        (DataStreamWriter, no_write),
        (DataFrameWriter, no_write),
    ):
        setattr(kind, "format", _refusing(kind.format, name, refusal))  # noqa: B010 - mypy allows no assignment


def _refusing(
    choose: Callable[[Any, str], Any], name: str, refusal: Callable[[], UsageError]
) -> Callable[[Any, str], Any]:
    @wraps(choose)
    def format(self: object, source: str) -> object:  # noqa: A001 - Spark's name
        if isinstance(source, str) and source.lower() == name:
            raise refusal()
        return choose(self, source)

    return format


def hiding_traceback(method: Callable[P, T]) -> Callable[P, T]:
    """Let Spark report a WinnowError of this method as one sentence.

    Spark calls the method in a worker process, which ends after an error. The variable is what
    `spark.sql.execution.pyspark.udf.hideTraceback.enabled` sets there.
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except WinnowError:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    return call
