"""The arguments and options of the verbs, with their help. Others script against them: keep them
exactly.
"""

from __future__ import annotations

from typing import Annotated

import typer

from winnow.cli.options import OnCorrupt, Only, UncleanShutdown
from winnow.cli.out import Paper, tell
from winnow.version import VERSION


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer's signature
    if value:
        tell(lambda: Paper().print(f"winnow {VERSION}"))
        raise typer.Exit


LogDirs = Annotated[
    list[str], typer.Argument(metavar="LOG_DIR", help="Directories of a stopped broker's log.dirs.")
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topics", metavar="GLOB", help="Only topics like this; repeatable."),
]
TopicConfigs = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Topic configs: lines `topic key=value`, or what kafka-configs --describe prints.",
    ),
]
ServerProperties = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="The broker's server.properties, as it is; repeatable, one for each broker.",
    ),
]
AllowOtherBroker = Annotated[
    bool,
    typer.Option(
        "--allow-other-broker",
        help="Use a server.properties although its node.id or log.dirs are another broker's.",
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A broker-level default; repeatable."),
]
TopicSets = Annotated[
    list[str] | None,
    typer.Option(
        "--topic-set",
        metavar="GLOB:KEY=VALUE",
        help="A config of topics; repeatable, the last one wins.",
    ),
]
Now = Annotated[
    str | None,
    typer.Option(metavar="MS|ISO-8601", help="The clock of every decision; default: now."),
]
OnlyOne = Annotated[Only | None, typer.Option(help="Do one and leave the other.")]
AfterCrash = Annotated[
    UncleanShutdown,
    typer.Option(
        "--unclean-shutdown",
        help="After a broker's crash: leave all as it is, or work on what is known to be whole and committed.",
    ),
]
KeepReplaced = Annotated[
    bool,
    typer.Option(
        "--keep-replaced",
        help="Keep what is replaced or deleted, for `recover --undo`; frees nothing until `recover --purge`.",
    ),
]
Timeout = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="Begin nothing more after this time, for example 90s, 15m, 2h."
    ),
]
Corrupt = Annotated[
    OnCorrupt,
    typer.Option(
        "--on-corrupt",
        help="Leave damaged partitions as they are; or do nothing at all if there is one; or move damaged batches out "
        "of the log, into .winnow-quarantine-RUN_ID beside it.",
    ),
]
MaxExtraSpace = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Never write more than this, for example 10GiB, before as much is removed; default: what is free.",
    ),
]
FreeAtLeast = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Only delete, of what retention lets go, the oldest segments until so much is freed; needs no free space.",
    ),
]
Throttle = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Read and write no more than this per second, all tasks together, for example 50MiB; default: what "
        "log.cleaner.io.max.bytes.per.second says.",
    ),
]
LedgerUrl = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="DIR|URL",
        help="The Delta table that runs are recorded in; default: $WINNOW_LEDGER, or ~/.local/state/winnow/ledger.",
    ),
]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Record the run nowhere.")]
Report = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE|none",
        help="Where the HTML page of the run goes; default: for clean a file in ~/.local/state/winnow/reports, "
        "for plan none.",
    ),
]
Output = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        metavar="DIR|URL",
        help="Where the cleaned log directory is written, whole; the one given is only read. Of several: repeat it.",
    ),
]
BeginAgain = Annotated[
    bool,
    typer.Option(
        "--begin-again", help="Remove first what a run that did not finish left at --output."
    ),
]
WorkDir = Annotated[
    str | None,
    typer.Option(
        metavar="DIR", help="Where partitions from and for elsewhere are cleaned; default: $TMPDIR."
    ),
]
WorkSpace = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="How much is fetched there at once; default: half of what is free."
    ),
]
Estimate = Annotated[
    bool,
    typer.Option(
        "--estimate",
        help="Of a plan: read all records and tell exactly what compaction would leave.",
    ),
]
ResultFile = Annotated[
    str | None,
    typer.Option(
        "--result",
        metavar="FILE",
        help="A file for the JSON object of --json, whatever stdout is for.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.prom|URL",
        help="Metrics of a clean: a file for node_exporter's textfile collector, or a Prometheus Pushgateway.",
    ),
]
OpenLineage = Annotated[
    str | None,
    typer.Option(
        "--openlineage",
        metavar="FILE|URL",
        help="OpenLineage events of a clean: appended to a file, or posted.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Decide and show, change nothing: the same as plan.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="No progress on stderr; notes and errors still.")
]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout instead of the table.")
]
TellProfile = Annotated[
    bool,
    typer.Option(
        "--profile",
        help="Tell on stderr where the time went: seconds, tasks and bytes of each phase.",
    ),
]
Version = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
]
