"""Typer's command, with options from a file (`config`), `--no-X` for each switch `--X`, and help in
groups: a verb with thirty options is not read from top to bottom.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperCommand

from winnow.cli.line.config import Given, keys_of, options_of_file
from winnow.cli.options import GROUPS, OTHER, names_of
from winnow.cli.out import complain
from winnow.errors import UsageError

_GIVEN = "winnow.cli.line.command.given"
_MAY_BE_EMPTY = {("explain", "key"), ("explain", "key_hex"), ("erase", "key")}
"""By verb: options that take an empty value, or refuse it with a sentence of their own."""


MOST_UNGROUPED = 16
"""A verb with more options shows them in groups."""
_ORDER = names_of(*GROUPS)
_OPPOSITES = {"ledger": "no_ledger", "no_ledger": "ledger"}
"""Options of which a typed one overrides the other in the file."""


class Command(TyperCommand):
    """A verb. It takes options from the file of --config, where the command line has none, and its
    help shows them in groups.
    """

    def make_parser(self, ctx: Any) -> Any:  # noqa: ANN401 - click's
        """Add `--no-X` for each switch: what a file switches on, a command line can switch off."""
        parser = super().make_parser(ctx)
        known = {name for one in self.get_params(ctx) for name in one.opts}
        for one in self.get_params(ctx):
            name = f"--no-{one.opts[0].lstrip('-')}"
            if getattr(one, "is_flag", False) and not one.is_eager and name not in known:
                switch: Any = one
                parser.add_option(
                    obj=switch, opts=[name], dest=one.name, action="store_const", const=False
                )
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        if not args and self.no_args_is_help:
            return super().parse_args(ctx, args)
        typed, _, order = self.make_parser(ctx).parse_args(args=list(args))
        if not typed.get("help"):
            _check_typed(self, ctx, typed, order)
        given = {} if typed.get("help") else self._from_file(ctx, typed)
        ctx.meta[_GIVEN] = given
        ctx.default_map = {name: one.value for name, one in given.items()}
        return super().parse_args(ctx, args)

    def _from_file(self, ctx: Any, typed: Mapping[str, Any]) -> dict[str, Given]:  # noqa: ANN401
        path = typed.get("config") or os.environ.get("WINNOW_CONFIG")
        if not path:
            if typed.get("environment"):
                raise UsageError(
                    "--environment without a configuration", expected="--config FILE as well"
                )
            return {}
        verbs = {name: keys_of(one) for name, one in ctx.find_root().command.commands.items()}
        environment = typed.get("environment") or os.environ.get("WINNOW_ENVIRONMENT") or None
        found = options_of_file(path, verb=self.name or "", environment=environment, verbs=verbs)
        overridden = {name for name, value in typed.items() if value not in (None, [], ())}
        overridden |= {_OPPOSITES[name] for name in overridden & _OPPOSITES.keys()}
        return {name: one for name, one in found.items() if name not in overridden}

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's
        options: list[Any] = [
            one for one in self.get_params(ctx) if one.param_type_name == "option"
        ]
        if len(options) <= MOST_UNGROUPED:
            super().format_options(ctx, formatter)
            return
        arguments = [one for one in self.get_params(ctx) if one not in options]
        # The verb's own options come first in their group.
        options.sort(key=lambda one: _ORDER.index(one.name) if one.name in _ORDER else -1)
        parts: dict[str, list[Any]] = {"Arguments": arguments, **{one.title: [] for one in GROUPS}}
        for one in options:
            parts[one.rich_help_panel or OTHER.title].append(one)
        for title, part in parts.items():
            rows = [row for one in part if (row := one.get_help_record(ctx)) is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _check_typed(command: Any, ctx: Any, typed: Mapping[str, Any], order: Sequence[Any]) -> None:  # noqa: ANN401
    """Raise UsageError for an empty value, and for an option that is given twice: of two files, one
    would be ignored.
    """
    for one in command.get_params(ctx):
        name = one.opts[0] if one.param_type_name == "option" else one.metavar
        value = typed.get(one.name)
        empty = value == "" or (isinstance(value, list | tuple) and "" in value)
        if empty and (command.name, one.name) not in _MAY_BE_EMPTY:
            raise UsageError(
                f"{name} is empty", expected="a value", hint="Is a variable of the shell empty?"
            )
        once = one.param_type_name == "option" and not (one.multiple or one.is_flag)
        if once and order.count(one) > 1:
            raise UsageError(f"{name} is given {order.count(one)} times", expected="it once")


def origins_of(ctx: Any) -> dict[str, str]:  # noqa: ANN401 - click's context
    """Return where each value from a file comes from, and say so on stderr."""
    given: dict[str, Given] = ctx.meta.get(_GIVEN) or {}
    tables: dict[str, list[str]] = {}
    for one in given.values():
        tables.setdefault(one.where, []).append(one.option)
    for where, options in tables.items():
        complain(f"note: from {where}: {', '.join(options)}")
    return {name: one.where for name, one in given.items()}
