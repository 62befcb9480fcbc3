"""Parse the words of the command line into values. All mistakes in them are found here, before
Spark starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from winnow.cleaning.request import OnCorrupt, Only, UncleanShutdown
from winnow.cli.line.declare import (
    DURATION,
    ELSEWHERE,
    GOAL,
    NOW,
    OUTPUT,
    RATE,
    SAFETY,
    SET,
    SETTINGS,
    SIZE,
    SPACE,
    TARGET,
    TOPIC_SET,
    URL,
    VERSION,
    WHAT,
    Group,
    argument,
    value_of,
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The request as typed, for all verbs. Fields are in the order of `--help`, group by group.
    Scripts depend on the names of the options: do not change them.
    """

    log_dirs: Sequence[str] = argument(
        "Directories of a stopped broker's log.dirs.", "LOG_DIR", default=()
    )

    topics: Sequence[str] = WHAT.several("Only topics that match; repeatable.", "GLOB")
    exclude: Sequence[str] = WHAT.several(
        "Not topics that match, even if --topics does; repeatable.", "GLOB"
    )
    only: Only | None = WHAT.option(  # noqa: RUF009 - a field
        "Run only this one of the two."
    )
    now: str | None = WHAT.option(
        "The time that all decisions use; default: the current time.", NOW
    )
    unclean_shutdown: UncleanShutdown = WHAT.option(  # noqa: RUF009 - a field
        "After a broker crashed: read what a broker would recover, and clean up to the end that "
        "this finds; refuse to change anything; or read nothing, and clean only below the "
        "recovery point.",
        default="read",
    )
    on_corrupt: OnCorrupt = WHAT.option(  # noqa: RUF009 - a field
        "Leave damaged partitions unchanged; or fail, before any change if possible; or move "
        "damaged batches out of the log, into .winnow-quarantine-RUN_ID beside it.",
        default="leave",
    )
    estimate: bool = WHAT.switch(
        "For plan: read all records and report exactly what compaction would keep."
    )

    server_properties: Sequence[str] = SETTINGS.several(
        "The broker's server.properties, unchanged; repeatable, one for each broker.", "FILE"
    )
    topic_configs: str | None = SETTINGS.option(
        "Topic configs: lines `topic key=value`, or the output of kafka-configs --describe.", "FILE"
    )
    topic_sets: Sequence[str] = SETTINGS.several(
        "A config for topics that match; repeatable, the last one wins.",
        TOPIC_SET,
        name="--topic-set",
    )
    sets: Sequence[str] = SETTINGS.several("A broker-level default; repeatable.", SET, name="--set")
    kafka_version: str | None = SETTINGS.option(
        "The version of Kafka whose rules apply, for example 3.9 or 3.9.1; default: what the log "
        "directory tells.",
        VERSION,
    )
    allow_other_broker: bool = SETTINGS.switch(
        "Accept a server.properties whose node.id or log.dirs are those of another broker."
    )
    config: str | None = SETTINGS.option(
        "Options from this file in TOML. Those on the command line override it, --no-X a switch "
        "--X. Default: $WINNOW_CONFIG, or none.",
        "FILE",
    )
    environment: str | None = SETTINGS.option(
        "The environment of the file of --config; default: $WINNOW_ENVIRONMENT, or none.", "NAME"
    )

    yes: bool = SAFETY.switch(
        "Let --set and --topic-set delete more than the topics' own settings without asking."
    )
    keep_replaced: bool = SAFETY.switch(
        "Keep replaced and deleted segments for `recover --undo`. This frees no space until "
        "`recover --purge`."
    )
    timeout: str | None = SAFETY.option(
        "Start no new work after this time, for example 90s, 15m, 2h.", DURATION
    )

    free_at_least: str | None = SPACE.option(
        "Only delete segments, the oldest first, and only those that retention allows, until this "
        "much is freed. Needs no free space.",
        GOAL,
    )
    max_extra_space: str | None = SPACE.option(
        "Use at most this much extra space at a time, for example 10GiB; default: all free space.",
        SIZE,
    )
    keep_free: str | None = SPACE.option(
        "Leave this much free on each disk, for example 0 or 10GiB; default: 64KiB.", SIZE
    )
    throttle: str | None = SPACE.option(
        "Read and write at most this much per second, all tasks together, for example 50MiB; "
        "default: log.cleaner.io.max.bytes.per.second.",
        RATE,
    )
    read_everything: bool = SPACE.switch(
        "Read also segments that are known from an earlier run and have no key of a new record."
    )

    output: Sequence[str] = ELSEWHERE.several(
        "Write the complete cleaned log directory here, and only read the original; repeatable, "
        "one for each LOG_DIR.",
        "DIR|URL",
    )
    begin_again: bool = ELSEWHERE.switch("First remove what an unfinished run left at --output.")
    work_dir: str | None = ELSEWHERE.option(
        "Where to clean partitions of a remote LOG_DIR or for an --output; default: $TMPDIR.", "DIR"
    )
    work_space: str | None = ELSEWHERE.option(
        "Fetch at most this much there at once; default: half of the free space.", SIZE
    )

    all: bool = OUTPUT.switch(
        "Show each partition. By default, above 20 with work, only the largest and counts."
    )
    summary: bool = OUTPUT.switch(
        "Show only one line: what was done, what it freed, what was left alone and why."
    )
    detailed_exitcode: bool = OUTPUT.switch(
        "For plan: exit with 10 instead of 0 if there is work to do."
    )
    log_file: str | None = OUTPUT.option(
        "Append what is shown on stderr to this file as well, each line with its time.", "FILE"
    )
    json: bool = OUTPUT.switch("Print one JSON object on stdout instead of the table.")
    quiet: bool = OUTPUT.switch("Show no progress on stderr, only notes and errors.")
    report: str | None = OUTPUT.option(
        "Write the run's HTML page to this file; default: clean writes one in "
        "~/.local/state/winnow/reports, plan writes none.",
        "FILE|none",
    )
    result: str | None = OUTPUT.option(
        "Write the JSON object of --json to this file as well.", "FILE"
    )
    out: str | None = OUTPUT.option("For plan: save the plan in this file, for `apply`.", "FILE")
    ledger: str | None = OUTPUT.option(
        "The Delta table that records runs; default: $WINNOW_LEDGER, or "
        "~/.local/state/winnow/ledger.",
        "DIR|URL",
    )
    no_ledger: bool = OUTPUT.switch("Do not record the run.")
    metrics: str | None = OUTPUT.option(
        "Write metrics of a clean to a file for node_exporter's textfile collector, or push them "
        "to a Prometheus Pushgateway.",
        TARGET,
    )
    openlineage: str | None = OUTPUT.option(
        "Append OpenLineage events of a clean to a file, or post them to a URL.", URL
    )
    profile: bool = OUTPUT.switch(
        "Show on stderr where the time went: seconds, tasks and bytes of each phase."
    )

    origins: Mapping[str, str] = field(default_factory=dict)
    """Fields that were not typed but come from the file of --config -> the file and its table."""


def names_of(*groups: Group) -> tuple[str, ...]:
    """Return the options of these groups, in the order of `--help`."""
    return tuple(one.name for one in fields(CommandLine) if one.metadata.get("group") in groups)


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
    now: int | None = value_of(request, "now")
    return now_ms() if now is None else now


def stop_of(request: CommandLine) -> Stop:
    """Return the stop with the time limit. Raises UsageError if --timeout can't be understood."""
    return Stop(timeout_s=value_of(request, "timeout"))


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
