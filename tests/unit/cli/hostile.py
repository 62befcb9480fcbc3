"""Values in which every text is hostile, made from their types. A field that is added later is
hostile as well.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from winnow.policy.fate import Fact

OSC = "\x1b]0;title\x07\x9b2J\u202e"
FORGED = "\nwinnow: all is well"


def hostile(kind: Any, **given: Any) -> Any:  # noqa: PLR0911 - a kind of type each
    """Return an instance of a dataclass or of any other type that verb results contain."""
    if kind is Fact:
        return Fact(OSC, OSC)  # a union: only a number can be a time
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        values = {field.name: hostile(hints[field.name]) for field in fields(kind) if field.init}
        return kind(**{**values, **given})  # type: ignore[operator]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        return hostile(next(one for one in arguments if one is not types.NoneType))
    if origin is typing.Literal:
        return arguments[0]
    if origin is tuple:
        return tuple(hostile(one) for one in arguments if one is not Ellipsis)
    if origin in {Mapping, dict}:
        return {hostile(arguments[0]): hostile(arguments[1])}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    plain = {str: OSC, bytes: OSC.encode(errors="surrogateescape"), int: 5, float: 0.5, bool: True}
    return () if origin is not None else plain[kind]
