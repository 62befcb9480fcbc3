"""The columns of `kafka-log`: those of Spark's own Kafka source, named and typed as there, then those of the batch."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from winnow.errors import UsageError

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", ArrayType(_HEADER)),
        StructField("baseOffset", LongType()),
        StructField("batchLastOffset", LongType()),
        StructField("batchSize", IntegerType()),
        StructField("magic", IntegerType()),
        StructField("codec", StringType()),
        StructField("producerId", LongType()),
        StructField("producerEpoch", IntegerType()),
        StructField("sequence", IntegerType()),
        StructField("isTransactional", BooleanType()),
        StructField("isControl", BooleanType()),
        StructField("partitionLeaderEpoch", IntegerType()),
        StructField("deleteHorizon", TimestampType()),
        StructField("segment", StringType()),
        StructField("position", LongType()),
        StructField("crcOk", BooleanType()),
        StructField("problem", StringType()),
    ]
)
"""What each one says: docs/kafka-log.md."""


def check_schema(schema: StructType) -> StructType:
    """The schema that a user gave, which chooses columns: names and types must be those of `SCHEMA`.

    Raises UsageError.
    """
    types = {field.name: field.dataType.simpleString() for field in SCHEMA.fields}
    for field in schema.fields:
        if field.name not in types:
            raise UsageError("no such column", expected=f"some of {', '.join(types)}", found=field.name)
        found = field.dataType.simpleString()
        if found != types[field.name]:
            raise UsageError(f"column {field.name} has another type", expected=types[field.name], found=found)
    return schema
