"""The command line as its own objects define it: the verbs, their arguments, options and help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import typer.main

from tests.reference.markdown import code, table, wrapped
from winnow.cli.app import app
from winnow.cli.text.lessons import LESSONS


def verbs() -> dict[str, Any]:
    """Name -> click's command, in the order of the help."""
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def all_verbs() -> Iterator[str]:
    for name, command in verbs().items():
        yield from (
            f"## {name}",
            "",
            *wrapped(command.help),
            "",
            *wrapped(LESSONS[name].changes),
            "",
        )
        yield "```text"
        yield from (f"./spark-submit.sh {example}" for example in LESSONS[name].examples)
        yield from ("```", "")
        yield from table(
            ("", ""),
            [_parameter(parameter) for parameter in command.params if not parameter.is_eager],
        )
        yield ""


def _parameter(parameter: Any) -> tuple[str, str]:
    default = parameter.default
    told = parameter.help or ""
    if isinstance(default, str):
        told += f" Default: {code(default)}."
    if parameter.param_type_name == "argument":
        return code(f"{parameter.metavar}..."), told
    value = "" if parameter.is_flag else f" {parameter.metavar or _choices(parameter)}"
    return code(f"{parameter.opts[0]}{value}"), ("Needed. " if parameter.required else "") + told


def _choices(parameter: Any) -> str:
    return "|".join(get_args(parameter.type_descriptor.annotation))
