"""The columns of `kafka-log`: those of Spark's own Kafka source, named and typed as there, then those of the batch."""

from __future__ import annotations

from pyspark.sql.types import StructType

from winnow.errors import UsageError

DDL = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "baseOffset": "bigint",
    "batchLastOffset": "bigint",
    "batchSize": "int",
    "magic": "int",
    "codec": "string",
    "producerId": "bigint",
    "producerEpoch": "int",
    "sequence": "int",
    "isTransactional": "boolean",
    "isControl": "boolean",
    "partitionLeaderEpoch": "int",
    "deleteHorizon": "timestamp",
    "segment": "string",
    "position": "bigint",
    "crcOk": "boolean",
    "problem": "string",
}
"""Name -> type, in order. What each one says: docs/kafka-log.md."""

SCHEMA = ", ".join(f"{name} {kind}" for name, kind in DDL.items())


def check_schema(schema: StructType) -> StructType:
    """The schema that a user gave, which chooses columns: names and types must be those of `DDL`.

    Raises UsageError.
    """
    for field in schema.fields:
        if field.name not in DDL:
            raise UsageError("no such column", expected=f"some of {', '.join(DDL)}", found=field.name)
        found = field.dataType.simpleString()
        if found != DDL[field.name]:
            raise UsageError(f"column {field.name} has another type", expected=DDL[field.name], found=found)
    return schema
