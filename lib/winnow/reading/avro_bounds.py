"""Bounds for Avro: of schemas, and of what a datum becomes in memory.

A schema of 2 KB can describe 2^64 fields, and a datum of 5 bytes can be a list of any length: a
null, a `fixed` of no bytes and a record of those take no bytes. A list may have billions of them.
fastavro decodes all of it, and ends the process at some 10,000 values inside each other.

So a schema has a maximum depth and size. Of most schemas it is certain that a small datum becomes
few values. Any other datum is walked through first, in Python and without keeping anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from winnow.errors import UsageError

Schema = Any
"""Parsed JSON: a name, a list for a union, or a dict."""

MOST_SCHEMA_CHARACTERS = 2**20
MOST_DEPTH = 64
"""Types, or values, inside each other."""
MOST_TYPES = 10_000
"""Of a schema in which each name is replaced by what it stands for."""
MOST_VALUES = 2_000_000
"""Of a datum. A value takes up to 200 bytes in Python."""
VALUES_PER_BYTE, MORE_VALUES = 4, 1_000
_MOST_DECIMAL = 16
"""Bytes of a decimal without those that only repeat its sign: 38 digits, as in Spark."""
_WIDER = 64
"""Times as many, where a reader's record has many fields that the writer's does not have."""
MOST_BRANCHES = 256
"""Of a union: fastavro tries a reader's branches one after the other, for each value."""
MOST_DEFAULT_CHARACTERS = 16 * 2**10
"""Of all defaults of a reader's schema. A datum of few bytes can get all of them."""
_DEFAULT_RATIO = 2
"""Characters of a default that count as a value."""
LARGE_BYTES = 256 * 2**10
"""A datum of more bytes is always walked through."""
_MOST_JSON_DEPTH = 4 * MOST_DEPTH
_MOST_NUMBER_BYTES = 10
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_PRIMITIVE = frozenset((*_SIZES, "int", "long", "bytes", "string"))
_ITEMS = {"array": "items", "map": "values"}


def parse_schema_text(text: str, *, where: str) -> Schema:
    """Return the JSON of a schema. Raises UsageError."""
    if len(text) > MOST_SCHEMA_CHARACTERS:
        expected = f"at most {MOST_SCHEMA_CHARACTERS} characters"
        raise refused_schema(expected, f"{len(text)}", where)
    try:
        schema = json.loads(text)
    except RecursionError:
        schema, deep = None, True
    except ValueError as error:
        raise refused_schema("JSON", str(error), where) from error
    else:
        deep = _json_depth_exceeds(schema, _MOST_JSON_DEPTH)
    if deep:
        expected = f"at most {_MOST_JSON_DEPTH} objects or lists inside each other"
        raise refused_schema(expected, "more", where)
    return schema


def refused_schema(expected: str, found: str, where: str | None = None) -> UsageError:
    return UsageError("not an Avro schema", expected=expected, found=found, where=where)


