"""Checks of what callers of the Python API pass. A wrong type is refused here, with a sentence,
before it can look like a success or like damage.
"""

from __future__ import annotations

import builtins
import difflib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter
from types import UnionType
from typing import (
    Any,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    runtime_checkable,
)

from winnow.clock import LATEST_MS
from winnow.errors import UsageError

_P = ParamSpec("_P")
_R = TypeVar("_R")
Type = Any
"""What an annotation evaluates to."""
_origin_of: Callable[[Type], Type] = get_origin

SECONDS_BELOW = 10**11
"""As milliseconds since 1970, smaller numbers are before 1974. They are seconds, or a year."""


def names(found: object, option: str) -> tuple[str, ...]:
    """Return one text or several texts as a tuple. Raises UsageError for anything else."""
    several = [found] if isinstance(found, str) else found
    if not isinstance(several, Sequence) or not all(isinstance(one, str) for one in several):
        raise refused(option, "a text, or a sequence of texts", found)
    return tuple(several)


def check_least(found: int, option: str, least: int) -> None:
    """Raise UsageError for a number below `least`."""
    if found < least:
        raise refused(option, f"a whole number, {least} or more", found)


def time_ms(found: int, option: str) -> int:
    """Return a time in ms since the epoch. Raises UsageError for one out of range."""
    if not 0 <= found <= LATEST_MS:
        raise UsageError(
            f"{option} is out of range", expected=f"0 to {LATEST_MS} ms", found=f"{found} ms"
        )
    return found


def clock_ms(found: int, option: str) -> int:
    """Like `time_ms`, for the clock of a run: a number that must be in seconds is refused."""
    if 0 < time_ms(found, option) < SECONDS_BELOW:
        raise UsageError(
            f"{option} is before Kafka existed",
            expected="milliseconds since 1970: 13 digits today",
            found=f"{found} ms",
            hint="Is it in seconds?",
        )
    return found


def refused(option: str, expected: str, found: object) -> UsageError:
    """Return the error for an argument that can't be used."""
    return UsageError(f"{option} can't be used", expected=expected, found=repr(found)[:80])


@runtime_checkable
class _Session(Protocol):
    @property
    def sparkContext(self) -> object:  # noqa: N802 - Spark's name
        ...


_NAMED: Mapping[str, Type] = {"SparkSession": _Session}
"""Names that the modules import only for type checkers. Of all other such names, any value fits."""
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "NoneType": "None",
    "datetime": "a datetime",
    "Mapping": "a mapping",
    "Callable": "a function",
    "_Session": "a SparkSession",
    "WithContext": "a SparkSession",
}
"""What to give, by the name of a type."""


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let a public function check the names and the declared types of all its arguments first.

    It then raises UsageError, which names the argument, for what Python would report from the
    inside. Values are checked where they are used.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        declared = _parameters(function)
        others = next((p for p in declared.values() if p.kind is p.VAR_KEYWORD), None)
        named = [p for p in declared.values() if p is not others]
        given = dict(zip(declared, args, strict=False)) | kwargs
        for name in kwargs:
            if others is None and name not in declared:
                near = difflib.get_close_matches(name, declared, n=1)
                raise UsageError(
                    f"there is no argument {name}",
                    expected=", ".join(p.name for p in named if p.name != "self"),
                    hint=f"Did you mean {near[0]}?" if near else None,
                )
        for p in named:
            if p.default is p.empty and p.name not in given:
                raise UsageError(f"the argument {p.name} is missing", expected=words(p.annotation))
        for name, found in given.items():
            if (parameter := declared.get(name, others)) is not None:
                _check(name, found, parameter.annotation)
        return function(*args, **kwargs)

    return call


@cache
def _parameters(function: Callable[..., object]) -> Mapping[str, Parameter]:
    names_of_module = _Names(vars(sys.modules[function.__module__]))
    signature = inspect.signature(function, eval_str=True, globals={}, locals=names_of_module)
    return signature.parameters


class _Names(dict[str, Type]):
    """The names of a module, for its annotations."""

    def __missing__(self, name: str) -> Type:
        return getattr(builtins, name, _NAMED.get(name, Any))


def _check(name: str, found: object, kind: Type) -> None:
    """Raise UsageError if the value does not fit. Of a mapping, name the entry that does not."""
    for option in _members(kind):
        if _origin_of(option) is Mapping and isinstance(found, Mapping):
            keys, values = get_args(option)
            for key, value in found.items():
                _check(f"a key of {name}", key, keys)
                _check(f"{name}[{key!r}]", value, values)
            return
    if not _fits(found, kind):
        raise refused(name, words(kind), found)


def _members(kind: Type) -> tuple[Type, ...]:
    return get_args(kind) if _origin_of(kind) in (Union, UnionType) else (kind,)


def _fits(found: object, kind: Type) -> bool:
    return any(_fits_one(found, option) for option in _members(kind))


def _fits_one(found: object, kind: Type) -> bool:
    origin = _origin_of(kind) or kind
    if origin in (Any, Literal, Parameter.empty) or (
        getattr(origin, "_is_protocol", False)
        and not getattr(origin, "_is_runtime_protocol", False)
    ):
        return True
    if origin in (int, float):
        return isinstance(found, int | origin) and not isinstance(found, bool)
    if origin is Sequence:
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            return False
        return all(_fits(item, get_args(kind)[0]) for item in found)
    return isinstance(found, origin)


def words(kind: Type) -> str:
    """Return what to give for an argument of this type."""
    return " or ".join(dict.fromkeys(map(_words_of_one, _members(kind))))


def _words_of_one(kind: Type) -> str:
    origin = _origin_of(kind) or kind
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if origin is Sequence:
        return "a list of texts" if str in _members(get_args(kind)[0]) else "a list"
    name = getattr(origin, "__name__", str(origin))
    return _WORDS.get(name, name)
