"""Commands from tables: typer gets one parameter for each option, a verb gets one value with all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from inspect import Parameter, Signature, signature
from types import EllipsisType, MappingProxyType
from typing import Any

from winnow.cli import parameters as p
from winnow.cli.options import CommandLine

OPTIONS: Mapping[str, object] = MappingProxyType(
    {
        "log_dirs": p.LogDirs,
        "topics": p.Topics,
        "topic_configs": p.TopicConfigs,
        "server_properties": p.ServerProperties,
        "allow_other_broker": p.AllowOtherBroker,
        "sets": p.Sets,
        "topic_sets": p.TopicSets,
        "now": p.Now,
        "only": p.OnlyOne,
        "unclean_shutdown": p.AfterCrash,
        "keep_replaced": p.KeepReplaced,
        "timeout": p.Timeout,
        "on_corrupt": p.Corrupt,
        "max_extra_space": p.MaxExtraSpace,
        "free_at_least": p.FreeAtLeast,
        "throttle": p.Throttle,
        "ledger": p.LedgerUrl,
        "no_ledger": p.NoLedger,
        "report": p.Report,
        "result": p.ResultFile,
        "metrics": p.Metrics,
        "openlineage": p.OpenLineage,
        "output": p.Output,
        "begin_again": p.BeginAgain,
        "work_dir": p.WorkDir,
        "work_space": p.WorkSpace,
        "estimate": p.Estimate,
        "quiet": p.Quiet,
        "profile": p.TellProfile,
        "json": p.Json,
    }
)
"""How each field of `CommandLine` is typed, in the order of `--help`."""
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
    [default] = [field.default for field in fields(CommandLine) if field.name == name]
    if default is MISSING:
        default = Parameter.empty
    elif default == ():
        default = None
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=OPTIONS[name])
