"""The partitions of a plan or a result as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from winnow.clean.result import PartitionResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("log_dir", StringType(), nullable=False),
        StructField("policy", StringType()),
        StructField("actions", ArrayType(StringType()), nullable=False),
        StructField("rule", StringType(), nullable=False),
        StructField("reason", StringType(), nullable=False),
        StructField("bytes_before", LongType()),
        StructField("bytes_after", LongType()),
        StructField("records_before", LongType()),
        StructField("records_after", LongType()),
        StructField("segments_before", IntegerType()),
        StructField("segments_after", IntegerType()),
        StructField("dirty_ratio", DoubleType()),
        StructField("dirty_ratio_after", DoubleType()),
        StructField("first_dirty_offset_before", LongType()),
        StructField("first_dirty_offset_after", LongType()),
        StructField("log_start_offset_before", LongType()),
        StructField("log_start_offset_after", LongType()),
        StructField("error", StringType()),
        StructField("left_alone", BooleanType(), nullable=False),
    ]
)
"""docs/python.md describes the columns. A null means that a value is unknown, or that `reason` says
there is none.
"""


def partitions_frame(spark: SparkSession, partitions: Sequence[PartitionResult]) -> DataFrame:
    """Return one row for each partition, with the columns PARTITIONS."""
    rows = [tuple(_cell(p, field.name) for field in PARTITIONS.fields) for p in partitions]
    return spark.createDataFrame(rows, PARTITIONS)


def _cell(partition: PartitionResult, name: str) -> object:
    value = getattr(partition, name)
    return list(value) if isinstance(value, tuple) else value
