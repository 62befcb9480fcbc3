"""Fast pickling for values that move between driver and tasks by the hundred thousand."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

_T = TypeVar("_T")


def pickled_by_fields(cls: type[_T]) -> type[_T]:
    """Make a frozen dataclass, of two fields or more, pickle as a call of its constructor. Python's
    default looks up the names of all fields for each value and takes several times as long.
    """
    values = attrgetter(*_names(cls))  # type: ignore[arg-type]
    by_name = any(field.kw_only for field in fields(cls))  # type: ignore[arg-type]

    def reduced(self: _T) -> tuple[Any, ...]:
        return (_made, (cls, values(self))) if by_name else (cls, values(self))

    cls.__reduce__ = reduced  # type: ignore[assignment]
    return cls


@cache
def _names(cls: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))


def _made(cls: type[_T], values: tuple[Any, ...]) -> _T:
    return cls(**dict(zip(_names(cls), values, strict=True)))  # type: ignore[arg-type]
