"""Read a JSON file of Winnow as the frozen value that it was written from.

The type of a field says what is accepted there. A field with a default may be missing. One that
takes no part in comparisons is never stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from winnow.storage.own_json import MAX_LONG, JsonValue

Natural = Annotated[int, 0, MAX_LONG]
"""An integer in this range. A plain `int` may be negative, too."""
FromMinusOne = Annotated[int, -1, MAX_LONG]

_T = TypeVar("_T")


def stored(
    value: JsonValue, kind: type[_T], *, beside: Collection[str] | None = (), **known: object
) -> _T:
    """Return a value as a dataclass. Raises CorruptLogError.

    `beside`: other fields that the object may have; None: any, also in the objects inside. `known`:
    fields of the dataclass that are not in the file.
    """
    needed, types = _fields_of(kind)  # type: ignore[arg-type]
    names = types.keys() - known.keys()
    found = value.fields(needed - known.keys(), None if beside is None else {*names, *beside})
    inside = None if beside is None else ()
    return kind(**known, **{n: _read(found[n], types[n], inside) for n in names & found.keys()})


def _read(value: JsonValue, kind: Any, beside: Collection[str] | None) -> object:  # noqa: ANN401, PLR0911 - any type, and one return for each
    origin, inner = get_origin(kind), get_args(kind)
    if type(None) in inner:
        return None if value.raw is None else _read(value, inner[0], beside)
    if origin is Annotated and inner[0] is float:
        return value.number(least=inner[1], most=inner[2])
    if origin is Annotated or kind is int:
        _, least, most = inner or (int, -MAX_LONG, MAX_LONG)
        return value.integer(least=least, most=most)
    if origin is tuple:
        parts = value.items(length=None if inner[-1] is Ellipsis else len(inner))
        kinds = inner[:1] * len(parts) if inner[-1] is Ellipsis else inner
        return tuple(_read(part, of, beside) for part, of in zip(parts, kinds, strict=True))
    if origin is Mapping:
        return {
            name: _read(item, inner[1], beside) for name, item in value.fields((), None).items()
        }
    if kind in {bool, str}:
        return value.boolean() if kind is bool else value.text()
    if issubclass(kind, StrEnum):
        return kind(value.one_of(*kind))
    return stored(value, kind, beside=beside)


@cache
def _fields_of(kind: type[Any]) -> tuple[frozenset[str], Mapping[str, Any]]:
    """Return the names of the fields that must be there, and the types of all by name."""
    types = get_type_hints(kind, include_extras=True)
    every = [field for field in fields(kind) if field.compare]
    needed = (f.name for f in every if f.default is MISSING and f.default_factory is MISSING)
    return frozenset(needed), {field.name: types[field.name] for field in every}
