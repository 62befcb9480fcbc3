"""Parse the words of the command line into values. All mistakes in them are found here, before
Spark starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from winnow.cleaning.request import OnCorrupt, Only, UncleanShutdown
from winnow.cli.line.units import parse_duration, parse_now
from winnow.clock import now_ms
from winnow.errors import UsageError
from winnow.ledger.place import KEY_SUMMARIES, check_ledger, default_ledger, local_path
from winnow.policy.describe import Entry, parse_topic_configs_file
from winnow.policy.server_properties import parse_server_properties_file
from winnow.policy.sources import Settings, parse_set, parse_topic_set
from winnow.policy.versions import asked_version
from winnow.runtime.stop import Stop
from winnow.storage.places import Places
from winnow.storage.urls import is_remote


def option(
    words: str,
    *names: str,
    default: Any = None,  # noqa: ANN401 - that of the field
    **more: Any,  # noqa: ANN401 - what typer takes
) -> Any:  # noqa: ANN401
    """Return a field that an option of the command line sets. `words`: its help. Without `names`,
    the option has the field's name.
    """

    def made(field_name: str) -> Any:  # noqa: ANN401 - typer's
        dashed = f"--{field_name.replace('_', '-')}"
        return typer.Option(*(names or (dashed,)), help=words, **more)

    return field(default=default, metadata={"typer": made})


def switch(words: str) -> Any:  # noqa: ANN401 - as above
    """Return a field that is False without its option."""
    return option(words, default=False)


def argument(words: str, metavar: str, **default: Any) -> Any:  # noqa: ANN401 - as above
    """Return a field that the words without an option set. They are always needed."""
    return field(
        **default, metadata={"typer": lambda _: typer.Argument(metavar=metavar, help=words)}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The request as typed. Fields are in the order of `--help`. Scripts depend on the names of the
    options: do not change them.
    """

    log_dirs: Sequence[str] = argument(
        "Directories of a stopped broker's log.dirs.", "LOG_DIR", default=()
    )
    topics: Sequence[str] = option(
        "Only topics that match; repeatable.", metavar="GLOB", default=()
    )
    exclude: Sequence[str] = option(
        "Not topics that match, even if --topics does; repeatable.", metavar="GLOB", default=()
    )
    topic_configs: str | None = option(
        "Topic configs: lines `topic key=value`, or the output of kafka-configs --describe.",
        metavar="FILE",
    )
    server_properties: Sequence[str] = option(
        "The broker's server.properties, unchanged; repeatable, one for each broker.",
        metavar="FILE",
        default=(),
    )
    allow_other_broker: bool = switch(
        "Accept a server.properties whose node.id or log.dirs are those of another broker."
    )
    sets: Sequence[str] = option(
        "A broker-level default; repeatable.", "--set", metavar="KEY=VALUE", default=()
    )
    topic_sets: Sequence[str] = option(
        "A config for topics that match; repeatable, the last one wins.",
        "--topic-set",
        metavar="GLOB:KEY=VALUE",
        default=(),
    )
    kafka_version: str | None = option(
        "The version of Kafka whose rules apply, for example 3.9 or 3.9.1; default: what the log "
        "directory tells.",
        metavar="X.Y",
    )
    now: str | None = option(
        "The time that all decisions use; default: the current time.", metavar="MS|ISO-8601"
    )
    only: Only | None = option("Run only this one of the two.")  # noqa: RUF009 - a field
    unclean_shutdown: UncleanShutdown = option(  # noqa: RUF009 - a field
        "After a broker crashed: read what a broker would recover, and clean up to the end that "
        "this finds; refuse to change anything; or read nothing, and clean only below the "
        "recovery point.",
        default="read",
    )
    keep_replaced: bool = switch(
        "Keep replaced and deleted segments for `recover --undo`. This frees no space until "
        "`recover --purge`."
    )
    yes: bool = switch(
        "Let --set and --topic-set delete more than the topics' own settings without asking."
    )
    timeout: str | None = option(
        "Start no new work after this time, for example 90s, 15m, 2h.", metavar="DURATION"
    )
    on_corrupt: OnCorrupt = option(  # noqa: RUF009 - a field
        "Leave damaged partitions unchanged; or fail, before any change if possible; or move "
        "damaged batches out of the log, into .winnow-quarantine-RUN_ID beside it.",
        default="leave",
    )
    max_extra_space: str | None = option(
        "Use at most this much extra space at a time, for example 10GiB; default: all free space.",
        metavar="SIZE",
    )
    keep_free: str | None = option(
        "Leave this much free on each disk, for example 0 or 10GiB; default: 64KiB.", metavar="SIZE"
    )
    free_at_least: str | None = option(
        "Only delete segments, the oldest first, and only those that retention allows, until this "
        "much is freed. Needs no free space.",
        metavar="SIZE",
    )
    throttle: str | None = option(
        "Read and write at most this much per second, all tasks together, for example 50MiB; "
        "default: log.cleaner.io.max.bytes.per.second.",
        metavar="RATE",
    )
    ledger: str | None = option(
        "The Delta table that records runs; default: $WINNOW_LEDGER, or "
        "~/.local/state/winnow/ledger.",
        metavar="DIR|URL",
    )
    no_ledger: bool = switch("Do not record the run.")
    read_everything: bool = switch(
        "Read also segments that are known from an earlier run and have no key of a new record."
    )
    detailed_exitcode: bool = switch("For plan: exit with 10 instead of 0 if there is work to do.")
    summary: bool = switch(
        "Show only one line: what was done, what it freed, what was left alone and why."
    )
    log_file: str | None = option(
        "Append what is shown on stderr to this file as well, each line with its time.",
        metavar="FILE",
    )
    all: bool = switch(
        "Show each partition. By default, above 20 with work, only the largest and counts."
    )
    report: str | None = option(
        "Write the run's HTML page to this file; default: clean writes one in "
        "~/.local/state/winnow/reports, plan writes none.",
        metavar="FILE|none",
    )
    result: str | None = option(
        "Write the JSON object of --json to this file as well.", metavar="FILE"
    )
    metrics: str | None = option(
        "Write metrics of a clean to a file for node_exporter's textfile collector, or push them "
        "to a Prometheus Pushgateway.",
        metavar="FILE.prom|URL",
    )
    openlineage: str | None = option(
        "Append OpenLineage events of a clean to a file, or post them to a URL.", metavar="FILE|URL"
    )
    output: Sequence[str] = option(
        "Write the complete cleaned log directory here, and only read the original; repeatable, "
        "one for each LOG_DIR.",
        metavar="DIR|URL",
        default=(),
    )
    begin_again: bool = switch("First remove what an unfinished run left at --output.")
    work_dir: str | None = option(
        "Where to clean partitions of a remote LOG_DIR or for an --output; default: $TMPDIR.",
        metavar="DIR",
    )
    work_space: str | None = option(
        "Fetch at most this much there at once; default: half of the free space.", metavar="SIZE"
    )
    estimate: bool = switch(
        "For plan: read all records and report exactly what compaction would keep."
    )
    out: str | None = option("For plan: save the plan in this file, for `apply`.", metavar="FILE")
    config: str | None = option(
        "Options from this file in TOML. Those on the command line override it, --no-X a switch "
        "--X. Default: $WINNOW_CONFIG, or none.",
        metavar="FILE",
    )
    environment: str | None = option(
        "The environment of the file of --config; default: $WINNOW_ENVIRONMENT, or none.",
        metavar="NAME",
    )
    quiet: bool = switch("Show no progress on stderr, only notes and errors.")
    profile: bool = switch(
        "Show on stderr where the time went: seconds, tasks and bytes of each phase."
    )
    json: bool = switch("Print one JSON object on stdout instead of the table.")
    origins: Mapping[str, str] = field(default_factory=dict)
    """Fields that were not typed but come from the file of --config -> the file and its table."""


