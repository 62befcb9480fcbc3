"""Checks of what callers of the Python API pass. A wrong type is refused here, with a sentence,
before it can look like a success or like damage.
"""

from __future__ import annotations

import builtins
import difflib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, wraps
from types import NoneType, UnionType
from typing import (
    Any,
    ForwardRef,
    Literal,
    ParamSpec,
    Protocol,
    Required,
    TypeVar,
    Union,
    Unpack,
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

SECONDS_BELOW = 10**11
"""As milliseconds since 1970, smaller numbers are before 1974. They are seconds, or a year."""


def names(found: object, option: str) -> tuple[str, ...]:
    """Return one text or several texts as a tuple. Raises UsageError for anything else."""
    several = [found] if isinstance(found, str) else found
    if not isinstance(several, Sequence) or not all(isinstance(one, str) for one in several):
        raise refused(option, "a text, or a sequence of texts", found)
    return tuple(several)


def whole(found: object, option: str, *, least: int) -> int:
    """Return a whole number of at least `least`. Raises UsageError for anything else."""
    if not isinstance(found, int) or isinstance(found, bool) or found < least:
        raise refused(option, f"a whole number, {least} or more", found)
    return found


def time_ms(found: object, option: str) -> int:
    """Return a time in ms since the epoch. Raises UsageError for anything else."""
    if not isinstance(found, int) or isinstance(found, bool):
        raise refused(option, "a whole number of milliseconds since 1970", found)
    if not 0 <= found <= LATEST_MS:
        raise UsageError(
            f"{option} is out of range", expected=f"0 to {LATEST_MS} ms", found=f"{found} ms"
        )
    return found


def clock_ms(found: object, option: str) -> int:
    """Like `time_ms`, for the clock of a run: a number that must be in seconds is refused."""
    found = time_ms(found, option)
    if 0 < found < SECONDS_BELOW:
        raise UsageError(
            f"{option} is before Kafka existed",
            expected="milliseconds since 1970: 13 digits today",
            found=f"{found} ms",
            hint="Is it in seconds?",
        )
    return found


def flag(found: object, option: str) -> bool:
    """Return True or False. Raises UsageError for anything else."""
    if not isinstance(found, bool):
        raise refused(option, "True or False", found)
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
_WORDS: Mapping[Type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    None: "None",
    datetime: "a datetime",
}
_WORDS_BY_NAME = {"_Session": "a SparkSession", "WithContext": "a SparkSession"}


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let a public function check the names and the declared types of all its arguments first.

    It then raises UsageError, which names the argument, for what Python would report from the
    inside. Values are checked where they are used.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        declared = _declared(function)
        for name in kwargs:
            if declared.others is None and name not in declared.types:
                near = difflib.get_close_matches(name, declared.types, n=1)
                raise UsageError(
                    f"there is no argument {name}",
                    expected=", ".join(one for one in declared.types if one != "self"),
                    hint=f"Did you mean {near[0]}?" if near else None,
                )
        given = dict(zip(declared.positional, args, strict=False)) | kwargs
        for name in declared.required:
            if name not in given:
                raise UsageError(
                    f"the argument {name} is missing", expected=words(declared.types[name])
                )
        for name, found in given.items():
            if found is None and name in declared.options:
                continue
            _check(name, found, declared.types.get(name, declared.others))
        return function(*args, **kwargs)

    return call


@dataclass(frozen=True, slots=True)
class _Declared:
    """The arguments of a function."""

    positional: tuple[str, ...]
    types: Mapping[str, Type]
    required: tuple[str, ...]
    options: frozenset[str]
    """Those for which None means the default."""
    others: Type | None
    """The type of arguments with any other name. None: no other name is allowed."""


@cache
def _declared(function: Callable[..., object]) -> _Declared:
    types: dict[str, Type] = {}
    positional, required, others = [], [], None
    options: set[str] = set()
    for name, parameter in inspect.signature(function).parameters.items():
        kind = _type_of(parameter.annotation, function.__module__)
        if parameter.kind is parameter.VAR_KEYWORD:
            if _origin_of(kind) is not Unpack:
                others = kind
                continue
            for option, of in get_args(kind)[0].__annotations__.items():
                types[option] = _type_of(of, function.__module__)
                if _origin_of(types[option]) is Required:
                    types[option] = get_args(types[option])[0]
                    required.append(option)
                else:
                    options.add(option)
            continue
        types[name] = kind
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            positional.append(name)
        if parameter.default is parameter.empty:
            required.append(name)
    return _Declared(tuple(positional), types, tuple(required), frozenset(options), others)


class _Names(dict[str, Type]):
    """The names of a module, for its annotations."""

    def __missing__(self, name: str) -> Type:
        return getattr(builtins, name, _NAMED.get(name, Any))


def _type_of(annotation: Type, module: str) -> Type:
    if isinstance(annotation, ForwardRef):  # in a TypedDict, perhaps of another module
        module, annotation = annotation.__forward_module__ or module, annotation.__forward_arg__
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    return eval(annotation, {}, _Names(vars(sys.modules[module])))  # noqa: S307 - our own source


def _check(name: str, found: object, kind: Type) -> None:
    """Raise UsageError if the value does not fit. Of a mapping, name the entry that does not."""
    if _fits(found, kind):
        return
    for option in _members(kind):
        if _origin_of(option) is Mapping and isinstance(found, Mapping):
            keys, values = get_args(option)
            for key, value in found.items():
                _check(f"a key of {name}", key, keys)
                _check(f"{name}[{key!r}]", value, values)
    raise refused(name, words(kind), found)


def _origin_of(kind: Type) -> Type:
    return get_origin(kind)


def _members(kind: Type) -> tuple[Type, ...]:
    return get_args(kind) if _origin_of(kind) in (Union, UnionType) else (kind,)


def _fits(found: object, kind: Type) -> bool:
    return any(_fits_one(found, option) for option in _members(kind))


def _fits_one(found: object, kind: Type) -> bool:
    origin, parts = _origin_of(kind) or kind, get_args(kind)
    if origin in (Any, Literal) or (
        getattr(origin, "_is_protocol", False)
        and not getattr(origin, "_is_runtime_protocol", False)
    ):
        return True
    if origin in (int, float):
        return isinstance(found, int | origin) and not isinstance(found, bool)
    if origin is Mapping:
        return isinstance(found, Mapping) and all(
            _fits(key, parts[0]) and _fits(value, parts[1]) for key, value in found.items()
        )
    if origin is Sequence:
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            return False
        return all(_fits(one, parts[0]) for one in found)
    return found is None if origin is None else isinstance(found, origin)


def words(kind: Type) -> str:
    """Return what to give for an argument of this type."""
    return " or ".join(dict.fromkeys(map(_words_of_one, _members(kind))))


def _words_of_one(kind: Type) -> str:
    origin = _origin_of(kind) or kind
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if origin is Sequence:
        return "a list of texts" if str in _members(get_args(kind)[0]) else "a list"
    if origin in (Mapping, Callable):
        return "a mapping" if origin is Mapping else "a function"
    name = getattr(origin, "__name__", str(origin))
    return _WORDS.get(origin) or _WORDS_BY_NAME.get(name, name)
