"""`spark.read.format("kafka-log")`: segment files of Kafka as a DataFrame, without a broker."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from winnow.arguments import checked
from winnow.errors import UsageError
from winnow.kafka_log.options import parse_options
from winnow.kafka_log.refused import hiding_traceback, no_stream, no_write, refuse_by_name
from winnow.kafka_log.schema import SCHEMA, check_schema, some_columns
from winnow.runtime.hung_up import end_quietly
from winnow.runtime.session import use_this_python
from winnow.storage.places import Places

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

end_quietly()


_registered: dict[str, dict[str, str]] = {}
"""By session: the environment of its workers that the source was registered with, and keeps."""


@checked
def register(spark: SparkSession) -> None:
    """Make `spark.read.format("kafka-log")` known to a session. Changes none of its settings.

    Args:
        spark: The session.

    Raises:
        UsageError: It is not a SparkSession.

    Example:
        >>> winnow.register(spark)
        >>> log = spark.read.format("kafka-log").load("/var/lib/kafka")
        >>> log.where("isControl").count()
        0
    """
    use_this_python(spark.sparkContext)
    refuse_by_name(KafkaLogSource.name())
    session = spark._jsparkSession.sessionUUID()  # noqa: SLF001 - a session has no other name
    environment = dict(spark.sparkContext.environment)
    if _registered.get(session) == environment:
        return  # Spark would replace it, with a warning
    try:
        spark.dataSource.register(KafkaLogSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # Spark 4.2 looks for the name in the active session but adds it to the given one, so it
        # refuses a second session that is not active.
        active = spark.getActiveSession()
        try:
            _activate(spark)
            spark.dataSource.register(KafkaLogSource)
        finally:
            if active is not None:
                _activate(active)
    _registered[session] = environment


def check_paths(log_dirs: Sequence[str]) -> None:
    """Raise UsageError for a directory that Spark can't read. For use before a change."""
    for path in log_dirs:
        try:
            path.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                "the path of the log directory is not UTF-8, so Spark can't read its records",
                expected="a path in UTF-8",
                found=f"byte {os.fsencode(path[error.start])[0]:#x}",
                where=path,
                hint="Nothing was changed. Give the directory another path, for example with "
                "`mount --bind`.",
            ) from None


def every_record(spark: SparkSession, topics: Sequence[str], log_dirs: Sequence[str]) -> DataFrame:
    """Return key, topic, partition, segment and problem of all records of these topics, also of
    those that no consumer sees, and of places that can't be read.
    """
    register(spark)
    columns = some_columns("key", "topic", "partition", "segment", "problem")
    options = {"topics": ",".join(topics), "belowLogStart": "true", "mode": "PERMISSIVE"}
    return spark.read.format("kafka-log").schema(columns).options(**options).load([*log_dirs])


def _activate(spark: SparkSession) -> None:
    spark.createDataFrame([], "nothing int")  # makes its session the active one


class KafkaLogSource(DataSource):
    """The data source. docs/kafka-log.md describes its options and columns."""

    @classmethod
    def name(cls) -> str:
        return "kafka-log"

    @hiding_traceback
    def schema(self) -> StructType:
        parse_options(self.options)
        return SCHEMA

    @hiding_traceback
    def reader(self, schema: StructType) -> KafkaLogReader:
        return KafkaLogReader(self.options, check_schema(schema))

    @hiding_traceback
    def streamReader(self, *_: object, **__: object) -> NoReturn:  # noqa: N802 - Spark's name
        raise no_stream()

    @hiding_traceback
    def writer(self, *_: object, **__: object) -> NoReturn:
        raise no_write()

    streamWriter = writer  # noqa: N815 - Spark's name


class KafkaLogReader(DataSourceReader):
    """Spark calls its methods in this order, `read` on executors.

    It knows only options and columns. Spark 4.2 reuses what it returned for one plan in later plans
    of the same DataFrame or view. A `pushFilters` that drops rows would also drop them from other
    queries, so there is none.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_options(options)
        self._schema = schema

    @hiding_traceback
    def partitions(self) -> list[InputPartition]:
        from winnow.kafka_log.ranges import plan_tasks  # noqa: PLC0415 - loads numba, which options don't need
        from winnow.logdir.lock import live_read_views  # noqa: PLC0415

        # Spark would read an empty list as one partition whose value is None.
        with live_read_views(self._options.paths):
            tasks = plan_tasks(Places(), self._options) or [()]
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - with Arrow, for executors only

        from winnow.kafka_log.read import read_task  # noqa: PLC0415

        schema = to_arrow_schema(self._schema, timezone="UTC")
        return read_task(Places(), self._options, schema, partition.value)
