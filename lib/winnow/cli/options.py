"""Options: how one is declared, and those of several verbs. An option is declared in one place, as
a field of a frozen value, with its help, with what it takes, and with its part of the help. The
command, the file of --config and a saved plan read the field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import typer

from winnow.basic_auth import parse_url
from winnow.cleaning.request import OnCorrupt, Only, UncleanShutdown
from winnow.cli.line import units
from winnow.metrics.prometheus import parse_target
from winnow.policy.sources import parse_set, parse_topic_set
from winnow.policy.versions import asked_version


class Parse(Protocol):
    def __call__(self, text: str, /, *, option: str) -> object:
        """Return what the words mean. Raises UsageError, which names the option."""


@dataclass(frozen=True, slots=True)
class OptionType:
    """What an option takes: the word in its help, and how the value is read. None: as it is."""

    metavar: str | None
    parse: Parse | None = None


DURATION = OptionType("DURATION", units.parse_duration)
GOAL = OptionType("SIZE", units.parse_goal)
HEX = OptionType("HEX", units.parse_hex)
KEY = OptionType("KEY", units.parse_bytes)
NOW = OptionType("MS|ISO-8601", units.parse_now)
PATTERN = OptionType("PATTERN", units.parse_bytes)
RATE = OptionType("RATE", units.parse_rate)
SET = OptionType("KEY=VALUE", parse_set)
SIZE = OptionType("SIZE", units.parse_size)
TARGET = OptionType("FILE.prom|URL", parse_target)
TIME = OptionType("MS|ISO-8601", units.parse_time)
TOPIC_SET = OptionType("GLOB:KEY=VALUE", parse_topic_set)
URL = OptionType("FILE|URL", parse_url)
VERSION = OptionType("X.Y", asked_version)


@dataclass(frozen=True, slots=True)
class Group:
    """A section of a long `--help`. Its methods declare options; the help keeps their order."""

    title: str

    def option(
        self,
        words: str,
        takes: OptionType | str | None = None,
        *,
        name: str | None = None,
        default: Any = None,  # noqa: ANN401 - that of the field
        **more: Any,  # noqa: ANN401 - what typer takes
    ) -> Any:  # noqa: ANN401
        """Declare an option, and return the field that it sets.

        `words`: its help. `takes`: a kind, or a word for a text that is taken as it is; None for a
        switch and for choices. `name`: by default that of the field.
        """
        kind = takes if isinstance(takes, OptionType) else OptionType(takes)

        def made(field_name: str) -> Any:  # noqa: ANN401 - typer's
            return typer.Option(
                name or dashed(field_name),
                help=words,
                metavar=kind.metavar,
                rich_help_panel=self.title,
                **more,
            )

        return field(default=default, metadata={"typer": made, "parse": kind.parse, "group": self})

    def several(self, words: str, takes: OptionType | str, *, name: str | None = None) -> Any:  # noqa: ANN401
        """Declare an option that may be repeated. The field has all values."""
        return self.option(words, takes, name=name, default=())

    def switch(self, words: str) -> Any:  # noqa: ANN401
        """Declare an option that takes no value. The field is True if it is given."""
        return self.option(words, default=False)


WHAT = Group("What to clean")
SETTINGS = Group("Settings")
SAFETY = Group("Safety")
SPACE = Group("Space and speed")
ELSEWHERE = Group("Cleaning into another place")
OUTPUT = Group("Output")
OTHER = Group("Other")
GROUPS = (WHAT, SETTINGS, SAFETY, SPACE, ELSEWHERE, OUTPUT, OTHER)
"""In the order of a long help."""


def argument(words: str, metavar: str, **default: Any) -> Any:  # noqa: ANN401 - as above
    """Return a field that the words without an option set. They are always needed."""
    return field(
        **default, metadata={"typer": lambda _: typer.Argument(metavar=metavar, help=words)}
    )


def dashed(name: str) -> str:
    """Return the option of a field that has no other name."""
    return f"--{name.replace('_', '-')}"


def value_of(line: Any, name: str) -> Any:  # noqa: ANN401 - as its kind reads it
    """Return what was typed for a field, as its kind reads it. None if it was not given. Raises
    UsageError for a value that can't be understood.
    """
    text = getattr(line, name)
    return None if text is None else parsers_of(line)[name](text, option=dashed(name))


def parsers_of(line: Any) -> dict[str, Parse]:  # noqa: ANN401 - a class of fields, or a value
    """Return what reads the values of the fields, by their names, for those that are not taken as
    they are.
    """
    return {one.name: one.metadata["parse"] for one in fields(line) if one.metadata.get("parse")}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The request as typed, for all verbs. Fields are in the order of `--help`, group by group.
    Scripts depend on the names of the options: do not change them.
    """

    log_dirs: Sequence[str] = argument("Directories of a broker's log.dirs.", "LOG_DIR", default=())

    topics: Sequence[str] = WHAT.several("Only topics that match; repeatable.", "GLOB")
    exclude: Sequence[str] = WHAT.several(
        "Not topics that match, even if --topics does; repeatable.", "GLOB"
    )
    only: Only | None = WHAT.option(  # noqa: RUF009 - a field
        "Run only this one of the two."
    )
    replace_cleaner: bool = WHAT.switch(
        "Winnow is the cleaner of this broker, whose log.cleaner.enable is false: clean compacted "
        "topics too. Default: leave them unchanged, as the broker does."
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
        "After a crash, first cut the zeros at the end of indexes that a broker builds anew. Then "
        "only delete segments, the oldest first, and only those that retention allows, until this "
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
        "Show each partition. By default, above 20 with work, only the largest and counts. For "
        "doctor: show all details, instead of 24 lines."
    )
    summary: bool = OUTPUT.switch(
        "Show only one line: what was done or found, what it freed, what was left alone and why."
    )
    detailed_exitcode: bool = OUTPUT.switch(
        "For plan: exit with 10 instead of 0 if there is work to do, and with 11 if partitions are "
        "not cleaned because log.cleaner.enable is false. For doctor: with 10 if something needs "
        "attention."
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
        "Write metrics of a clean, or of doctor, to a file for node_exporter's textfile collector, "
        "or push them to a Prometheus Pushgateway.",
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
