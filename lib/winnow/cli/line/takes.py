"""Make commands from `CommandLine`: typer gets one parameter for each field, and a verb gets one
value with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from inspect import Parameter, Signature, signature
from types import EllipsisType
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from winnow.cli.line.command import origins_of
from winnow.cli.options import CommandLine

FIELDS = {one.name: one for one in fields(CommandLine) if "typer" in one.metadata}
EVERYWHERE = ("config", "environment")
"""Options that every verb takes."""
TYPES = get_type_hints(CommandLine)
SETTINGS = (
    "topic_configs",
    "server_properties",
    "allow_other_broker",
    "sets",
    "topic_sets",
    "kafka_version",
)


def takes(*names: str | EllipsisType) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Make a command from a function that takes a `CommandLine` and its own parameters.

    `names`: fields of `CommandLine` and the function's own parameters, in the order of `--help`.
    `...` stands for its other parameters.
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
        more = [name for name in EVERYWHERE if name not in names]
        listed += [_parameter(name) for name in more]
        shared += more
        context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)

        def command(*, context: typer.Context, **typed: Any) -> int:  # noqa: ANN401 - what typer parsed
            line = {name: typed.pop(name) for name in shared}
            # typer passes None for a repeatable option that was not given
            given = {name: value for name, value in line.items() if value is not None}
            return verb(CommandLine(**given, origins=origins_of(context)), **typed)

        command.__name__, command.__doc__ = verb.__name__, verb.__doc__
        listed.append(context)
        command.__annotations__ = {one.name: one.annotation for one in listed} | {"return": int}
        command.__signature__ = Signature(  # type: ignore[attr-defined]
            [one.replace(kind=Parameter.KEYWORD_ONLY) for one in listed]
        )
        command.shared = frozenset(shared)  # type: ignore[attr-defined]
        return command

    return decorate


def _parameter(name: str) -> Parameter:
    typed, default, kind = FIELDS[name].metadata["typer"], FIELDS[name].default, TYPES[name]
    if kind == Sequence[str]:
        kind, default = list[str] | None, None
    if isinstance(typed, ArgumentInfo):
        kind, default = list[str], Parameter.empty
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, typed]
    )
