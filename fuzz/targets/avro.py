"""Avro: schemas of a writer with their data, and the answers of a schema registry."""

from __future__ import annotations

import json
import struct
from io import BytesIO
from typing import Any

from fuzz.targets.base import Target, require
from winnow.errors import CorruptLogError, UsageError, WinnowError
from winnow.reading.avro_bounds import MORE_VALUES, VALUES_PER_BYTE, parse_schema_text
from winnow.reading.avro_types import plain
from winnow.reading.avro_values import datum_reader
from winnow.reading.registry import Registry

_WANTED = {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]}
_LIST = {"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}
_TWICE = {
    "type": "record",
    "name": "T",
    "fields": [
        {"name": "x", "type": {"type": "record", "name": "E", "fields": []}},
        {"name": "y", "type": "E"},
    ],
}
_SAMPLES: tuple[tuple[Any, Any], ...] = (
    ("int", 1),
    ({"type": "array", "items": "null"}, [None] * 3),
    ({"type": "array", "items": _TWICE}, [{"x": {}, "y": {}}] * 2),
    ({"type": "map", "values": {"type": "array", "items": "long"}}, {"k": [1, 2]}),
    (["null", {"type": "fixed", "name": "F", "size": 2}], b"ab"),
    (_LIST, {"n": {"n": None}}),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, None),
    ({"type": "enum", "name": "K", "symbols": ["A", "B"]}, "B"),
)
_SIZE = struct.Struct(">H")


def _datum(data: bytes) -> None:
    """Two bytes: the size of a schema, and whether it is also the reader's. The schema; a datum."""
    (head,) = _SIZE.unpack(data[:2].ljust(2, b"\0"))
    size = head >> 1
    writer = plain(parse_schema_text(data[2 : 2 + size].decode("utf-8", "replace"), where="fuzz"))
    own = json.dumps([writer])
    read = datum_reader(((-1, own),), own if head & 1 else json.dumps([_WANTED]))
    datum = data[2 + size :]
    found, problem = read(datum)
    if problem is not None:
        raise CorruptLogError(problem)
    most = VALUES_PER_BYTE * len(datum) + MORE_VALUES
    require(_values(found) <= most + size, "a small datum became many values")


def _values(found: object) -> int:
    inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return 1 + sum(map(_values, inner))


def _data() -> list[bytes]:
    import fastavro  # noqa: PLC0415 - an extra

    seeds = []
    for schema, value in _SAMPLES:
        for of, wanted in ((schema, 1), ({**_WANTED, "fields": _with(schema)}, 0)):
            out = BytesIO()
            if value is None:
                out.write(b"\4\1\2\2")
            else:
                datum = value if wanted else {"a": value, "b": 7}
                fastavro.schemaless_writer(out, fastavro.parse_schema(of), datum)
            text = json.dumps(of).encode()
            seeds.append(_SIZE.pack(len(text) << 1 | wanted) + text + out.getvalue())
    return seeds


def _with(schema: object) -> list[Any]:
    return [{"name": "a", "type": schema}, {"name": "b", "type": "int"}]


class _Answers(Registry):
    """A registry whose answers are in one JSON object, by path; "*": that to any other path."""

    def __init__(self, data: bytes) -> None:
        super().__init__("http://registry")
        self.asked: list[str] = []
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        self.found = found if isinstance(found, dict) else {}
        self.data = data

    def _fetch(self, path: str) -> bytes:
        self.asked.append(path)
        require(len(self.asked) <= 1_100, "a schema leads to request after request")
        answer = self.found.get(path, self.found.get("*"))
        if answer is None:
            return self.data
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return text.encode("utf-8", "surrogatepass")


def _registry(data: bytes) -> None:
    answers = _Answers(data)
    answers.schema(1)
    require(len(set(answers.asked)) == len(answers.asked), "a schema was fetched twice")


def _answers() -> list[bytes]:
    schema = {"schema": json.dumps(_WANTED)}
    doubled = [{"subject": f"{side}", "version": 1} for side in "ab"]
    paths = {f"subjects/{side}/versions/1": schema for side in "ab"}
    own = [{"subject": "s", "version": 1}, {"subject": "s", "version": 2}]
    return [
        json.dumps(answer).encode()
        for answer in (
            schema,
            {"schemas/ids/1": {**schema, "references": doubled}, **paths},
            {"schemas/ids/1": {**schema, "references": own}, "*": {**schema, "references": own}},
            {"schemas/ids/1": {**schema, "references": own}, "*": schema},
            {"*": '{"schema": "[\\"null\\"]"}'},
        )
    ]


TARGETS = {
    "avro": Target(check=_datum, seeds=_data, weight=2, refusals=(CorruptLogError, UsageError)),
    "registry": Target(check=_registry, seeds=_answers, weight=2, refusals=(WinnowError,)),
}
