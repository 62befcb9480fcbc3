"""Commands from `CommandLine`: typer gets one parameter for each field, a verb gets one value with
all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from inspect import Parameter, Signature, signature
from types import EllipsisType
from typing import Annotated, Any, get_type_hints

from typer.models import ArgumentInfo

from winnow.cli.options import CommandLine

FIELDS = {one.name: one for one in fields(CommandLine)}
_TYPES = get_type_hints(CommandLine)
SETTINGS = ("topic_configs", "server_properties", "allow_other_broker", "sets", "topic_sets")


def takes(*names: str | EllipsisType) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Makes a command of a function of a `CommandLine` and of parameters of its own.

    `names`: fields of `CommandLine` and the function's own parameters, in the order of `--help`;
    `...` is the place of its parameters that are not named.
    """

    def decorate(verb: Callable[..., int]) -> Callable[..., int]:
        own = dict([*signature(verb, eval_str=True).parameters.items()][1:])
        rest = [one for name, one in own.items() if name not in names]
        listed: list[Parameter] = []
        for name in names:
            listed += (
                rest if isinstance(name, EllipsisType) else [own.get(name) or _parameter(name)]
            )
        shared = [name for name in names if isinstance(name, str) and name not in own]

        def command(**typed: Any) -> int:  # noqa: ANN401 - what typer makes of the words
            line = {name: typed.pop(name) for name in shared}
            # typer has None for an option that repeats and was not given
            given = {name: value for name, value in line.items() if value is not None}
            return verb(CommandLine(**given), **typed)

        command.__name__, command.__doc__ = verb.__name__, verb.__doc__
        command.__annotations__ = {one.name: one.annotation for one in listed} | {"return": int}
        command.__signature__ = Signature(  # type: ignore[attr-defined]
            [one.replace(kind=Parameter.KEYWORD_ONLY) for one in listed]
        )
        return command

    return decorate


def _parameter(name: str) -> Parameter:
    typed, default, kind = FIELDS[name].metadata["typer"], FIELDS[name].default, _TYPES[name]
    if kind == Sequence[str]:
        kind, default = list[str] | None, None
    if isinstance(typed, ArgumentInfo):
        kind, default = list[str], Parameter.empty
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, typed]
    )