def key_summaries_of(request: CommandLine, ledger: str | None) -> str | None:
    """Return the directory for what is known of segments: in the ledger's, if that is here, or in
    that of the default ledger. None: everything is read.
    """
    if request.read_everything or request.output:
        return None
    local = None if ledger is None else local_path(ledger)
    try:
        return f"{local or default_ledger({**os.environ, 'WINNOW_LEDGER': ''})}/{KEY_SUMMARIES}"
    except UsageError:  # a user without a home
        return None


def ledger_of(request: CommandLine) -> str | None:
    """Return where `clean` records the run; None: nowhere. Raises UsageError for a place where a
    ledger is not allowed.
    """
    if request.no_ledger and request.ledger is not None:
        raise UsageError("--ledger and --no-ledger together", expected="one of them, or neither")
    if request.no_ledger:
        return None
    ledger = default_ledger(os.environ) if request.ledger is None else request.ledger
    check_ledger(ledger, (*request.log_dirs, *request.output))
    return ledger


def now_of(request: CommandLine) -> int:
    """Return the time that all decisions use, in ms since the epoch. Raises as `parse_now`."""
    return now_ms() if request.now is None else parse_now(request.now)


def stop_of(request: CommandLine) -> Stop:
    """Return the stop with the time limit. Raises UsageError if --timeout can't be understood."""
    limit = request.timeout
    return Stop(timeout_s=None if limit is None else parse_duration(limit, option="--timeout"))


