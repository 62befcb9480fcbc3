"""Avro's schemas: parsed, without the logical types that Spark does not know, and as Spark's types.

The types are those of Spark's own Avro source (`SchemaConverters`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from winnow.errors import UsageError
from winnow.storage.output_file import read_output

Schema = Any
"""Parsed JSON: a name, a list for a union, or a dict."""
Records = tuple[str, ...]
Typed = tuple[DataType, bool]

_PRIMITIVE: Mapping[str, DataType] = {
    "null": NullType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: Mapping[tuple[str, str], DataType] = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
}
_WIDER: Mapping[tuple[str, ...], DataType] = {
    ("int", "long"): LongType(),
    ("double", "float"): DoubleType(),
}
"""Of unions of numbers."""
_DECIMAL = "decimal"
_MOST_DIGITS = 38


def load_schema(text: str, *, what: str) -> Schema:
    """Return the schema that is in `text`, or in the file that `text` names. Raises UsageError."""
    where = what
    if not text.lstrip().startswith(("{", "[", '"')):
        where = text
        try:
            text = read_output(Path(text).resolve()).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                "can't read the file of an Avro schema",
                expected="a file with JSON in UTF-8",
                found=str(error),
                where=where,
            ) from error
    try:
        return plain(json.loads(text))
    except ValueError as error:
        raise UsageError(
            "not an Avro schema", expected="JSON", found=str(error), where=where
        ) from error


def plain(schema: Schema) -> Schema:
    """Return the schema without logical types that Spark reads as their underlying type."""
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return [plain(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    logical, of = schema.get("logicalType"), schema.get("type")
    known = logical == _DECIMAL or (isinstance(of, str) and (of, str(logical)) in _LOGICAL)
    return {
        name: plain(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
        if name != "logicalType" or known
    }


def to_spark(schema: Schema, names: Mapping[str, Schema], *, within: Records = ()) -> Typed:
    """Return the type of a schema that fastavro has parsed, and whether it may be null.

    `names`: the named schemas by their full names. `within`: the records around it. Raises
    UsageError for a union or a recursive record that has no type in Spark.
    """
    if isinstance(schema, list):
        return _of_union(schema, names, within)
    parts = names.get(schema, {"type": schema}) if isinstance(schema, str) else schema
    kind, logical = parts["type"], parts.get("logicalType")
    if isinstance(kind, dict | list):
        return to_spark(kind, names, within=within)
    if logical == _DECIMAL and kind in ("bytes", "fixed"):
        if parts["precision"] > _MOST_DIGITS:
            raise _refused(f"a decimal of {parts['precision']} digits", within)
        return DecimalType(parts["precision"], parts.get("scale", 0)), False
    if kind in ("array", "map"):
        of, null = to_spark(parts["items" if kind == "array" else "values"], names, within=within)
        return ArrayType(of, null) if kind == "array" else MapType(StringType(), of, null), False
    if kind in ("record", "error"):
        return _of_record(parts, names, within), False
    if kind in ("enum", "fixed"):  # whatever the logical type
        logical = None
    return _LOGICAL[kind, logical] if logical else _PRIMITIVE[kind], kind == "null"


def _of_record(
    parts: Mapping[str, Any], names: Mapping[str, Schema], within: Records
) -> StructType:
    if parts["name"] in within:
        raise _refused(f"the recursive record {parts['name']}", within)
    fields = []
    for field in parts["fields"]:
        of, null = to_spark(field["type"], names, within=(*within, parts["name"]))
        fields.append(StructField(field["name"], of, null))
    return StructType(fields)


def _of_union(branches: Sequence[Schema], names: Mapping[str, Schema], within: Records) -> Typed:
    some = [one for one in branches if one != "null"]
    null = len(some) < len(branches)
    if not some:
        return NullType(), True
    if len(some) == 1:
        return to_spark(some[0], names, within=within)[0], null
    if wider := _WIDER.get(tuple(sorted(map(str, some)))):
        return wider, null
    words = [one if isinstance(one, str) else str(one.get("name", one["type"])) for one in some]
    raise _refused(f"a union of {', '.join(words)}", within)


def _refused(what: str, within: Records) -> UsageError:
    return UsageError(
        "Spark has no type for a part of the Avro schema",
        expected="a union of one type and null; no recursion; decimals of up to 38 digits",
        found=what,
        where=within[-1] if within else None,
        hint="Read the column as 'bytes', or give Avro(schema=...) without that field.",
    )
