"""Avro through `winnow.read`: bytes by fastavro in Confluent's wire format, in log files, with the
schemas in files or in a registry that answers as Confluent's does. Spark itself says which types
the schemas have.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

import winnow
from tests.log_writer.dir_writer import LogDirWriter
from tests.schema_registry import Registry, serving
from winnow.errors import UsageError, WinnowError
from winnow.reading.avro_types import plain, to_spark
from winnow.reading.registry import Registry as SchemaRegistry
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

fastavro = pytest.importorskip("fastavro", reason="the extra `avro` is not installed")

pytestmark = pytest.mark.spark

START = 1_790_000_000_000
FIRST = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"]}],
}
SECOND = FIRST | {
    "fields": [
        *FIRST["fields"],  # type: ignore[misc]
        {"name": "total", "type": "double", "default": 0.0},
    ]
}
ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "shop",
    "fields": [{"name": "city", "type": "string"}],
}
CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [{"name": "home", "type": "Address"}, {"name": "work", "type": ["null", "Address"]}],
}
EVERY = {
    "type": "record",
    "name": "Every",
    "fields": [
        {"name": "yes", "type": "boolean"},
        {"name": "n", "type": "int"},
        {"name": "f", "type": "float"},
        {"name": "raw", "type": "bytes"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "near", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "more", "type": {"type": "map", "values": "long"}},
        {"name": "either", "type": ["int", "null", "long"]},
        {"name": "ratio", "type": ["float", "double"]},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": []}},
    ],
}
ONE_OF_EACH = {
    "yes": True,
    "n": -7,
    "f": 0.5,
    "raw": b"\0\xff",
    "day": date(2026, 9, 21),
    "at": datetime(2026, 9, 21, 14, tzinfo=UTC),
    "near": datetime(2026, 9, 21, 14),  # noqa: DTZ001 - a local time
    "uuid": "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "price": Decimal("12.34"),
    "kind": "B",
    "hash": b"ab",
    "tags": ["x", None],
    "more": {"a": 1},
    "either": 2**40,
    "ratio": 0.25,
    "inner": {},
}
SCHEMAS = {7: FIRST, 300: SECOND}


def datum(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def framed(number: int, schema: Any, value: Any) -> bytes:
    return struct.pack(">bI", 0, number) + datum(schema, value)


ORDERS = [
    framed(7, FIRST, {"id": 1, "city": "Köln"}),
    framed(300, SECOND, {"id": 2, "city": None, "total": 9.5}),
    None,
]


def write(path: Path, values: list[bytes | None]) -> str:
    with LogDirWriter(path, clock=lambda: START) as log_dir:
        log_dir.partition("orders", 0).append_records(
            [Record(i, START, b"k%d" % i, value) for i, value in enumerate(values)]
        )
    return str(path)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as registry:
        yield registry


def test_wire_format_with_a_registry(
    registry: Registry, spark: SparkSession, tmp_path: Path
) -> None:
    for number, schema in SCHEMAS.items():
        registry.knows(number, schema)
    path = write(tmp_path / "kafka", ORDERS)
    frame = winnow.read(spark, path, key="string", value=winnow.Avro(registry=registry.url))
    rows = {row.key: row.value and row.value.asDict() for row in frame.collect()}
    assert rows == {
        "k0": {"id": 1, "city": "Köln", "total": 0.0},
        "k1": {"id": 2, "city": None, "total": 9.5},
        "k2": None,
    }
    assert sorted(registry.asked) == ["/schemas/ids/300", "/schemas/ids/7"]
    state = winnow.read(spark, path, as_of=10, value=winnow.Avro(registry=registry.url))
    assert state.where("value.total > 1").count() == 1


def test_wire_format_with_schema_files(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "kafka", ORDERS)
    for number, schema in SCHEMAS.items():
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema), encoding="utf-8")
    files = {number: str(tmp_path / f"{number}.avsc") for number in SCHEMAS}
    both = winnow.read(spark, path, value=winnow.Avro(schemas=files))
    assert both.where("value.total = 9.5").count() == 1
    as_first = winnow.Avro(schema=json.dumps(FIRST), schemas=files)
    older = winnow.read(spark, path, value=as_first)
    assert older.schema["value"].dataType.simpleString() == "struct<id:bigint,city:string>"
    assert [tuple(row.value) for row in older.collect() if row.value] == [(1, "Köln"), (2, None)]


def test_every_type_without_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "kafka", [datum(EVERY, ONE_OF_EACH)])
    frame = winnow.read(spark, path, value=winnow.Avro(schema=json.dumps(EVERY)))
    (row,) = frame.select("value.*").selectExpr("*", "unix_millis(at) AS ms").collect()
    found = row.asDict(recursive=True)
    del found["ms"], found["at"]
    wanted = {name: value for name, value in ONE_OF_EACH.items() if name != "at"}
    assert found == wanted
    assert row.ms == int(datetime(2026, 9, 21, 14, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    "schema",
    [
        *(EVERY, SECOND, "string", ["null", "long"], {"type": "array", "items": FIRST}, CUSTOMER),
        {"type": "enum", "name": "Wrong", "symbols": ["A"], "logicalType": "decimal"},
    ],
    ids=["every", "record", "string", "union", "array", "references", "wrong logical type"],
)
def test_types_are_those_of_sparks_own_avro(schema: Any, spark: SparkSession) -> None:
    whole = schema
    if schema is CUSTOMER:
        whole = CUSTOMER | {
            "fields": [{"name": "home", "type": ADDRESS}, CUSTOMER["fields"][1]]  # type: ignore[index]
        }
    avro = spark._jvm.org.apache.avro.Schema.Parser().parse(json.dumps(whole))  # type: ignore[union-attr]
    told = spark._jvm.org.apache.spark.sql.avro.SchemaConverters.toSqlType(avro)  # type: ignore[union-attr]
    names: dict[str, Any] = {}
    parsed = fastavro.schema.parse_schema(plain(whole), named_schemas=names)
    kind, null = to_spark(parsed, names)
    wrapped = StructType().add("x", kind, null)
    theirs = {
        "type": "struct",
        "fields": [
            {
                "name": "x",
                "type": json.loads(told.dataType().json()),
                "nullable": told.nullable(),
                "metadata": {},
            }
        ],
    }
    assert wrapped == StructType.fromJson(theirs)


def test_what_cant_be_decoded_is_told(
    registry: Registry, spark: SparkSession, tmp_path: Path
) -> None:
    registry.knows(7, FIRST)
    good = framed(7, FIRST, {"id": 1, "city": "x"})
    path = write(
        tmp_path / "kafka", [good, good + b"!", good[:-1], b"{}", b"", framed(7, "long", 5)]
    )
    how = winnow.Avro(registry=registry.url)
    frame = winnow.read(spark, path, value=how, mode="PERMISSIVE")
    found = {row.offset: row for row in frame.collect()}
    assert [row.value is not None for _, row in sorted(found.items())] == [True] + [False] * 5
    assert found[0].problem is None
    words = [
        (found[i].problem or "").removeprefix("the value can't be decoded: ") for i in range(1, 6)
    ]
    assert words == [
        "1 bytes follow the datum",
        "it is not a datum of its schema: EOFError",
        "it does not begin with a zero byte and the id of a schema",
        "it does not begin with a zero byte and the id of a schema",
        "it is not a datum of its schema: EOFError",
    ]
    with pytest.raises(Exception, match="bytes follow the datum in orders-0, offset 1"):
        winnow.read(spark, path, value=how).collect()
    assert winnow.read(spark, path, value=how, mode="DROPMALFORMED").count() == 1
    files = winnow.Avro(schemas={8: json.dumps(FIRST)})
    with pytest.raises(Exception, match="the schema with id 7 is unknown"):
        winnow.read(spark, path, value=files, end=1).collect()


def test_references_between_schemas_are_followed(
    registry: Registry, spark: SparkSession, tmp_path: Path
) -> None:
    reference = {"name": "shop.Address", "subject": "shop.Address/1", "version": 3}
    registry.knows(9, CUSTOMER, references=[reference])
    registry.answers["/subjects/shop.Address%2F1/versions/3"] = {
        "subject": "shop.Address/1",
        "schema": json.dumps(ADDRESS),
    }
    whole = CUSTOMER | {"fields": [{"name": "home", "type": ADDRESS}, CUSTOMER["fields"][1]]}  # type: ignore[index]
    value = {"home": {"city": "Bonn"}, "work": None}
    path = write(tmp_path / "kafka", [framed(9, whole, value)])
    frame = winnow.read(spark, path, value=winnow.Avro(registry=registry.url))
    assert [row.value.asDict(recursive=True) for row in frame.collect()] == [value]


def test_registry_with_a_password(registry: Registry) -> None:
    registry.password = "p@ss"  # noqa: S105 - of this test
    registry.knows(7, FIRST)
    with pytest.raises(WinnowError, match=r"refused.*401.*A user and a password"):
        SchemaRegistry(registry.url).schema(7)
    url = registry.url.replace("://", "://user:p%40ss@")
    assert SchemaRegistry(url).schema(7) == [FIRST]
    with pytest.raises(WinnowError) as told:
        SchemaRegistry(url).schema(8)
    assert "p%40ss" not in str(told.value)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"schemaType": "PROTOBUF", "schema": "message M {}"}, "not an Avro schema.*PROTOBUF"),
        ({"id": 7}, "can't be understood"),
        ({"schema": "not JSON"}, "can't be understood"),
        ([], "no JSON object"),
        (b"<html>", "no JSON object"),
        (None, "has no schemas/ids/7.*404"),
    ],
)
def test_bad_answer_of_a_registry_is_a_sentence(answer: Any, told: str, registry: Registry) -> None:
    if answer is not None:
        registry.answers["/schemas/ids/7"] = answer
    with pytest.raises(WinnowError, match=told):
        SchemaRegistry(registry.url).schema(7)


def test_registry_that_does_not_answer_is_named() -> None:
    with pytest.raises(WinnowError, match=r"does not answer.*127.0.0.1:9.*needs no registry"):
        SchemaRegistry("http://127.0.0.1:9").schema(7)


REFUSED: dict[str, tuple[Callable[[Path], winnow.Avro], str]] = {
    "file": (lambda at: winnow.Avro(schema=str(at / "none.avsc")), "can't read the file"),
    "json": (lambda _: winnow.Avro(schema="{"), "not an Avro schema"),
    "name": (lambda _: winnow.Avro(schema='{"type": "recrd"}'), "not an Avro schema"),
    "union": (lambda _: winnow.Avro(schema='["int", "string"]'), "a union of int, string"),
    "recursive": (
        lambda _: winnow.Avro(
            schema='{"type": "record", "name": "N", "fields": '
            '[{"name": "next", "type": ["null", "N"]}]}'
        ),
        "the recursive record N",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_schema_that_cant_be_used_is_refused(
    case: str, spark: SparkSession, tmp_path: Path
) -> None:
    path = write(tmp_path / "kafka", ORDERS[:1])
    make, told = REFUSED[case]
    with pytest.raises(UsageError, match=told):
        winnow.read(spark, path, value=make(tmp_path))


def test_missing_fastavro_is_a_sentence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("winnow.reading.avro_values.find_spec", lambda _: None)
    path = write(tmp_path / "kafka", ORDERS[:1])
    with pytest.raises(WinnowError, match=r"not installed.*fastavro.*pip install"):
        winnow.read(spark, path, value=winnow.Avro(schema='"string"'))
