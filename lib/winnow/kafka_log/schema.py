"""The columns of `kafka-log`: first those of Spark's own Kafka source, with the same names and
types, then those of the batch.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from winnow.errors import UsageError

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def _column(name: str, of: DataType, comment: str) -> StructField:
    return StructField(name, of, metadata={"comment": comment})


SCHEMA = StructType(
    [
        _column("key", BinaryType(), ""),
        _column("value", BinaryType(), ""),
        _column("topic", StringType(), ""),
        _column("partition", IntegerType(), ""),
        _column("offset", LongType(), ""),
        _column(
            "timestamp",
            TimestampType(),
            "-1 ms for message format v0, which has no timestamps; null after the year 292 277",
        ),
        _column("timestampType", IntegerType(), "0 create time, 1 log-append time, -1 none"),
        _column("headers", ArrayType(_HEADER), "null if there are none"),
        _column("baseOffset", LongType(), "of the record's batch, like all columns below"),
        _column("batchLastOffset", LongType(), "of the batch"),
        _column("batchSize", IntegerType(), "bytes on disk"),
        _column("magic", IntegerType(), "message format: 0, 1 or 2"),
        _column("codec", StringType(), "none, gzip, snappy, lz4 or zstd"),
        _column("producerId", LongType(), "-1: none"),
        _column("producerEpoch", IntegerType(), "-1: none"),
        _column("sequence", IntegerType(), "of the record; -1: none"),
        _column("isTransactional", BooleanType(), ""),
        _column("isControl", BooleanType(), "a transaction marker; only with includeControl"),
        _column("partitionLeaderEpoch", IntegerType(), "-1: none"),
        _column(
            "deleteHorizon",
            TimestampType(),
            "when a cleaner may drop the batch's tombstones or markers; null until a cleaner has "
            "set it",
        ),
        _column("segment", StringType(), "name of the file"),
        _column("position", LongType(), "byte of the file at which the batch begins"),
        _column("crcOk", BooleanType(), ""),
        _column("problem", StringType(), "null, or why there is no record here"),
    ]
)
"""docs/kafka-log.md is generated from it."""


def some_columns(*names: str) -> StructType:
    """Return the schema of these columns. Spark would parse a text by settings of the session: one
    of them gives timestamps another type.
    """
    return StructType([SCHEMA[name] for name in names])


def check_schema(schema: StructType) -> StructType:
    """Return the schema that a user gave to choose columns.

    Raises UsageError if its names and types are not those of `SCHEMA`, or if Spark could not return
    its rows.
    """
    types = {field.name: field.dataType.simpleString() for field in SCHEMA.fields}
    if not schema.fields or len({*schema.names}) < len(schema.fields):
        raise UsageError(
            "a schema needs columns, each once",
            expected=f"some of {', '.join(types)}",
            found=", ".join(schema.names) or "none",
        )
    for field in schema.fields:
        if field.name not in types:
            raise UsageError(
                "no such column", expected=f"some of {', '.join(types)}", found=field.name
            )
        found = field.dataType.simpleString()
        if found != types[field.name]:
            raise UsageError(
                f"column {field.name} has another type", expected=types[field.name], found=found
            )
        if not field.nullable or field.dataType != SCHEMA[field.name].dataType:
            # Spark would take it at its word, and count no null.
            raise UsageError(
                f"column {field.name} may be null", expected=found, found=f"{found} NOT NULL"
            )
    return schema
