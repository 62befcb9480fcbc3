"""The verbs and their options. Others script against them: keep them exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from types import EllipsisType
from typing import Annotated, Any

import typer

from winnow.cli.demo import run_demo
from winnow.cli.doctor import DoctorOptions, run_doctor
from winnow.cli.erase import EraseOptions, run_erase
from winnow.cli.explain import ExplainOptions, run_explain
from winnow.cli.history import HistoryOptions, run_history
from winnow.cli.inspect import InspectOptions, run_inspect
from winnow.cli.line.command import Command
from winnow.cli.line.saved import DECIDE
from winnow.cli.line.takes import takes
from winnow.cli.options import GROUPS, OUTPUT, SAFETY, SPACE, names_of
from winnow.cli.out import tell_page
from winnow.cli.package import PackageOptions, run_package
from winnow.cli.prepared import CommitOptions, PrepareOptions, run_commit, run_prepare
from winnow.cli.recover import RecoverOptions, run_recover
from winnow.cli.run import ApplyOptions, RunOptions, run_apply, run_or_plan
from winnow.cli.set_up import run_set_up
from winnow.cli.text.lessons import ALL, LESSONS, epilog
from winnow.cli.verify import VerifyOptions, run_verify
from winnow.version import VERSION

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=ALL.short,
    epilog=epilog(ALL),
)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer's signature
    if value:
        tell_page([f"winnow {VERSION}"])
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


def _add(
    name: str, verb: Callable[..., int], own: type[Any] | None, *names: str | EllipsisType
) -> None:
    """Add a verb with these options, in the order of its help. `...` stands for its own ones."""
    mine = () if own is None else tuple(one.name for one in fields(own))
    listed = [each for one in names for each in (mine if isinstance(one, EllipsisType) else (one,))]
    app.command(
        name,
        help=LESSONS[name].short,
        epilog=epilog(LESSONS[name]),
        cls=Command,
        no_args_is_help=not {"log_dirs", "plan", "paths"}.isdisjoint(listed),
    )(takes(verb, own, listed))


_SETTINGS = (
    *("topic_configs", "server_properties", "allow_other_broker"),
    *("sets", "topic_sets", "kafka_version"),
)
_DECISIONS = (*_SETTINGS, "replace_cleaner", "now")
_LAST = ("quiet", "profile", "json")
_CARRY_OUT = [
    name
    for name in names_of(SAFETY, SPACE, OUTPUT)
    if name not in {*DECIDE, "detailed_exitcode", "out"}
]
"""Options that only concern how a plan is carried out, and what is told about it."""

for _name in ("plan", "clean"):  # the same options, so a user only has to change one word
    _add(_name, partial(run_or_plan, _name), RunOptions, "log_dirs", *names_of(*GROUPS), ...)
_add("apply", run_apply, ApplyOptions, ..., *_CARRY_OUT)
_add(
    "prepare",
    run_prepare,
    PrepareOptions,
    *("log_dirs", "topics", "exclude", "only", *_DECISIONS, "timeout", ...),
    *("max_extra_space", "keep_free", "throttle", "read_everything"),
    *("all", "summary", "log_file", "result", *_LAST),
)
_add(
    "commit",
    run_commit,
    CommitOptions,
    *("log_dirs", "topics", "exclude", "keep_replaced", "timeout", ...),
    *("all", "summary", "log_file", "result", "quiet", "json"),
)
_add(
    "erase",
    run_erase,
    EraseOptions,
    *("log_dirs", ..., "topics", *_SETTINGS, "timeout", "ledger", "no_ledger", *_LAST),
)
_add(
    "explain",
    run_explain,
    ExplainOptions,
    *("log_dirs", ..., *_DECISIONS, "only", "unclean_shutdown", "quiet", "json"),
)
_add("verify", run_verify, VerifyOptions, "log_dirs", ..., "topics", "ledger", *_LAST)
_add(
    "doctor",
    run_doctor,
    DoctorOptions,
    *("log_dirs", "topics", *_DECISIONS, ...),
    *("all", "summary", "detailed_exitcode", "metrics", "quiet", "json"),
)
_add("history", run_history, HistoryOptions, "ledger", ..., "topics", "quiet", "json")
_add("demo", run_demo, None, "json")
_add(
    "recover",
    run_recover,
    RecoverOptions,
    *("log_dirs", "topics", ..., *_SETTINGS, "now", "quiet", "json"),
)
_add("inspect", run_inspect, InspectOptions, ..., "quiet", "json")
_add("package", run_package, PackageOptions, ..., "quiet", "json")
_add("set-up", run_set_up, None, "quiet", "json")
