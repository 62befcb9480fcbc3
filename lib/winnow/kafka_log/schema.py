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

BINARY, TEXT, LONG, INT = BinaryType(), StringType(), LongType(), IntegerType()
TIME, BOOLEAN = TimestampType(), BooleanType()

_HEADER = StructType([StructField("key", TEXT), StructField("value", BINARY)])


def columns(*columns: tuple[str, DataType, str]) -> StructType:
    """Return columns, given by name, type and comment. A value may be null in each of them."""
    return StructType([StructField(name, of, True, {"comment": why}) for name, of, why in columns])


SCHEMA = columns(
    ("key", BINARY, ""),
    ("value", BINARY, ""),
    ("topic", TEXT, ""),
    ("partition", INT, ""),
    ("offset", LONG, ""),
    (
        "timestamp",
        TIME,
        "-1 ms for message format v0, which has no timestamps; null after the year 292 277",
    ),
    ("timestampType", INT, "0 create time, 1 log-append time, -1 none"),
    ("headers", ArrayType(_HEADER), "null if there are none"),
    ("baseOffset", LONG, "of the record's batch, like all columns below"),
    ("batchLastOffset", LONG, "of the batch"),
    ("batchSize", INT, "bytes on disk"),
    ("magic", INT, "message format: 0, 1 or 2"),
    ("codec", TEXT, "none, gzip, snappy, lz4 or zstd"),
    ("producerId", LONG, "-1: none"),
    ("producerEpoch", INT, "-1: none"),
    ("sequence", INT, "of the record; -1: none"),
    ("isTransactional", BOOLEAN, ""),
    ("isControl", BOOLEAN, "a transaction marker; only with includeControl"),
    ("partitionLeaderEpoch", INT, "-1: none"),
    (
        "deleteHorizon",
        TIME,
        (
            "when a cleaner may drop the batch's tombstones or markers; null until a cleaner has "
            "set it"
        ),
    ),
    ("segment", TEXT, "name of the file"),
    ("position", LONG, "byte of the file at which the batch begins"),
    ("crcOk", BOOLEAN, ""),
    ("problem", TEXT, "null, or why there is no record here"),
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
