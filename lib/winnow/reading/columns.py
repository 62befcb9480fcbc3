"""Decode a column of keys or values. A problem is a text beside the column, so that each mode can
do with it what it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StringType, StructField, StructType

from winnow.errors import UsageError
from winnow.reading.avro_values import decode_avro
from winnow.reading.formats import Format, Json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CORRUPT = "_winnow_corrupt"


def decode(frame: DataFrame, column: str, how: Format, *, problem: str) -> DataFrame:
    """Return `frame` with `column` decoded, and a column `problem` beside it: a text where a
    key or value that is not null can't be decoded.
    """
    if how == "bytes":
        return frame.withColumn(problem, f.lit(None).cast("string"))
    if how == "json":
        how = Json()
    if not isinstance(how, Json | str):
        return decode_avro(frame, column, how, problem=problem)
    text = f.col(column).cast("string")
    bad_text = f.when(~f.is_valid_utf8(text), f.lit("it is not UTF-8"))
    if how == "string":
        return frame.withColumns({column: f.when(bad_text.isNull(), text), problem: bad_text})
    return _decode_json(frame, column, how, bad_text, problem)


def _decode_json(
    frame: DataFrame, column: str, how: Json, bad_text: Column, problem: str
) -> DataFrame:
    text = f.col(column).cast("string")
    kind = _type_of(frame, column, how)
    asked: Any = kind  # a map as well, which the annotation of `from_json` forgets
    if isinstance(kind, StructType):
        asked = StructType([*kind.fields, StructField(_CORRUPT, StringType())])
    parsed = f.from_json(text, asked, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    frame = frame.withColumns({"_text": text, "_parsed": parsed, problem: bad_text})
    bad = f.col("_parsed").isNull()
    if isinstance(kind, StructType):
        bad = bad | f.col("_parsed")[_CORRUPT].isNotNull()
    is_null = f.col("_text").isNull() | (f.trim("_text", f.lit(" \t\r\n")) == "null")
    wrong = ~is_null & bad
    told = f.when(wrong, f.lit("it is not JSON of the schema"))
    frame = frame.withColumn(problem, f.coalesce(problem, told))
    value = f.col("_parsed")
    if isinstance(kind, StructType):
        value = value.dropFields(_CORRUPT)
    good = f.col(problem).isNull() & ~is_null
    return frame.withColumn(column, f.when(good, value)).drop("_text", "_parsed")


def _type_of(frame: DataFrame, column: str, how: Json) -> DataType:
    if isinstance(how.schema, str):
        try:
            parsed = DataType.fromDDL(how.schema)
        except PySparkException as error:
            raise UsageError(
                "the schema of Json can't be read",
                expected="DDL such as 'id bigint, name string'",
                found=str(error).partition("\n")[0],
            ) from error
        return _type_of(frame, column, Json(parsed))
    if how.schema is not None:
        return how.schema
    texts = frame.where(f.col(column).isNotNull()).select(f.col(column).cast("string"))
    found = frame.sparkSession.read.json(texts, mode="DROPMALFORMED").schema
    if not found.fields:
        raise UsageError(
            f"no schema can be inferred for the JSON of {column}",
            expected="at least one JSON object",
            found="none in the records of this read",
            hint="Give the schema: winnow.Json('id bigint, name string').",
        )
    return found
