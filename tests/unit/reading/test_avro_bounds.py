"""A small schema or a small datum of Avro becomes little in memory, and is read in little time."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from winnow.errors import UsageError
from winnow.reading import avro_bounds
from winnow.reading.avro_bounds import parse_schema_text
from winnow.reading.avro_types import load_schema

pytest.importorskip("fastavro", reason="the extra `avro` is not installed")

from winnow.reading import avro_values
from winnow.reading.avro_values import _parsed, datum_reader

INT = b"\x02"
EMPTY = {"type": "record", "name": "E", "fields": []}
NOTHING = {"type": "fixed", "name": "F", "size": 0}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
WITHIN_ITSELF = {"type": "record", "name": "L", "fields": [{"name": "l", "type": "L"}]}
WANTED = {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]}
"""An honest reader's schema: it skips the field `a` of the writer's."""


def writer(a: Any) -> dict[str, Any]:
    return WANTED | {"fields": [{"name": "a", "type": a}, {"name": "b", "type": "int"}]}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def number(value: int) -> bytes:
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def block(count: int, items: bytes = b"") -> bytes:
    return number(count) + items + b"\0"


def doubling(levels: int, at_the_end: Any) -> dict[str, Any]:
    """Return a record of 2^levels fields: each level names the one before it twice."""
    fields = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": at_the_end}}]
    for level in range(1, levels + 1):
        twice = [{"name": name, "type": f"R{level - 1}"} for name in "xy"]
        of = {"type": "record", "name": f"R{level}", "fields": twice}
        fields.append({"name": f"f{level}", "type": of})
    return {"type": "record", "name": "D", "fields": fields}


def nested(levels: int, innermost: Any = "int") -> Any:
    for level in range(levels):
        fields = [{"name": "x", "type": innermost}]
        innermost = {"type": "record", "name": f"N{level}", "fields": fields}
    return innermost


def read(schema: Any, data: bytes, *, wanted: Any = None) -> tuple[Any, str | None]:
    given = json.dumps([schema])
    begin = time.process_time()
    try:
        reader = datum_reader(((-1, given),), given if wanted is None else json.dumps([wanted]))
        return reader(data)
    finally:
        assert time.process_time() - begin < 5


@pytest.mark.parametrize("items", ["null", EMPTY, NOTHING])
@pytest.mark.parametrize("wanted", [None, WANTED])
def test_few_bytes_are_not_many_items(items: Any, wanted: Any) -> None:
    for count in (50_000_000, 2**61, -(2**61)):
        size = b"" if count > 0 else b"\0"
        for of, datum in (
            (array(items), number(count) + size + b"\0"),
            (array(array(items)), block(1, number(count) + size + b"\0")),
            ({"type": "map", "values": array(items)}, block(1, b"\0" + number(count) + size)),
        ):
            found, problem = read(writer(of), datum + INT, wanted=wanted)
            assert found is None
            assert problem is not None
            assert problem.startswith("it can't be read: it has more than 10")


@pytest.mark.parametrize("items", ["null", EMPTY, NOTHING])
def test_some_items_without_bytes_are_read(items: Any) -> None:
    found, problem = read(array(items), block(3))
    assert problem is None
    assert len(found) == 3


@pytest.mark.parametrize(
    ("of", "datum"),
    [
        (LIST, INT * 1_000_000 + b"\0"),
        (WITHIN_ITSELF, b""),
        (array(nested(20)), block(100_000, INT * 100_000)),
        (array(doubling(8, [])), block(100_000)),
        (doubling(30, []), b""),
        ({"type": "map", "values": doubling(8, [])}, block(2_000, b"\0" * 2_000)),
    ],
    ids=["a deep list", "itself", "wrapped items", "wide items", "doubling", "wide values"],
)
def test_hostile_schema_of_a_writer_does_not_end_the_process(of: Any, datum: bytes) -> None:
    found, problem = read(writer(of), datum + INT, wanted=WANTED)
    assert found is None
    assert problem is not None
    assert problem.startswith("it can't be read: it has more than ")


def test_reader_with_many_fields_gets_few_items_of_a_writer_with_one() -> None:
    """Each byte of the writer's items would become a record of a thousand fields."""
    more = [{"name": f"f{n}", "type": ["null", "int"], "default": None} for n in range(1_000)]
    of_writer = {"type": "record", "name": "W", "fields": [{"name": "x", "type": "int"}]}
    wide = of_writer | {"fields": [*of_writer["fields"], *more]}  # type: ignore[misc]
    found, problem = read(array(of_writer), block(20, INT * 20), wanted=array(wide))
    assert problem is None
    assert [len(item) for item in found] == [1_001] * 20
    found, problem = read(array(of_writer), block(20_000, INT * 20_000), wanted=array(wide))
    assert found is None
    assert problem == "it can't be read: it has more than 2000000 values"


