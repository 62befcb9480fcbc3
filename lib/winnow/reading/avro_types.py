"""Avro's schemas: parsed, without the logical types that Spark does not know, and as Spark's types.

The types are those of Spark's own Avro source (`SchemaConverters`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

from winnow.budget import Budget
from winnow.errors import UsageError
from winnow.reading.avro_bounds import (
    MOST_DEPTH,
    MOST_SCHEMA_CHARACTERS,
    MOST_TYPES,
    Schema,
    parse_schema_text,
    too_deep,
)
from winnow.storage.output_file import read_output

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
_SHOWN = 200
_MOST_FILE_BYTES = 4 * MOST_SCHEMA_CHARACTERS + 1


def load_schema(text: str, *, what: str) -> Schema:
    """Return the schema that is in `text`, or in the file that `text` names. Raises UsageError."""
    where = what
    if not text.lstrip().startswith(("{", "[", '"')):
        where = text
        try:
            text = read_output(Path(text).resolve(), most=_MOST_FILE_BYTES).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                "can't read the file of an Avro schema",
                expected="a file with JSON in UTF-8",
                found=str(error),
                where=where,
            ) from error
    return plain(parse_schema_text(text, where=where))


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


def to_spark(schema: Schema, names: Mapping[str, Schema]) -> Typed:
    """Return the type of a schema that fastavro has parsed, and whether it may be null.

    `names`: the named schemas by their full names. Raises UsageError for a union or a recursive
    record that has no type in Spark, and for too many types.
    """
    size = Budget(
        MOST_TYPES,
        "types",
        "an Avro schema is too large where each name is replaced by its type",
        hint="Read the column as 'bytes', or give Avro(schema=...) with the fields that you need.",
        error=UsageError,
    )
    return _Types(names, size).of(schema, ())


@dataclass(frozen=True, slots=True)
class _Types:
    names: Mapping[str, Schema]
    size: Budget

    def of(self, schema: Schema, within: Records, depth: int = 0) -> Typed:
        """`within`: the records around it. `depth`: the types around it."""
        self.size.take(1)
        if depth > MOST_DEPTH:
            raise too_deep()
        if isinstance(schema, list):
            return self._of_union(schema, within, depth + 1)
        parts = self.names.get(schema, {"type": schema}) if isinstance(schema, str) else schema
        kind, logical = parts["type"], parts.get("logicalType")
        if isinstance(kind, dict | list):
            return self.of(kind, within, depth + 1)
        if logical == _DECIMAL and kind in ("bytes", "fixed"):
            return _decimal(parts["precision"], parts.get("scale", 0), within), False
        if kind in ("array", "map"):
            items = parts["items" if kind == "array" else "values"]
            of, null = self.of(items, within, depth + 1)
            return ArrayType(of, null) if kind == "array" else MapType(
                StringType(), of, null
            ), False
        if kind in ("record", "error"):
            return self._of_record(parts, within, depth + 1), False
        if kind in ("enum", "fixed"):  # whatever the logical type
            logical = None
        return _LOGICAL[kind, logical] if logical else _PRIMITIVE[kind], kind == "null"

    def _of_record(self, parts: Mapping[str, Any], within: Records, depth: int) -> StructType:
        if parts["name"] in within:
            raise _refused(f"the recursive record {parts['name']}", within)
        fields = []
        for field in parts["fields"]:
            of, null = self.of(field["type"], (*within, parts["name"]), depth)
            fields.append(StructField(field["name"], of, null))
        return StructType(fields)

    def _of_union(self, branches: Sequence[Schema], within: Records, depth: int) -> Typed:
        some = [one for one in branches if one != "null"]
        null = len(some) < len(branches)
        if not some:
            return NullType(), True
        if len(some) == 1:
            return self.of(some[0], within, depth)[0], null
        if wider := _WIDER.get(tuple(sorted(map(str, some)))):
            return wider, null
        words = [one if isinstance(one, str) else str(one.get("name", one["type"])) for one in some]
        raise _refused(f"a union of {', '.join(words)[:_SHOWN]}", within)


def _decimal(precision: int, scale: int, within: Records) -> DecimalType:
    if not 0 <= scale <= precision <= _MOST_DIGITS:
        raise _refused(f"a decimal of {precision} digits, {scale} after the point", within)
    return DecimalType(precision, scale)


def _refused(what: str, within: Records) -> UsageError:
    return UsageError(
        "Spark has no type for a part of the Avro schema",
        expected="a union of one type and null; no recursion; decimals of up to 38 digits",
        found=what,
        where=within[-1] if within else None,
        hint="Read the column as 'bytes', or give Avro(schema=...) without that field.",
    )
