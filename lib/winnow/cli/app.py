"""The verbs and their options. Others script against them: keep them exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from winnow.cli.compare import run_compare
from winnow.cli.demo import run_demo
from winnow.cli.doctor import run_doctor
from winnow.cli.erase import Keys, run_erase
from winnow.cli.explain import Asked, run_explain
from winnow.cli.history import run_history
from winnow.cli.inspect import run_inspect
from winnow.cli.options import CommandLine
from winnow.cli.package import run_package
from winnow.cli.parameters import (
    DryRun,
    Json,
    LedgerUrl,
    LogDirs,
    Quiet,
    TellProfile,
    Topics,
    Version,
)
from winnow.cli.recover import run_recover
from winnow.cli.run import run_verb
from winnow.cli.takes import OPTIONS, SETTINGS, takes
from winnow.cli.text.lessons import LESSONS, epilog, epilog_of_all
from winnow.cli.verify import run_verify

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Cleans Apache Kafka log directories without a broker: retention and compaction, exactly as Kafka would.",
    epilog=epilog_of_all(),
)


@app.callback()
def _globals(*, version: Version = False) -> None:
    pass  # what it takes has acted by the time it is called


def _verb(name: str) -> Callable[..., int]:
    """`plan` and `clean` take the same options, so that one becomes the other by one word."""

    @takes(*(one for one in OPTIONS if one not in _LAST), ..., *_LAST)
    def verb(line: CommandLine, *, dry_run: DryRun = False) -> int:
        return run_verb("plan" if dry_run else name, line)

    return verb


_LAST = ("quiet", "profile", "json")

for _name in ("plan", "clean"):
    app.command(_name, help=LESSONS[_name].short, epilog=epilog(_name), no_args_is_help=True)(
        _verb(_name)
    )


@app.command(
    "erase", short_help=LESSONS["erase"].short, epilog=epilog("erase"), no_args_is_help=True
)
@takes("log_dirs", ..., "topics", *SETTINGS, "timeout", "ledger", "no_ledger", "dry_run", *_LAST)
def erase_keys(
    line: CommandLine,
    *,
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Look and count, change nothing.")
    ] = False,
) -> int:
    """Take all records of some keys out of closed segments, whatever the cleanup policy, and prove
    it.
    """
    return run_erase(
        Keys(keys=keys, keys_hex=keys_hex, keys_delta=keys_delta), line, dry_run=dry_run
    )


@app.command(
    "explain", short_help=LESSONS["explain"].short, epilog=epilog("explain"), no_args_is_help=True
)
@takes("log_dirs", ..., *SETTINGS, "now", "only", "unclean_shutdown", "quiet", "json")
def explain_one(
    line: CommandLine,
    *,
    partition: Annotated[
        str,
        typer.Option(metavar="TOPIC-PARTITION", help="The partition, as its directory is called."),
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
    """Say why a partition would be cleaned or not, and what becomes of a record."""
    return run_explain(Asked(partition=partition, offset=offset, key=key, key_hex=key_hex), line)


@app.command(
    "verify", short_help=LESSONS["verify"].short, epilog=epilog("verify"), no_args_is_help=True
)
def verify_log_dirs(
    log_dirs: LogDirs,
    *,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Hold the replicas in directories of several brokers against each other.",
        ),
    ] = False,
    topics: Topics = None,
    quiet: Quiet = False,
    profile: TellProfile = False,
    json: Json = False,
) -> int:
    """Read everything in log directories and name all that is wrong."""
    run = run_compare if compare else run_verify
    return run(log_dirs, topics=topics or (), quiet=quiet, json=json, profile=profile)


@app.command(
    "doctor", short_help=LESSONS["doctor"].short, epilog=epilog("doctor"), no_args_is_help=True
)
@takes("log_dirs", "topics", *SETTINGS, "now", ..., "quiet", "json")
def examine(
    line: CommandLine,
    *,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Read all records of compacted topics, too: records without a key, tombstones.",
        ),
    ] = False,
) -> int:
    """One page: free space, what can be freed and how, what is overdue or held back, and what to
    run next.
    """
    return run_doctor(line, deep=deep)


@app.command("history", short_help=LESSONS["history"].short, epilog=epilog("history"))
def past_runs(
    *,
    ledger: LedgerUrl = None,
    since: Annotated[
        str | None, typer.Option(metavar="MS|ISO-8601", help="Only runs that ended then or later.")
    ] = None,
    topics: Topics = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Show what past runs freed, when and whose they were, and when each partition was cleaned
    last.
    """
    return run_history(ledger, since=since, topics=topics or (), quiet=quiet, json=json)


@app.command("demo", short_help=LESSONS["demo"].short, epilog=epilog("demo"))
def demo(*, json: Json = False) -> int:
    """Clean a copy of a small real log directory and show before and after."""
    return run_demo(json=json)


@app.command(
    "recover", short_help=LESSONS["recover"].short, epilog=epilog("recover"), no_args_is_help=True
)
def recover_dirs(
    log_dirs: LogDirs,
    *,
    topics: Topics = None,
    undo: Annotated[
        str | None,
        typer.Option(
            metavar="RUN_ID", help="Put back what this run of clean --keep-replaced replaced."
        ),
    ] = None,
    purge: Annotated[
        str | None,
        typer.Option(metavar="RUN_ID|all", help="Remove what this run kept, or all of them."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, change nothing.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Finish or roll back what a crash left; undo a run, or free what it kept. Needs no Spark."""
    return run_recover(
        log_dirs,
        topics=topics or (),
        undo=undo,
        purge=purge,
        dry_run=dry_run,
        quiet=quiet,
        json=json,
    )


@app.command(
    "inspect", short_help=LESSONS["inspect"].short, epilog=epilog("inspect"), no_args_is_help=True
)
def inspect_files(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Files, partition directories, log directories."),
    ],
    *,
    offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Where this offset leads in a partition.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(metavar="MS|ISO-8601", help="Where this timestamp leads in a partition."),
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", help="Show every record of each batch.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Show what is in Kafka's files, verified."""
    return run_inspect(
        paths, offset=offset, timestamp=timestamp, records=records, quiet=quiet, json=json
    )


@app.command("package", short_help=LESSONS["package"].short, epilog=epilog("package"))
def pack(
    *,
    output: Annotated[
        str, typer.Option(metavar="FILE", help="Where it goes: a file that ends in .tar.gz.")
    ] = "winnow.tar.gz",
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Pack what the executors of a cluster need: Winnow, its packages, the compiled kernels. Needs
    no Spark.
    """
    return run_package(output, quiet=quiet, json=json)
