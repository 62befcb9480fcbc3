"""Read a JSON file of Winnow as the frozen value that it was written from.

The type of a field says what is accepted there. A field with a default may be missing. One that
takes no part in comparisons is never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from itertools import repeat
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from winnow.errors import CorruptLogError
from winnow.storage.own_json import MAX_LONG, JsonValue

Natural = Annotated[int, 0, MAX_LONG]
"""An integer in this range. A plain `int` may be negative, too."""
FromMinusOne = Annotated[int, -1, MAX_LONG]

_T = TypeVar("_T")
_SIMPLE = {int, str, type(None)}
"""Types of most values."""
_SHORT = 1024
"""Characters of a text that are read without a closer look."""
_Reader = Callable[[Any], Any]
"""Returns what JSON has as the value of a field. Raises _RefusedError."""
_NO_NAMES: frozenset[str] = frozenset()


def stored(
    value: JsonValue, kind: type[_T], *, beside: Collection[str] | None = (), **known: object
) -> _T:
    """Return a value as a dataclass. Raises CorruptLogError.

    `beside`: other fields that the object may have; None: any, also in the objects inside. `known`:
    fields of the dataclass that are not in the file.
    """
    others = None if beside is None else frozenset(beside)
    try:
        read = _fields_reader(kind, others, frozenset(known))  # type: ignore[arg-type]
        return kind(**known, **read(value.raw))
    except _RefusedError as error:
        refused = error
    for step in reversed(refused.steps):
        value = value.items()[step] if isinstance(step, int) else value.fields((), None)[step]
    refused.check(value)
    raise refused


def plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON has
    """Return a value as JSON has it, so that `stored` reads it again."""
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        items: Iterable[tuple[str, Any]] = value.items()
    elif is_dataclass(kind):
        items = ((name, getattr(value, name)) for name in _fields_of(kind)[1])
    else:
        return value
    # Most are simple, and a call takes longer than a look.
    return {name: item if type(item) in _SIMPLE else plain(item) for name, item in items}


class _RefusedError(Exception):
    """A value that is refused."""

    def __init__(self, check: Callable[[JsonValue], object]) -> None:
        self.check = check
        """Raises the error that says why. Nothing is named before: most files are sound."""
        self.steps: list[Any] = []
        """Fields and places in lists that lead to the value, from the inside out."""


@cache
def _fields_reader(
    kind: type[Any], others: frozenset[str] | None, known: frozenset[str]
) -> _Reader:
    """Return a reader of the fields of a dataclass by name, without those that are known.

    `others`: fields that are left out; None: any, also in the objects inside.
    """
    all_needed, types = _fields_of(kind)  # type: ignore[arg-type]
    inside = None if others is None else _NO_NAMES
    readers = {name: _reader(of, inside) for name, of in types.items() if name not in known}
    needed = all_needed - known
    allowed = None if others is None else {*readers, *others}
    object_of = _checked(
        lambda value: value.fields(needed, allowed),
        lambda raw: (
            type(raw) is dict
            and needed <= raw.keys()
            and (allowed is None or raw.keys() <= allowed)
        ),
    )

    def read(raw: Any) -> dict[str, Any]:  # noqa: ANN401
        own = {name: item for name, item in object_of(raw).items() if name in readers}
        return _read_each(own.items(), map(readers.__getitem__, own))

    every, usual = readers.items(), readers.keys()

    def read_usual(raw: Any) -> dict[str, Any]:  # noqa: ANN401
        if type(raw) is dict and raw.keys() == usual:
            try:
                return {name: of(raw[name]) for name, of in every}
            except _RefusedError:
                return read(raw)  # it finds where
        return read(raw)

    return read_usual


@cache
def _reader(kind: Any, others: frozenset[str] | None) -> _Reader:  # noqa: ANN401, PLR0911 - any type, and one return for each
    """Return a reader of values of a type. `others`: see `_fields_reader`."""
    origin, inner = get_origin(kind), get_args(kind)
    if type(None) in inner:
        some = _reader(inner[0], others)
        return lambda raw: None if raw is None else some(raw)
    if origin is Annotated and inner[0] is float:
        _, lowest, highest = inner
        return _checked(
            lambda value: value.number(least=lowest, most=highest),
            lambda raw: type(raw) is float and lowest <= raw <= highest,
        )
    if origin is Annotated or kind is int:
        _, least, most = inner or (int, -MAX_LONG, MAX_LONG)
        return _integer(least, most)
    if origin is tuple:
        length = None if inner[-1] is Ellipsis else len(inner)
        list_of = _checked(
            lambda value: value.items(length=length),
            lambda raw: type(raw) is list and length in {None, len(raw)},
        )
        readers = [_reader(of, others) for of in inner if of is not Ellipsis]
        each = repeat(readers[0]) if length is None else readers
        return lambda raw: tuple(_read_each(enumerate(list_of(raw)), each).values())
    if origin is Mapping:
        mapping_of = _checked(lambda value: value.fields((), None), lambda raw: type(raw) is dict)
        item = repeat(_reader(inner[1], others))
        return lambda raw: _read_each(mapping_of(raw).items(), item)
    if kind is bool:
        return _checked(lambda value: value.boolean(), lambda raw: type(raw) is bool)
    if kind is str:
        return _checked(
            lambda value: value.text(),
            lambda raw: type(raw) is str and raw.isascii() and 0 < len(raw) <= _SHORT,
        )
    if issubclass(kind, StrEnum):
        members = {*kind}
        member = _checked(
            lambda value: value.one_of(*kind), lambda raw: type(raw) is str and raw in members
        )
        return lambda raw: kind(member(raw))
    fields_of = _fields_reader(kind, others, _NO_NAMES)
    return lambda raw: kind(**fields_of(raw))


def _integer(least: int, most: int) -> _Reader:
    """Do as `_checked`, in one call: most values are integers."""

    def read(raw: Any) -> int:  # noqa: ANN401
        if type(raw) is int and least <= raw <= most:
            return raw
        raise _RefusedError(lambda value: value.integer(least=least, most=most))

    return read


def _checked(check: Callable[[JsonValue], Any], fits: Callable[[Any], bool]) -> _Reader:
    """Return a reader of what `check` returns unchanged. `fits` is fast, and may be stricter."""

    def read(raw: Any) -> Any:  # noqa: ANN401
        if not fits(raw):
            try:
                check(JsonValue(raw, ""))
            except CorruptLogError:
                raise _RefusedError(check) from None
        return raw

    return read


def _read_each(parts: Iterable[tuple[Any, Any]], readers: Iterable[_Reader]) -> dict[Any, Any]:
    """Read each part. `parts`: where it is in an object or a list, and what JSON has there."""
    found: dict[Any, Any] = {}
    step = None
    try:
        for (step, raw), read in zip(parts, readers, strict=False):
            found[step] = read(raw)
    except _RefusedError as error:
        error.steps.append(step)
        raise
    return found


@cache
def _fields_of(kind: type[Any]) -> tuple[frozenset[str], Mapping[str, Any]]:
    """Return the names of the fields that must be there, and the types of all by name."""
    types = get_type_hints(kind, include_extras=True)
    every = [field for field in fields(kind) if field.compare]
    needed = (f.name for f in every if f.default is MISSING and f.default_factory is MISSING)
    return frozenset(needed), {field.name: types[field.name] for field in every}
