"""Make commands: typer gets one parameter for each field of a command line, and a verb gets one
value with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from winnow.cli.call import ended
from winnow.cli.line.command import origins_of
from winnow.cli.options import CommandLine, parsers_of

EVERYWHERE = ("config", "environment")
"""Options that every verb takes."""


def takes(
    verb: Callable[..., int], own: type[Any] | None, names: Sequence[str]
) -> Callable[..., int]:
    """Make a command from a function that takes a `Call` and, if it has options that no other verb
    has, its `own` ones. `names`: the fields of both, in the order of `--help`.
    """
    names = [*names, *(name for name in EVERYWHERE if name not in names)]
    mine = {} if own is None else _parameters(own)
    context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    listed = [*((_SHARED | mine)[name] for name in names), context]

    def command(*, context: typer.Context, **typed: Any) -> int:  # noqa: ANN401 - what typer parsed
        # typer passes None for a repeatable option that was not given
        given = {name: value for name, value in typed.items() if value is not None}
        of_verb = (
            []
            if own is None
            else [own(**{name: given.pop(name) for name in mine if name in given})]
        )
        return ended(verb, CommandLine(**given, origins=origins_of(context)), *of_verb)

    command.__annotations__ = {one.name: one.annotation for one in listed} | {"return": int}
    command.__signature__ = Signature(listed)  # type: ignore[attr-defined]
    # typer keeps what a function has: `config` checks whole files with it.
    parsers = parsers_of(CommandLine) | ({} if own is None else parsers_of(own))
    command.parsers = parsers  # type: ignore[attr-defined]
    return command


def _parameters(line: type[Any]) -> dict[str, Parameter]:
    kinds, found = get_type_hints(line), {}
    for one in fields(line):
        if "typer" in one.metadata:
            kind, default, typed = kinds[one.name], one.default, one.metadata["typer"](one.name)
            if isinstance(typed, ArgumentInfo) or default is MISSING:
                default = Parameter.empty
            if kind == Sequence[str]:
                kind = list[str] | None if default == () else list[str]
                default = None if default == () else default
            found[one.name] = Parameter(
                one.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, typed]
            )
    return found


_SHARED = _parameters(CommandLine)
