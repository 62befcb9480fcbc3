"""Decode Avro in Spark's workers, with fastavro."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from winnow.errors import UsageError, WinnowError
from winnow.extras import AVRO, how_to_install
from winnow.reading.avro_types import Schema, load_schema, to_spark
from winnow.reading.formats import Avro
from winnow.reading.registry import fetch_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_HEAD = 5
"""Bytes before the datum: a zero, and the id of its schema."""
_MOST_IDS = 10_000
_ONLY = -1
"""In place of an id, where data is not framed."""
_NAME = "WinnowDatum"

Writers = tuple[tuple[int, str], ...]
"""Ids and JSON of schemas, each a list whose last one is wanted. `_ONLY`: data is not framed."""


def decode_avro(frame: DataFrame, column: str, avro: Avro, *, problem: str) -> DataFrame:
    """Return `frame` with `column` decoded, and a column `problem` that says why a datum is null.

    Runs a Spark job to find the ids of schemas where data is framed. Raises UsageError for schemas
    that can't be used, and WinnowError for a registry that can't be read.
    """
    if find_spec("fastavro") is None:
        raise WinnowError(
            "Avro needs a package that is not installed",
            expected="fastavro, on executors too",
            hint=how_to_install(AVRO),
        )
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415 - with Arrow

    writers, wanted = _schemas(frame, column, avro)
    kind, _ = _parsed(json.loads(wanted))
    found = StructType().add("datum", kind).add("problem", StringType())
    decoded = arrow_udf(_decoder(writers, wanted, found), found)  # type: ignore[call-overload]
    return (
        frame.withColumn("_decoded", decoded(column))
        .withColumns({column: f.col("_decoded.datum"), problem: f.col("_decoded.problem")})
        .drop("_decoded")
    )


def _schemas(frame: DataFrame, column: str, avro: Avro) -> tuple[Writers, str]:
    """Return the schemas of the writers, and JSON like theirs of what is wanted."""
    reader = None if avro.schema is None else [load_schema(avro.schema, what="schema")]
    if not avro.framed:
        writers = {_ONLY: reader or []}
    elif avro.schemas is not None:
        writers = {
            number: [load_schema(text, what=f"schema {number}")]
            for number, text in avro.schemas.items()
        }
    else:
        url = avro.registry or ""
        writers = {number: fetch_schema(url, number) for number in _ids(frame, column)}
    if reader is None and not writers:
        raise UsageError(
            f"no record has a schema of Avro in its {column}",
            expected="a zero byte and the id of a schema",
            found="none in the records of this read",
            hint="Avro(schema=FILE) reads data without ids.",
        )
    wanted = writers[max(writers)] if reader is None else reader
    told = tuple((number, json.dumps(each)) for number, each in writers.items())
    return told, json.dumps(wanted)


def _ids(frame: DataFrame, column: str) -> list[int]:
    """Return the ids of the schemas in a column, ascending."""
    head = f.substring(column, 1, _HEAD)
    framed = frame.where((f.substring(column, 1, 1) == f.lit(b"\0")) & (f.length(column) > _HEAD))
    heads = framed.select(head.alias("head")).distinct().limit(_MOST_IDS + 1).collect()
    if len(heads) > _MOST_IDS:
        raise UsageError(
            f"the {column}s begin with too many ids of schemas",
            expected=f"up to {_MOST_IDS}",
            found="more",
            hint="Are these data in the wire format of a schema registry?",
        )
    return sorted(int.from_bytes(row.head[1:], "big") for row in heads)


def _parsed(schemas: Sequence[Schema]) -> tuple[Any, Schema]:
    """Return (type in Spark, fastavro's schema of a record with one field) of the last schema."""
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema  # noqa: PLC0415 - an extra

    try:
        record, names = _record_of(schemas)
        named = dict(names)
        kind, _ = to_spark(parse_schema(schemas[-1], named_schemas=named), named)
    except (SchemaParseException, UnknownType, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            "not an Avro schema",
            expected="a schema that Avro's specification allows",
            found=f"{type(error).__name__}: {error}",
        ) from error
    return kind, record


def _record_of(schemas: Sequence[Schema]) -> tuple[Schema, Mapping[str, Schema]]:
    """Return fastavro's schema of a record with one field of the last schema, and the named schemas
    of the others. A writer may use types that Spark lacks, if the reader does not.
    """
    from fastavro.schema import parse_schema  # noqa: PLC0415 - an extra

    names: dict[str, Schema] = {}
    for schema in schemas[:-1]:
        parse_schema(schema, named_schemas=names)
    field = {"name": "datum", "type": schemas[-1]}
    record = {"type": "record", "name": _NAME, "fields": [field]}
    return parse_schema(record, named_schemas=dict(names)), names


def _decoder(writers: Writers, wanted: str, found: StructType) -> Callable[[pa.Array], pa.Array]:
    import pyarrow as pa  # noqa: PLC0415 - with Spark
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415 - with Arrow

    kind = to_arrow_type(found, timezone="UTC")

    def decode(column: pa.Array) -> pa.Array:
        read = _reader(writers, wanted)
        told = [(None, None) if data is None else read(data) for data in column.to_pylist()]
        problems = [problem for _, problem in told]
        values = _array([value for value, _ in told], problems, kind.field("datum").type)
        return pa.StructArray.from_arrays([values, pa.array(problems, pa.string())], fields=[*kind])

    decode.__annotations__ = {"column": pa.Array, "return": pa.Array}  # what Spark goes by
    return decode


def _array(values: list[Any], problems: list[str | None], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415 - for workers only

    try:
        return pa.array(values, kind)
    except (pa.ArrowException, ValueError, OverflowError):
        for i, value in enumerate(values):
            try:
                pa.array([value], kind)
            except (pa.ArrowException, ValueError, OverflowError) as error:
                values[i] = None
                problems[i] = f"Spark can't represent it: {error}"
        return pa.array(values, kind)


@lru_cache(16)
def _reader(writers: Writers, wanted: str) -> Callable[[bytes], tuple[Any, str | None]]:
    """Return a function that decodes one datum, or says why it can't be decoded."""
    try:
        from fastavro import schemaless_reader  # noqa: PLC0415 - an extra, for workers only
    except ModuleNotFoundError as error:
        raise WinnowError(
            "Avro needs a package that the executors do not have",
            expected="fastavro",
            hint="With fastavro installed here, run `./spark-submit.sh package` and pass the "
            "archive: --archives winnow.tar.gz#winnow.",
        ) from error

    _, reader = _parsed(json.loads(wanted))
    schemas = {number: _record_of(json.loads(text))[0] for number, text in writers}
    framed = _ONLY not in schemas
    begin = _HEAD if framed else 0

    def read(data: bytes) -> tuple[Any, str | None]:
        number = _ONLY
        if framed:
            if len(data) < _HEAD or data[0] != 0:
                return None, "it does not begin with a zero byte and the id of a schema"
            number = int.from_bytes(data[1:_HEAD], "big")
            if number not in schemas:
                return None, f"the schema with id {number} is unknown"
        source = BytesIO(data)
        source.seek(begin)
        try:
            record: Any = schemaless_reader(source, schemas[number], reader)
            datum = record["datum"]
        except Exception as error:  # noqa: BLE001 - fastavro raises whatever the bytes lead to
            return None, f"it is not a datum of its schema: {type(error).__name__}"
        if source.tell() != len(data):
            return None, f"{len(data) - source.tell()} bytes follow the datum"
        return datum, None

    return read
