"""The verbs and their options. Others script against them: keep them exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer

from winnow.cli.demo import run_demo
from winnow.cli.doctor import DoctorOptions, run_doctor
from winnow.cli.erase import EraseOptions, run_erase
from winnow.cli.explain import ExplainOptions, run_explain
from winnow.cli.history import HistoryOptions, run_history
from winnow.cli.inspect import InspectOptions, run_inspect
from winnow.cli.line.command import Command
from winnow.cli.line.saved import DECIDE
from winnow.cli.line.takes import FIELDS, SETTINGS, takes
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


def _add(name: str, verb: Callable[..., int], own: type | None, names: Sequence[str]) -> None:
    app.command(
        name,
        help=LESSONS[name].short,
        epilog=epilog(name),
        cls=Command,
        no_args_is_help=not {"log_dirs", "plan", "paths"}.isdisjoint(names),
    )(takes(verb, own, names))


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
