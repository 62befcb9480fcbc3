"""Read a JSON file of Winnow as the frozen value that it was written from.

The type of a field says what is accepted there. A field with a default may be missing. One that
takes no part in comparisons is never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from winnow.storage.own_json import MAX_LONG, JsonValue

Natural = Annotated[int, 0, MAX_LONG]
"""An integer in this range. A plain `int` may be negative, too."""
FromMinusOne = Annotated[int, -1, MAX_LONG]

_T = TypeVar("_T")
_SHORT = 1024
"""Characters of a text that are read without a closer look."""


def stored(
    value: JsonValue, kind: type[_T], *, beside: Collection[str] | None = (), **known: object
) -> _T:
    """Return a value as a dataclass. Raises CorruptLogError.

    `beside`: other fields that the object may have; None: any, also in the objects inside. `known`:
    fields of the dataclass that are not in the file.
    """
    if not known:
        try:
            return cast("_T", _sound(value.raw, kind, beside))
        except _UnsoundError:
            pass  # below, with an error that names the value
    needed, types = _fields_of(kind)  # type: ignore[arg-type]
    names = types.keys() - known.keys()
    found = value.fields(needed - known.keys(), None if beside is None else {*names, *beside})
    inside = None if beside is None else ()
    return kind(**known, **{n: _read(found[n], types[n], inside) for n in names & found.keys()})


def plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON has
    """Return a value as JSON has it, so that `stored` reads it again."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _fields_of(type(value))[1]}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return value


class _UnsoundError(Exception):
    """A value that `stored` refuses, without saying why."""


def _sound(raw: object, kind: Any, beside: Collection[str] | None) -> object:  # noqa: ANN401
    if type(raw) is not dict:
        raise _UnsoundError
    if beside:
        raw = {name: item for name, item in raw.items() if name not in beside}
    return _reader(kind, strict=beside is not None)(raw)


@cache
def _reader(kind: Any, *, strict: bool) -> Callable[[Any], Any]:  # noqa: ANN401, C901, PLR0911
    """Return a function that does as `_read` for sound values, many times faster."""
    origin, inner = get_origin(kind), get_args(kind)
    if type(None) in inner:
        item = _reader(inner[0], strict=strict)
        return lambda raw: None if raw is None else item(raw)
    if origin is Annotated and inner[0] is float:
        _, least, most = inner
        return _checked(lambda raw: type(raw) in {int, float} and least <= raw <= most)
    if origin is Annotated or kind is int:
        _, least, most = inner or (int, -MAX_LONG, MAX_LONG)
        return _checked(lambda raw: type(raw) is int and least <= raw <= most)
    if origin is tuple and inner[-1] is Ellipsis:
        item, is_list = _reader(inner[0], strict=strict), _checked(lambda raw: type(raw) is list)
        return lambda raw: tuple(map(item, is_list(raw)))
    if origin is tuple:
        items = [_reader(of, strict=strict) for of in inner]
        fits = _checked(lambda raw: type(raw) is list and len(raw) == len(items))
        return lambda raw: tuple(of(part) for of, part in zip(items, fits(raw), strict=True))
    if origin is Mapping:
        item, is_dict = _reader(inner[1], strict=strict), _checked(lambda raw: type(raw) is dict)
        return lambda raw: {name: item(part) for name, part in is_dict(raw).items()}
    if kind is bool:
        return _checked(lambda raw: type(raw) is bool)
    if kind is str:
        return _checked(lambda raw: type(raw) is str and raw.isascii() and 0 < len(raw) <= _SHORT)
    if issubclass(kind, StrEnum):
        fits = _checked(lambda raw: type(raw) is str and raw in {*kind})
        return lambda raw: kind(fits(raw))
    needed, types = _fields_of(kind)
    readers = {name: _reader(of, strict=strict) for name, of in types.items()}

    def read(raw: Any) -> Any:  # noqa: ANN401
        if type(raw) is not dict or not needed <= raw.keys():
            raise _UnsoundError
        if strict and not raw.keys() <= readers.keys():
            raise _UnsoundError
        return kind(**{name: readers[name](raw[name]) for name in raw if name in readers})

    return read


def _checked(fits: Callable[[Any], bool]) -> Callable[[Any], Any]:
    def read(raw: Any) -> Any:  # noqa: ANN401
        if not fits(raw):
            raise _UnsoundError
        return raw

    return read


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
