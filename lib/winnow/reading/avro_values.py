"""Decode Avro in Spark's workers, with fastavro."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from winnow.budget import Budget
from winnow.errors import UsageError, WinnowError
from winnow.extras import AVRO, how_to_install
from winnow.reading.avro_bounds import (
    MORE_VALUES,
    DatumBounds,
    Schema,
    TooMuchError,
    bound_decimals,
    for_reading,
    refused_schema,
)
from winnow.reading.avro_types import load_schema, to_spark
from winnow.reading.formats import Avro
from winnow.reading.registry import Registry
from winnow.resources import program
from winnow.words import size

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_HEAD = 5
"""Bytes before the datum: a zero, and the id of its schema."""
_MOST_IDS = 10_000
_ONLY = -1
"""In place of an id, where data is not framed."""
_NAME = "WinnowDatum"
_MOST_TEXT = 64 * 2**20
_PART_BYTES = 256 * 2**10
_MOST_BATCH_BYTES = 2**30
"""Of the values of one Arrow batch. Spark gives up to 64 MiB of data at once, which must be
answered at once; small numbers take eight times that.
"""
_SHOWN = 200

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
            hint=f"Run {how_to_install(AVRO)}",
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
        registry = Registry(avro.registry or "")
        writers = {number: registry.schema(number) for number in _ids(frame, column)}
    if reader is None and not writers:
        raise UsageError(
            f"no record has a schema of Avro in its {column}",
            expected="a zero byte and the id of a schema",
            found="none in the records of this read",
            hint="Avro(schema=FILE) reads data without ids.",
        )
    wanted = writers[max(writers)] if reader is None else reader
    room = Budget(
        _MOST_TEXT,
        "characters",
        f"the schemas of the {column}s are too large",
        hint="Read fewer records at once, with start and end.",
        error=UsageError,
    )
    texts = []
    for number, each in writers.items():
        texts.append((number, json.dumps(each)))
        room.take(len(texts[-1][1]))
    return tuple(texts), json.dumps(wanted)


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
    with _schema_errors():
        record, names = _record_of(schemas)
        for_reading(names)
        DatumBounds(record, names)
        return to_spark(record["fields"][0]["type"], names)[0], record


def _record_of(schemas: Sequence[Schema]) -> tuple[Schema, Mapping[str, Schema]]:
    """Return fastavro's schema of a record with one field of the last schema, and all named
    schemas. A writer may use types that Spark lacks, if the reader does not.
    """
    from fastavro.schema import parse_schema  # noqa: PLC0415 - an extra

    names: dict[str, Schema] = {}
    for schema in schemas[:-1]:
        parse_schema(schema, named_schemas=names)
    field = {"name": "datum", "type": schemas[-1]}
    record = {"type": "record", "name": _NAME, "fields": [field]}
    return parse_schema(record, named_schemas=names), names


@contextmanager
def _schema_errors() -> Iterator[None]:
    """Raise UsageError for whatever a malformed schema leads to."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        raise refused_schema(
            "a schema that Avro's specification allows",
            f"{type(error).__name__}: {str(error)[:_SHOWN]}",
        ) from error


def _decoder(writers: Writers, wanted: str, found: StructType) -> Callable[[pa.Array], pa.Array]:
    import pyarrow as pa  # noqa: PLC0415 - with Spark
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415 - with Arrow

    kind = to_arrow_type(found, timezone="UTC")

    def decode(column: pa.Array) -> pa.Array:
        read, parts, left = datum_reader(writers, wanted), [], _MOST_BATCH_BYTES
        for part in _parts(column):
            use = read if left > 0 else _no_room
            told = [(None, None) if data is None else use(data) for data in part.to_pylist()]
            problems = [problem for _, problem in told]
            values = _array([value for value, _ in told], problems, kind.field("datum").type)
            left -= values.nbytes
            columns = [values, pa.array(problems, pa.string())]
            parts.append(pa.StructArray.from_arrays(columns, fields=[*kind]))
        return pa.concat_arrays(parts)

    decode.__annotations__ = {"column": pa.Array, "return": pa.Array}  # what Spark goes by
    return decode


def _no_room(_: bytes) -> tuple[None, str]:
    return None, (
        f"the values before it take {size(_MOST_BATCH_BYTES)}, which is all that one Arrow batch "
        "may. Set spark.sql.execution.arrow.maxBytesPerBatch to less"
    )


def _parts(column: pa.Array) -> Iterator[pa.Array]:
    """Yield a column in parts: of as many data as may be in memory as Python's values."""
    begin, left = 0, _PART_BYTES
    for number, data in enumerate(column):
        size = MORE_VALUES + (len(data.as_buffer()) if data.is_valid else 0)
        if size > left and number > begin:
            yield column.slice(begin, number - begin)
            begin, left = number, _PART_BYTES
        left -= size
    yield column.slice(begin)


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


@dataclass(frozen=True, slots=True)
class _Writer:
    schema: Schema
    bounds: DatumBounds


def _writer(text: str, reader: Mapping[str, int]) -> _Writer | str:
    """Return a writer's schema, or why no data can be read with it."""
    try:
        with _schema_errors():
            record, names = _record_of(json.loads(text))
            return _Writer(record, DatumBounds(record, names, reader))
    except UsageError as error:
        return f"can't be used: {error.what}"


def _why_not_read(error: Exception) -> str:
    if isinstance(error, TooMuchError):
        return f"it can't be read: {error}"
    return f"it is not a datum of its schema: {type(error).__name__}"


@lru_cache(16)
def datum_reader(writers: Writers, wanted: str) -> Callable[[bytes], tuple[Any, str | None]]:
    """Return a function that decodes one datum, or says why it can't be decoded."""
    try:
        from fastavro import schemaless_reader  # noqa: PLC0415 - an extra, for workers only
    except ModuleNotFoundError as error:
        raise WinnowError(
            "Avro needs a package that the executors do not have",
            expected="fastavro",
            hint=f"With fastavro installed here, run `{program()} package` and pass the "
            "archive: --archives winnow.tar.gz#winnow.",
        ) from error

    bound_decimals()
    with _schema_errors():
        reader, names = _record_of(json.loads(wanted))
        for_reading(names)
        records = DatumBounds(reader, names).records
    schemas = {number: _writer(text, records) for number, text in writers}
    framed = _ONLY not in schemas
    begin = _HEAD if framed else 0

    def read(data: bytes) -> tuple[Any, str | None]:
        number = _ONLY
        if framed:
            if len(data) < _HEAD or data[0] != 0:
                return None, "it does not begin with a zero byte and the id of a schema"
            number = int.from_bytes(data[1:_HEAD], "big")
        writer = schemas.get(number, "is unknown")
        if isinstance(writer, str):
            return None, f"the schema with id {number} {writer}"
        source = BytesIO(data)
        source.seek(begin)
        try:
            writer.bounds.check(data, begin)
            record: Any = schemaless_reader(source, writer.schema, reader)
            datum = record["datum"]
        except Exception as error:  # noqa: BLE001 - fastavro raises whatever the bytes lead to
            return None, _why_not_read(error)
        if source.tell() != len(data):
            return None, f"{len(data) - source.tell()} bytes follow the datum"
        return datum, None

    return read
