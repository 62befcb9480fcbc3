"""Decode a column of keys or values. A problem is a text beside the column, so that each mode can
do with it what it says.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from winnow.errors import UsageError
from winnow.reading.avro_values import decode_avro
from winnow.reading.formats import Format, Json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CASE_SENSITIVE = "spark.sql.caseSensitive"


def with_schema(
    how: Format, column: str, spark: SparkSession, load: Callable[[SparkSession], DataFrame]
) -> Format:
    """Return the format with a schema, which is inferred if it is JSON without one.

    `load` loads the records in a session. Raises UsageError for a schema that can't be read or
    inferred, and for fields that the session of the caller can't tell apart.
    """
    if how == "json":
        how = Json()
    if not isinstance(how, Json):
        return how
    if isinstance(how.schema, str):
        try:
            return replace(how, schema=DataType.fromDDL(how.schema))
        except PySparkException as error:
            raise UsageError(
                "the schema of Json can't be read",
                expected="DDL such as 'id bigint, name string'",
                found=str(error).partition("\n")[0],
            ) from error
    if how.schema is not None:
        return how
    session = spark.newSession()
    # Spark would merge the fields `a` and `A` of two records, and then read only one of them.
    session.conf.set(_CASE_SENSITIVE, "true")
    kind = _inferred(load(session), column)
    case_sensitive = f"{spark.conf.get(_CASE_SENSITIVE)}".lower() == "true"
    for one, other in _alike(kind, case_sensitive=case_sensitive):
        both = "" if one == other else f" To read both, set {_CASE_SENSITIVE} to true."
        raise UsageError(
            f"two fields of the JSON of {column} can't be told apart",
            expected="names that differ in more than upper and lower case",
            found=f"{one} and {other}",
            hint="Give the schema, with the fields that you want: winnow.Json('id bigint, name "
            f"string').{both}",
        )
    return replace(how, schema=kind)


def _alike(kind: DataType, path: str = "", *, case_sensitive: bool) -> Iterator[tuple[str, str]]:
    """Yield the paths of two fields of one struct that have the same name for Spark."""
    if isinstance(kind, ArrayType):
        yield from _alike(kind.elementType, path, case_sensitive=case_sensitive)
    if not isinstance(kind, StructType):
        return
    seen: dict[str, str] = {}
    for field in kind.fields:
        at = f"{path}.{field.name}" if path else field.name
        name = field.name if case_sensitive else field.name.lower()
        if name in seen:
            yield seen[name], at
        seen[name] = at
        yield from _alike(field.dataType, at, case_sensitive=case_sensitive)


def decode(frame: DataFrame, column: str, how: Format, *, problem: str) -> DataFrame:
    """Return `frame` with `column` decoded, and a column `problem` beside it: a text where a
    key or value that is not null can't be decoded.
    """
    if how == "bytes":
        return frame.withColumn(problem, f.lit(None).cast("string"))
    if not isinstance(how, Json | str):
        return decode_avro(frame, column, how, problem=problem)
    text = f.col(column).cast("string")
    frame = frame.withColumns(
        {"_text": text, problem: f.when(~f.is_valid_utf8(text), f.lit("it is not UTF-8"))}
    )
    value, good = f.col("_text"), f.col(problem).isNull()
    if isinstance(how, Json):
        kind: Any = how.schema  # a map as well, which the annotation of `from_json` forgets
        corrupt, is_struct = "_corrupt", isinstance(kind, StructType)
        if is_struct:
            while corrupt in {name.lower() for name in kind.names}:
                corrupt += "_"
            kind = StructType([*kind.fields, StructField(corrupt, StringType())])
        as_told = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": corrupt}
        frame = frame.withColumn("_parsed", f.from_json("_text", kind, as_told))
        value = f.col("_parsed")
        bad = value.isNull()
        if is_struct:
            bad, value = bad | value[corrupt].isNotNull(), value.dropFields(corrupt)
        is_null = f.col("_text").isNull() | (f.trim("_text", f.lit(" \t\r\n")) == "null")
        told = f.when(~is_null & bad, f.lit("it is not JSON of the schema"))
        frame = frame.withColumn(problem, f.coalesce(problem, told))
        good &= ~is_null
    return frame.withColumn(column, f.when(good, value)).drop("_text", "_parsed")


def _inferred(frame: DataFrame, column: str) -> StructType:
    texts = frame.where(f.col(column).isNotNull()).select(f.col(column).cast("string"))
    # A random name for records that are no JSON: no field has it.
    no_field = f"_{secrets.token_hex(8)}"
    reader = frame.sparkSession.read.option("columnNameOfCorruptRecord", no_field)
    found = reader.json(texts, mode="DROPMALFORMED").schema
    if not found.fields:
        raise UsageError(
            f"no schema can be inferred for the JSON of {column}",
            expected="at least one JSON object",
            found="none in the records of this read",
            hint="Give the schema: winnow.Json('id bigint, name string').",
        )
    return found
