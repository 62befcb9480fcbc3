"""Reading Winnow's own JSON as frozen values: sound files are read fast, others refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import pytest

from winnow.errors import CorruptLogError
from winnow.logdir.stored import Natural, plain, stored
from winnow.storage.own_json import JsonValue


class Kind(StrEnum):
    A = "a"
    B = "b"


@dataclass(frozen=True)
class Inner:
    number: int
    kind: Kind
    note: str | None = None


@dataclass(frozen=True)
class Outer:
    least: Natural
    ratio: Annotated[float, 0.0, 1.0] | None
    several: tuple[Inner, ...]
    pair: tuple[str, Natural]
    by_name: Mapping[str, Inner]
    sure: bool
    path: str = "known"
    computed: int = field(default=0, compare=False)


VALUE = Outer(
    least=1,
    ratio=0.5,
    several=(Inner(-1, Kind.A), Inner(2, Kind.B, "ä" * 2000)),
    pair=("p", 3),
    by_name={"q": Inner(0, Kind.A)},
    sure=True,
)


def read(raw: object, **options: Any) -> Outer:
    return stored(JsonValue(raw, "file"), Outer, **options)


def as_json() -> Any:
    return json.loads(json.dumps(plain(VALUE)))


def changed(path: str, value: object) -> object:
    """The stored value with one part replaced, as in `several.1.number`; without it if Ellipsis."""
    raw = as_json()
    *above, name = path.split(".")
    inside = raw
    for part in above:
        inside = inside[int(part) if isinstance(inside, list) else part]
    if value is ...:
        del inside[name]
    elif isinstance(inside, list):
        inside[int(name)] = value
    else:
        inside[name] = value
    return raw


def test_value_is_read_as_it_was_stored() -> None:
    assert read(as_json()) == VALUE


@pytest.mark.parametrize(
    ("path", "value", "name", "expected"),
    [
        ("least", -1, "least", "an integer from 0"),
        ("least", True, "least", "an integer from 0"),
        ("least", 1.0, "least", "an integer from 0"),
        ("least", 2**63, "least", "an integer from 0"),
        ("ratio", 1.5, "ratio", "a number from 0.0 to 1.0"),
        ("ratio", "0.5", "ratio", "a number from 0.0 to 1.0"),
        ("several", {}, "several", "a list"),
        ("several.1.number", None, r"several\[1\]\.number", "an integer"),
        ("several.1.kind", "c", r"several\[1\]\.kind", "a or b"),
        ("several.1.kind", [], r"several\[1\]\.kind", "a or b"),
        ("several.1.note", "", r"several\[1\]\.note", "a text of 1 to"),
        ("several.1.note", "\ud800", r"several\[1\]\.note", "a text of 1 to"),
        ("several.0.kind", ..., r"several\[0\]", "a field kind"),
        ("several.0.more", 1, r"several\[0\]", "only fields that this version writes"),
        ("pair", ["p"], "pair", "a list of 2"),
        ("pair.1", "3", r"pair\[1\]", "an integer from 0"),
        ("by_name", [], "by_name", "an object"),
        ("by_name.q.number", "1", r"by_name\.q\.number", "an integer"),
        ("sure", 1, "sure", "true or false"),
        ("computed", 1, "", "only fields that this version writes"),
    ],
)
def test_other_value_is_refused_by_its_name(
    path: str, value: object, name: str, expected: str
) -> None:
    found = f" \\({name}\\)" if name else ""
    with pytest.raises(CorruptLogError, match=f"can't be understood{found}(.|\n)*{expected}"):
        read(changed(path, value))


def test_fields_beside_it_are_left_out_only_if_named() -> None:
    raw = changed("version", 1)
    assert read(raw, beside={"version"}) == read(raw, beside=None) == VALUE
    assert read(changed("several.0.more", 1), beside=None) == VALUE
    for path in ("more", "several.0.version"):
        with pytest.raises(CorruptLogError, match="only fields that this version writes"):
            read(changed(path, 1), beside={"version"})


def test_known_field_is_not_in_the_file() -> None:
    raw = changed("path", ...)
    assert read(raw, path="here").path == "here"
    with pytest.raises(CorruptLogError, match='a field "path"'):
        read(changed("path", "there"), path="here")
