"""The verbs and their options. Others script against them: keep them exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from winnow.cli.demo import run_demo
from winnow.cli.doctor import run_doctor
from winnow.cli.erase import Keys, run_erase
from winnow.cli.explain import Asked, run_explain
from winnow.cli.history import run_history
from winnow.cli.inspect import run_inspect
from winnow.cli.line.saved import DECIDE
from winnow.cli.line.takes import FIELDS, SETTINGS, takes
from winnow.cli.options import CommandLine
from winnow.cli.out import Paper, tell
from winnow.cli.package import run_offline, run_package
from winnow.cli.recover import Recovery, run_recover
from winnow.cli.run import run_apply, run_verb
from winnow.cli.text.grouped import GroupedCommand
from winnow.cli.text.lessons import LESSONS, epilog, epilog_of_all
from winnow.cli.verify import Check, run_verify
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


def _command(name: str, **more: Any) -> Callable[..., Any]:  # noqa: ANN401 - what typer takes
    return app.command(
        name, help=LESSONS[name].short, epilog=epilog(name), cls=GroupedCommand, **more
    )


def _verb(name: str) -> Callable[..., int]:
    """`plan` and `clean` take the same options, so a user only has to change one word."""

    @takes(*(one for one in FIELDS if one not in _LAST), ..., *_LAST)
    def verb(
        line: CommandLine,
        *,
        dry_run: Annotated[
            bool,
            typer.Option("--dry-run", help="Change nothing: the same as plan."),
        ] = False,
    ) -> int:
        return run_verb("plan" if dry_run else name, line)

    return verb


_LAST = ("quiet", "profile", "json")
_OF_PLANS = ("log_dirs", "now", "detailed_exitcode", "estimate", "out")
_ELSEWHERE = ("output", "begin_again", "work_dir", "work_space")
_CARRY_OUT = [one for one in FIELDS if one not in {*DECIDE, *_OF_PLANS, *_ELSEWHERE, *_LAST}]
"""Options that only concern how a plan is carried out, and what is told about it."""

for _name in ("plan", "clean"):
    _command(_name, no_args_is_help=True)(_verb(_name))


@_command("apply", no_args_is_help=True)
@takes(..., *_CARRY_OUT, *_LAST)
def apply_plan(
    line: CommandLine,
    *,
    plan: Annotated[
        str, typer.Argument(metavar="FILE", help="The plan: what `plan --out FILE` wrote.")
    ],
) -> int:
    return run_apply(plan, line)


@_command("erase", no_args_is_help=True)
@takes("log_dirs", ..., "topics", *SETTINGS, "timeout", "ledger", "no_ledger", "dry_run", *_LAST)
def erase_keys(
    line: CommandLine,
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="A key as UTF-8 text, hex:6B6579 or base64:a2V5; text: before a key that begins "
            "like that. Repeatable. The shell's history and `ps` show it; --keys does not.",
        ),
    ] = None,
    keys: Annotated[
        str | None, typer.Option(metavar="FILE", help="The keys: one per line, as UTF-8 text.")
    ] = None,
    keys_hex: Annotated[
        str | None,
        typer.Option("--keys-hex", metavar="FILE", help="The same, each in hexadecimal."),
    ] = None,
    keys_delta: Annotated[
        str | None,
        typer.Option(
            "--keys-delta", metavar="URL", help="A Delta table with the keys in its column `key`."
        ),
    ] = None,
    certificate: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Write a certificate there that others can check: HTML, JSON and its hash key.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; change nothing.")] = False,
) -> int:
    return run_erase(
        Keys(key=key, keys=keys, keys_hex=keys_hex, keys_delta=keys_delta),
        line,
        dry_run=dry_run,
        certificate=certificate,
    )


@_command("explain", no_args_is_help=True)
@takes("log_dirs", ..., *SETTINGS, "now", "only", "unclean_shutdown", "quiet", "json")
def explain_one(
    line: CommandLine,
    *,
    partition: Annotated[
        str,
        typer.Option(metavar="TOPIC-PARTITION", help="The name of the partition's directory."),
    ],
    offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The record at this offset.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="All records with this key, as UTF-8.")
    ] = None,
    key_hex: Annotated[
        str | None, typer.Option("--key-hex", metavar="HEX", help="The same, in hexadecimal.")
    ] = None,
) -> int:
    return run_explain(Asked(partition=partition, offset=offset, key=key, key_hex=key_hex), line)


@_command("verify", no_args_is_help=True)
@takes("log_dirs", ..., "topics", "ledger", *_LAST)
def verify_log_dirs(
    line: CommandLine,
    *,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Compare the replicas in directories of several brokers with each other.",
        ),
    ] = False,
    key_hash: Annotated[
        str | None,
        typer.Option(
            "--key-hash",
            metavar="FILE|RUN_ID",
            help="Only look for erased keys, by their hashes: the certificate of an erasure, or "
            "its run in the ledger.",
        ),
    ] = None,
    hash_key: Annotated[
        str | None,
        typer.Option(
            "--hash-key",
            metavar="FILE",
            help="The hash key of that erasure. Default: the file beside the certificate.",
        ),
    ] = None,
) -> int:
    return run_verify(line, Check(compare=compare, key_hash=key_hash, hash_key=hash_key))


@_command("doctor", no_args_is_help=True)
@takes("log_dirs", "topics", *SETTINGS, "now", ..., "quiet", "json")
def examine(
    line: CommandLine,
    *,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Also read all records of compacted topics: report records without a key, and "
            "tombstones.",
        ),
    ] = False,
) -> int:
    return run_doctor(line, deep=deep)


@_command("history")
@takes("ledger", ..., "topics", "quiet", "json")
def past_runs(
    line: CommandLine,
    *,
    since: Annotated[
        str | None, typer.Option(metavar="MS|ISO-8601", help="Only runs that ended then or later.")
    ] = None,
) -> int:
    return run_history(line, since=since)


@_command("demo")
@takes("json")
def demo(line: CommandLine) -> int:
    return run_demo(json=line.json)


@_command("recover", no_args_is_help=True)
@takes("log_dirs", "topics", ..., *SETTINGS, "now", "quiet", "json")
def recover_dirs(
    line: CommandLine,
    *,
    undo: Annotated[
        str | None,
        typer.Option(
            metavar="RUN_ID", help="Restore what this run of clean --keep-replaced replaced."
        ),
    ] = None,
    purge: Annotated[
        str | None,
        typer.Option(metavar="RUN_ID|all", help="Delete what this run kept, or what all kept."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")
    ] = False,
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate",
            help="After an unclean shutdown: cut the logs, rebuild indexes and snapshots, and "
            "write the marker. A broker then starts without recovery.",
        ),
    ] = False,
    discard_cut: Annotated[
        bool,
        typer.Option(
            "--discard-cut",
            help="With --truncate: do not keep the bytes that are cut. Needs no free space.",
        ),
    ] = False,
) -> int:
    return run_recover(
        line,
        Recovery(
            undo=undo, purge=purge, dry_run=dry_run, truncate=truncate, discard_cut=discard_cut
        ),
    )


@_command("inspect", no_args_is_help=True)
@takes(..., "quiet", "json")
def inspect_files(
    line: CommandLine,
    *,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Files, partition directories, log directories."),
    ],
    offset: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Show how a partition is searched for this offset."),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="MS|ISO-8601", help="Show how a partition is searched for this timestamp."
        ),
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", help="Show every record of each batch.")
    ] = False,
) -> int:
    return run_inspect(paths, line, offset=offset, timestamp=timestamp, records=records)


@_command("package")
@takes(..., "quiet", "json")
def pack(
    line: CommandLine,
    *,
    output: Annotated[
        str, typer.Option(metavar="FILE", help="The archive to write; its name ends in .tar.gz.")
    ] = "winnow.tar.gz",
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Pack all that sets up a host without a network instead."),
    ] = False,
) -> int:
    return run_offline(output, line) if offline else run_package(output, line)