def _json_depth_exceeds(value: object, most: int) -> bool:
    level = [value]
    for _ in range(most + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


class _Symbols(list[str]):
    """The symbols of an enum. fastavro looks for each value in them."""

    def __init__(self, symbols: Iterable[str]) -> None:
        super().__init__(symbols)
        self._all = frozenset(self)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._all


def for_reading(names: Mapping[str, Schema]) -> None:
    """Prepare the named schemas of a reader, as fastavro has parsed them: symbols are found in
    constant time. Raises UsageError for too many characters of defaults.
    """
    total = 0
    for schema in names.values():
        if schema["type"] == "enum":
            schema["symbols"] = _Symbols(schema["symbols"])
        total += _default_characters(schema)
    if total > MOST_DEFAULT_CHARACTERS:
        raise refused_schema(
            f"defaults of at most {MOST_DEFAULT_CHARACTERS} characters", str(total)
        )


def _default_characters(schema: Schema) -> int:
    """Return how many characters the defaults of the fields of a record have in JSON."""
    fields = schema.get("fields", ())
    return sum(len(json.dumps(field["default"])) for field in fields if "default" in field)


class TooMuchError(ValueError):
    """A datum that becomes more than a reader may keep."""


class DatumBounds:
    """Says of the data of one writer's schema whether they may be decoded."""

    def __init__(
        self,
        schema: Schema,
        names: Mapping[str, Schema],
        reader: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`schema`: as fastavro has parsed it. `names`: the named schemas by their full names.
        `reader`: `records` of the reader's schema, whose fields may have defaults.

        Raises UsageError for more than MOST_DEPTH types inside each other.
        """
        self._schema, self._names = schema, names
        self._known: dict[str, _Least] = {}
        self._open: set[str] = set()
        self._walks_all = self._is_wide = False
        self._reader = reader
        self.records: dict[str, int] = {}
        """How many values each record has at least, by its last name and those of its aliases."""
        self._compare(self._measure(schema, 0), more=MORE_VALUES)

    def check(self, data: bytes, start: int) -> None:
        """Raise TooMuchError if the datum may not be decoded, and EOFError, IndexError or
        ValueError if it is none.
        """
        size = len(data) - start
        if self._walks_all or size > LARGE_BYTES:
            times = _WIDER if self._is_wide else 1
            most = min(MOST_VALUES, times * (VALUES_PER_BYTE * size + MORE_VALUES))
            _Walk(data, self._names, self._reader, most).pass_over(self._schema, start, 0)

    def _measure(self, schema: Schema, depth: int) -> _Least:
        if depth > MOST_DEPTH:
            raise too_deep()
        if isinstance(schema, str) and schema not in _PRIMITIVE:
            return self._measure_named(schema, depth)
        schema = _unwrapped(schema)
        kind, inner = _kind_of(schema)
        if kind == "null" or (kind == "fixed" and not schema["size"]):
            return _Least(0, 1, 0)
        if kind == "record":
            parts = [self._measure(one, depth + 1) for one in inner]
            deepest = 1 + max((part.depth for part in parts), default=0)
            values = 1 + sum(part.values for part in parts)
            values += _default_characters(schema) // _DEFAULT_RATIO
            size = sum(part.size for part in parts)
            for name in (schema["name"], *schema.get("aliases", ())):
                last = name.rpartition(".")[2]
                self.records[last] = max(values, self.records.get(last, 0))
            if self._reader.get(_last_name(schema), 0) > max(values, VALUES_PER_BYTE**2 * size):
                self._walks_all = self._is_wide = True
            return _Least(deepest, values, size)
        deepest = 0
        for one in inner:
            part = self._measure(one, depth + 1)
            deepest = max(deepest, 1 + part.depth)
            # A byte for the branch of a union, or the length of a key, precedes it.
            self._compare(part, size=0 if kind == "array" else 1)
        return _Least(deepest, 1, 1)

    def _measure_named(self, name: str, depth: int) -> _Least:
        if name in self._open:  # it may contain itself any number of times
            self._walks_all = True
            return _Least(0, 0, 0)
        if name not in self._known:
            self._open.add(name)
            self._known[name] = self._measure(self._names[name], depth)
            self._open.remove(name)
        found = self._known[name]
        if depth + found.depth > MOST_DEPTH:
            raise too_deep()
        return found

    def _compare(self, least: _Least, *, size: int = 0, more: int = 0) -> None:
        """Walk through all data unless a value of this type has few values for its bytes."""
        if least.values > VALUES_PER_BYTE * (size + least.size) + more:
            self._walks_all = True


@dataclass(frozen=True, slots=True)
class _Least:
    """Of a type: types inside each other, and how many values and bytes it has at least. Those of
    items and branches do not count.
    """

    depth: int
    values: int
    size: int


def _unwrapped(schema: Schema) -> Schema:
    """Return the innermost schema of nested `type` attributes: {"type": {"type": ...}}."""
    while isinstance(schema, Mapping) and isinstance(schema["type"], Mapping | list):
        schema = schema["type"]
    return schema


def _kind_of(schema: Schema) -> tuple[str, list[Schema]]:
    """Return the kind of a type, and the types right inside it."""
    if isinstance(schema, list):
        if len(schema) > MOST_BRANCHES:
            raise refused_schema(f"a union of at most {MOST_BRANCHES} types", str(len(schema)))
        return "union", schema
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    if kind in ("record", "error"):
        return "record", [field["type"] for field in schema["fields"]]
    if kind in _ITEMS:
        return kind, [schema[_ITEMS[kind]]]
    if kind not in _PRIMITIVE and kind not in ("enum", "fixed"):
        raise refused_schema("a type of Avro", repr(kind)[:80])
    return kind, []


def too_deep() -> UsageError:
    return refused_schema(f"at most {MOST_DEPTH} types inside each other", "more")


def _last_name(record: Mapping[str, Any]) -> str:
    """Return the name of a record without its namespace. A reader's record has the same."""
    name: str = record["name"]
    return name.rpartition(".")[2]


class _Walk:
    """Passes over a datum as fastavro does, and counts its values, with those that a reader adds to
    a record.
    """

    def __init__(
        self, data: bytes, names: Mapping[str, Schema], reader: Mapping[str, int], most: int
    ) -> None:
        self._data, self._names, self._most, self._reader = data, names, most, reader
        self._left = most

    def pass_over(self, schema: Schema, at: int, depth: int) -> int:
        """Return where a value ends that begins at byte `at`."""
        self._left -= 1
        if self._left < 0:
            raise TooMuchError(f"it has more than {self._most} values")
        if depth > MOST_DEPTH:
            raise TooMuchError(f"it has more than {MOST_DEPTH} values inside each other")
        if isinstance(schema, str) and schema not in _PRIMITIVE:
            schema = self._names[schema]
        schema = _unwrapped(schema)
        kind, inner = _kind_of(schema)
        if kind == "record":
            self._left -= self._reader.get(_last_name(schema), 0)
            for one in inner:
                at = self.pass_over(one, at, depth + 1)
            return at
        if kind == "union":
            branch, at = self._number(at)
            if not 0 <= branch < len(inner):
                raise IndexError(branch)
            return self.pass_over(inner[branch], at, depth + 1)
        if kind in _ITEMS:
            return self._blocks(inner[0], at, depth + 1, keys=kind == "map")
        if kind in ("int", "long", "enum"):
            return self._number(at)[1]
        if kind in ("bytes", "string"):
            size, at = self._number(at)
        else:
            size = schema["size"] if kind == "fixed" else _SIZES[kind]
        return self._end(at, size)

    def _blocks(self, items: Schema, at: int, depth: int, *, keys: bool) -> int:
        while True:
            count, at = self._number(at)
            if count == 0:
                return at
            if count < 0:  # the bytes of the block follow, for readers that skip it
                _, at = self._number(at)
            for _ in range(abs(count)):
                if keys:
                    size, at = self._number(at)
                    at = self._end(at, size)
                at = self.pass_over(items, at, depth)

    def _end(self, at: int, size: int) -> int:
        if not 0 <= size <= len(self._data) - at:
            raise EOFError
        return at + size

    def _number(self, at: int) -> tuple[int, int]:
        value = 0
        for i in range(_MOST_NUMBER_BYTES):
            if at + i >= len(self._data):
                raise EOFError
            byte = self._data[at + i]
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                value &= 2**64 - 1
                return (value >> 1) ^ -(value & 1), at + i + 1
        raise ValueError(f"a number of more than {_MOST_NUMBER_BYTES} bytes")


@cache
def bound_decimals() -> None:
    """Let fastavro refuse decimals that Spark can't have: the time to convert the digits grows with
    the square of their number.
    """
    from fastavro.read import LOGICAL_READERS  # noqa: PLC0415 - an extra

    for name in ("bytes-decimal", "fixed-decimal"):
        LOGICAL_READERS[name] = _bounded(LOGICAL_READERS[name])


def _bounded(read: Callable[..., Any]) -> Callable[..., Any]:
    def decimal(data: bytes, *schemas: object) -> Any:  # noqa: ANN401 - fastavro's
        sign = b"\xff" if data[:1] >= b"\x80" else b"\0"
        if len(data.lstrip(sign)) > _MOST_DECIMAL:
            raise TooMuchError(f"a decimal has more than {_MOST_DECIMAL} bytes")
        return read(data, *schemas)

    return decimal
