"""The verbs and their options. Others script against them: keep them exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from winnow.cli.demo import run_demo
from winnow.cli.doctor import DoctorOptions, run_doctor
from winnow.cli.erase import EraseOptions, run_erase
from winnow.cli.explain import ExplainOptions, run_explain
from winnow.cli.history import HistoryOptions, run_history
from winnow.cli.inspect import InspectOptions, run_inspect
from winnow.cli.line.command import Command, origins_of
from winnow.cli.line.saved import DECIDE
from winnow.cli.options import CommandLine
from winnow.cli.out import Paper, tell
from winnow.cli.package import PackageOptions, run_package
from winnow.cli.recover import RecoverOptions, run_recover
from winnow.cli.run import ApplyOptions, RunOptions, run_apply, run_or_plan
from winnow.cli.text.lessons import LESSONS, epilog, epilog_of_all
from winnow.cli.verify import VerifyOptions, run_verify
from winnow.version import VERSION

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Cleans Apache Kafka log directories without a broker: retention and compaction, exactly "
    "as Kafka would.",
    epilog=epilog_of_all(),
)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer's signature
    if value:
        tell(lambda: Paper().print(f"winnow {VERSION}"))
        raise typer.Exit


@app.callback()
def _globals(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version."),
    ] = False,
) -> None:
    pass  # the callback of --version has already run


EVERYWHERE = ("config", "environment")
"""Options that every verb takes."""
SETTINGS = (
    "topic_configs",
    "server_properties",
    "allow_other_broker",
    "sets",
    "topic_sets",
    "kafka_version",
)


def _add(name: str, verb: Callable[..., int], own: type[Any] | None, names: Sequence[str]) -> None:
    """Make a command from a function that takes a `CommandLine` and, if it has options that no
    other verb has, its `own` ones. `names`: the fields of both, in the order of `--help`.
    """
    names = [*names, *(each for each in EVERYWHERE if each not in names)]
    mine = {} if own is None else _parameters(own)
    context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    listed = [*((_SHARED | mine)[each] for each in names), context]

    def command(*, context: typer.Context, **typed: Any) -> int:  # noqa: ANN401 - what typer parsed
        # typer passes None for a repeatable option that was not given
        given = {each: value for each, value in typed.items() if value is not None}
        of_verb = {each: given.pop(each) for each in mine if each in given}
        line = CommandLine(**given, origins=origins_of(context))
        return verb(line) if own is None else verb(line, own(**of_verb))

    command.__annotations__ = {one.name: one.annotation for one in listed} | {"return": int}
    command.__signature__ = Signature(listed)  # type: ignore[attr-defined]
    app.command(
        name,
        help=LESSONS[name].short,
        epilog=epilog(name),
        cls=Command,
        no_args_is_help=not {"log_dirs", "plan", "paths"}.isdisjoint(names),
    )(command)


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
FIELDS = tuple(_SHARED)
"""The options of `CommandLine`, in its order."""


_LAST = ("quiet", "profile", "json")
_RUN = [*(one for one in FIELDS if one not in _LAST), "dry_run", *_LAST]
_OF_PLANS = ("log_dirs", "now", "detailed_exitcode", "estimate", "out")
_ELSEWHERE = ("output", "begin_again", "work_dir", "work_space")
_CARRY_OUT = [one for one in FIELDS if one not in {*DECIDE, *_OF_PLANS, *_ELSEWHERE, *_LAST}]
"""Options that only concern how a plan is carried out, and what is told about it."""

for _name in ("plan", "clean"):  # the same options, so a user only has to change one word
    _add(_name, partial(run_or_plan, _name), RunOptions, _RUN)
_add("apply", run_apply, ApplyOptions, ["plan", *_CARRY_OUT, *_LAST])
_add(
    "erase",
    run_erase,
    EraseOptions,
    [
        *("log_dirs", "key", "keys", "keys_hex", "keys_delta", "certificate", "topics"),
        *(*SETTINGS, "timeout", "ledger", "no_ledger", "dry_run", *_LAST),
    ],
)
_add(
    "explain",
    run_explain,
    ExplainOptions,
    [
        *("log_dirs", "partition", "offset", "key", "key_hex"),
        *(*SETTINGS, "now", "only", "unclean_shutdown", "quiet", "json"),
    ],
)
_add(
    "verify",
    run_verify,
    VerifyOptions,
    ["log_dirs", "compare", "key_hash", "hash_key", "topics", "ledger", *_LAST],
)
_add(
    "doctor",
    run_doctor,
    DoctorOptions,
    ["log_dirs", "topics", *SETTINGS, "now", "deep", "quiet", "json"],
)
_add("history", run_history, HistoryOptions, ["ledger", "since", "topics", "quiet", "json"])
_add("demo", run_demo, None, ["json"])
_add(
    "recover",
    run_recover,
    RecoverOptions,
    [
        *("log_dirs", "topics", "undo", "purge", "dry_run", "truncate", "discard_cut"),
        *(*SETTINGS, "now", "quiet", "json"),
    ],
)
_add(
    "inspect",
    run_inspect,
    InspectOptions,
    ["paths", "offset", "timestamp", "records", "quiet", "json"],
)
_add("package", run_package, PackageOptions, ["archive", "offline", "quiet", "json"])