def test_list_of_some_items_is_skipped() -> None:
    assert read(writer(LIST), INT * 10 + b"\0" + INT, wanted=WANTED) == ({"b": 1}, None)


@pytest.mark.parametrize("of", [nested(70), doubling(70, [])], ids=["nested", "by name"])
def test_schema_of_a_writer_that_is_too_deep_is_a_problem_of_its_data(of: Any) -> None:
    found, problem = read(writer(of), INT, wanted=WANTED)
    assert found is None
    assert problem is not None
    assert "can't be used: not an Avro schema: expected at most 64 types inside each" in problem


def test_schema_of_a_writer_that_is_none_is_a_problem_of_its_data() -> None:
    wanted = json.dumps([WANTED])
    bad = json.dumps([{"type": "recrd", "name": "R"}])
    read = datum_reader(((1, wanted), (2, bad)), wanted)
    assert read(b"\0\0\0\0\1" + INT) == ({"b": 1}, None)
    found, problem = read(b"\0\0\0\0\2" + INT)
    assert found is None
    assert problem is not None
    assert problem.startswith("the schema with id 2 can't be used: not an Avro schema")


def test_large_datum_is_counted_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found, problem = read(array("int"), block(300_000, INT * 300_000))
    assert problem is None
    assert len(found) == 300_000
    monkeypatch.setattr(avro_bounds, "MOST_VALUES", 300_000)
    found, problem = read(array("int"), block(300_000, INT * 300_000))
    assert (found, problem) == (None, "it can't be read: it has more than 300000 values")


@pytest.mark.parametrize(
    "data",
    [b"", number(5), block(5, INT), number(-3) + number(99) + INT, b"\xff" * 20, block(-(2**62))],
)
def test_cut_datum_is_none_of_its_schema(data: bytes) -> None:
    for schema, wanted in ((array("int"), None), (writer(array(LIST)), WANTED)):
        found, problem = read(schema, data, wanted=wanted)
        assert found is None
        assert problem is not None
        assert problem.startswith("it is not a datum of its schema: ")


def test_type_in_spark_has_a_limit() -> None:
    assert _parsed([doubling(8, [{"name": "x", "type": "int"}])])
    with pytest.raises(UsageError, match=r"at most 10000 types in all.*Read the column as 'bytes'"):
        _parsed([doubling(40, [{"name": "x", "type": "int"}])])
    for deep in (nested(70), doubling(70, [])):
        with pytest.raises(UsageError, match=r"at most (64|10000) types"):
            _parsed([deep])


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, '{"type":' * 300 + "5" + "}" * 300]
)
def test_deep_json_is_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match=r"at most 256 objects or lists inside each other"):
        load_schema(text, what="schema")
    with pytest.raises(UsageError, match=r"at most 1048576 characters"):
        parse_schema_text(" " * (2**20 + 1), where="schema")


@pytest.mark.parametrize(("precision", "scale"), [(39, 0), (0, 5), (5, 7), (10**9, 0)])
def test_decimal_that_spark_lacks_is_refused(precision: int, scale: int) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    with pytest.raises(UsageError):
        _parsed([decimal])


