"""How an option is declared, in one place: as a field of a frozen value, with its help, with what
it takes, and with its place in the help. The command, the file of --config and a saved plan read
the field.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import typer

from winnow.basic_auth import parse_url
from winnow.cli.line.units import (
    parse_duration,
    parse_goal,
    parse_hex,
    parse_key,
    parse_now,
    parse_rate,
    parse_size,
    parse_time,
)
from winnow.metrics.prometheus import parse_target
from winnow.policy.sources import parse_set, parse_topic_set
from winnow.policy.versions import asked_version


class Parse(Protocol):
    def __call__(self, text: str, /, *, option: str) -> object:
        """Return what the words mean. Raises UsageError, which names the option."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What an option takes: the word in its help, and how the value is read. None: as it is."""

    metavar: str | None
    parse: Parse | None = None


DURATION = Kind("DURATION", parse_duration)
GOAL = Kind("SIZE", parse_goal)
HEX = Kind("HEX", parse_hex)
KEY = Kind("KEY", parse_key)
NOW = Kind("MS|ISO-8601", parse_now)
RATE = Kind("RATE", parse_rate)
SET = Kind("KEY=VALUE", parse_set)
SIZE = Kind("SIZE", parse_size)
TARGET = Kind("FILE.prom|URL", parse_target)
TIME = Kind("MS|ISO-8601", parse_time)
TOPIC_SET = Kind("GLOB:KEY=VALUE", parse_topic_set)
URL = Kind("FILE|URL", parse_url)
VERSION = Kind("X.Y", asked_version)


@dataclass(frozen=True, slots=True)
class Group:
    """A part of a long help. Its methods return the fields of its options, in its order."""

    title: str

    def option(
        self,
        words: str,
        takes: Kind | str | None = None,
        *,
        name: str | None = None,
        default: Any = None,  # noqa: ANN401 - that of the field
        **more: Any,  # noqa: ANN401 - what typer takes
    ) -> Any:  # noqa: ANN401
        """Return a field that an option of the command line sets.

        `words`: its help. `takes`: a kind, or a word for a text that is taken as it is; None for a
        switch and for choices. `name`: by default that of the field.
        """
        kind = takes if isinstance(takes, Kind) else Kind(takes)

        def made(field_name: str) -> Any:  # noqa: ANN401 - typer's
            return typer.Option(
                name or dashed(field_name),
                help=words,
                metavar=kind.metavar,
                rich_help_panel=self.title,
                **more,
            )

        return field(default=default, metadata={"typer": made, "parse": kind.parse, "group": self})

    def several(self, words: str, takes: Kind | str, *, name: str | None = None) -> Any:  # noqa: ANN401
        """Return a field that is empty, and to which each use of its option adds a value."""
        return self.option(words, takes, name=name, default=())

    def switch(self, words: str) -> Any:  # noqa: ANN401
        """Return a field that is False without its option."""
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