def read_bytes(file: str, *, option: str) -> bytes:
    """Return the content of the file that an option names. Raises UsageError if it can't be
    read.
    """
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise _unreadable(file, option, error.strerror) from error


def read_text(file: str, *, option: str) -> str:
    """Return the text of the file that an option names. Raises UsageError if it can't be read."""
    try:
        return read_bytes(file, option=option).decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise _unreadable(file, option, str(error)) from error


def _unreadable(file: str, option: str, found: str | None) -> UsageError:
    return UsageError(
        f"can't read the file of {option}",
        found=found,
        where=file,
        expected="a file that can be read, in UTF-8",
    )


def parse_settings(request: CommandLine) -> Settings:
    """Parse all settings. Raises UsageError for anything that can't be understood."""
    sets = tuple(map(parse_set, request.sets))
    topic_sets = tuple(map(parse_topic_set, request.topic_sets))
    if "sets" in request.origins:
        sets = tuple(_in_file(one, request.origins["sets"]) for one in sets)
    if "topic_sets" in request.origins:
        where = request.origins["topic_sets"]
        topic_sets = tuple(replace(one, entry=_in_file(one.entry, where)) for one in topic_sets)
    return Settings(
        sets=sets,
        topic_sets=topic_sets,
        topic_configs=None
        if request.topic_configs is None
        else parse_topic_configs_file(
            read_text(request.topic_configs, option="--topic-configs"), file=request.topic_configs
        ),
        server_properties=tuple(
            parse_server_properties_file(read_bytes(file, option="--server-properties"), file=file)
            for file in request.server_properties
        ),
        allow_other_broker=request.allow_other_broker,
        kafka=asked_version(request.kafka_version),
    )


def _in_file(entry: Entry, file: str) -> Entry:
    return replace(entry, where=f"{entry.where}, in {file}")


def check_log_dirs(log_dirs: Sequence[str]) -> None:
    """Find a mistyped name at once. Whether it is a Kafka log directory is checked later."""
    for log_dir in log_dirs:
        if is_remote(log_dir):
            Places().canonical(log_dir)  # checks the URL without a request
        elif not Path(log_dir).is_dir():
            raise UsageError(
                "no such directory",
                where=log_dir,
                hint="Give the directories of the broker's log.dirs.",
            )