@pytest.mark.parametrize(
    ("kind", "default"),
    [("string", "x" * 20_000), (array("int"), [0] * 20_000), (["null", "int"], None)],
)
def test_defaults_of_a_reader_have_a_limit(kind: Any, default: Any) -> None:
    """A datum without a byte gets all of them."""
    fields = [{"name": f"f{n}", "type": kind, "default": default} for n in range(10)]
    wanted = {"type": "record", "name": "R", "fields": fields}
    if default is None:
        assert read({"type": "record", "name": "R", "fields": []}, b"", wanted=wanted)[1] is None
        return
    for refused in (lambda: _parsed([wanted]), lambda: read("null", b"", wanted=wanted)):
        with pytest.raises(UsageError, match="defaults of at most 16384 characters"):
            refused()


def test_few_bytes_get_few_defaults() -> None:
    """Each of the 60 records in 5 bytes would get 10,000 characters."""
    empty = {"type": "record", "name": "R", "fields": []}
    field = {"name": "s", "type": "string", "default": "x" * 10_000}
    wanted = {"type": "record", "name": "R", "fields": [field]}
    found, problem = read(array(empty), block(10), wanted=array(wanted))
    assert problem is None
    assert [len(item["s"]) for item in found] == [10_000] * 10
    found, problem = read(array(empty), block(60), wanted=array(wanted))
    assert (found, problem) == (None, "it can't be read: it has more than 64512 values")


def test_many_symbols_do_not_cost_more_than_few() -> None:
    """Each value was looked for among all symbols: 30 s for these 150 KB."""
    enum = {"type": "enum", "name": "E", "symbols": [f"s{n}" for n in range(9000)]}
    data = block(70_000, number(8999) * 70_000)
    begun = time.process_time()
    found, problem = read(array(enum), data)
    assert (problem, set(found)) == (None, {"s8999"})
    assert time.process_time() - begun < 3


def test_a_union_has_few_types() -> None:
    union = [{"type": "fixed", "name": f"F{n}", "size": n} for n in range(300)]
    expected = "a union of at most 256 types"
    with pytest.raises(UsageError, match=expected):
        _parsed([union])
    problem = read(union, b"\0", wanted="bytes")[1]
    assert problem is not None
    assert expected in problem


def test_values_of_one_arrow_batch_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data of a few bytes get default values of many: the sum counts, not each datum."""
    monkeypatch.setattr(avro_values, "_MOST_BATCH_BYTES", 100_000)
    field = {"name": "s", "type": "string", "default": "x" * 10_000}
    empty, wanted = ({"type": "record", "name": "R", "fields": each} for each in ([], [field]))
    kind = StructType().add("datum", StructType().add("s", "string")).add("problem", "string")
    writers = ((1, json.dumps([empty])),)
    decode = avro_values._decoder(writers, json.dumps([wanted]), kind)
    data = pa.array([b"\0\0\0\0\1", None] * 1_000, pa.binary())
    found = decode(data).to_pylist()
    assert decode(data).nbytes < 8_000_000
    read = [row for row in found if row["datum"] is not None]
    assert 10 <= len(read) < 600
    assert all(row["problem"] is None for row in found[: 2 * len(read)])
    assert "all that one Arrow batch may" in found[-2]["problem"]
    assert found[-1] == {"datum": None, "problem": None}


@pytest.mark.parametrize("byte", [b"\x7f", b"\x80"])
def test_decimal_of_more_digits_than_spark_has_costs_little(byte: bytes) -> None:
    """The time to convert it grew with the square of its size: 90 s for a megabyte."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
    begun = time.process_time()
    found, problem = read(decimal, number(1_000_000) + byte * 1_000_000)
    assert (found, problem) == (None, "it can't be read: a decimal has more than 16 bytes")
    assert time.process_time() - begun < 1
    for value in (10**38 - 1, -(10**38) + 1, 0, -1):
        data = value.to_bytes(2_000, "big", signed=True)
        found, problem = read(decimal, number(2_000) + data)
        assert (problem, int(found)) == (None, value)
