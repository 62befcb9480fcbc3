"""Check the page of `doctor`: 24 lines of 80 columns, the verdict and the next command first."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.unit.cli.results import printed
from winnow.cli.text.one_page import one_page

if TYPE_CHECKING:
    from winnow.cli.options import CommandLine
    from winnow.metrics.growth import Growth
    from winnow.verbs.doctor.values import Diagnosis

COMMANDS = ("  ./spark-submit.sh ", "  cp -a ")
ORDER = ("What happened", "Will the broker start?", "What to run next", "Also found")


def columns(text: str) -> int:
    """The columns of a terminal, by the tables of Python."""
    marks = ("Mn", "Me")
    seen = [c for c in text if unicodedata.category(c) not in marks]
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in seen)


def checked(found: Diagnosis, request: CommandLine, growth: Sequence[Growth] = ()) -> list[str]:
    """Return the lines of the page, which fit."""
    lines = printed(one_page(found, request, growth), 80).splitlines()
    text = "\n".join(lines)
    assert len(lines) <= 24, text
    wide = [line for line in lines if columns(line) > 80 and not line.startswith(COMMANDS)]
    assert wide == [], text
    heads = [line for line in lines if line in ORDER]
    assert heads == [one for one in ORDER if one in heads], text
    assert heads[:2] == list(ORDER[:2]), text
    assert lines.index(ORDER[1]) <= 10, text
    commands = [at for at, line in enumerate(lines) if line.startswith(COMMANDS[0])]
    assert bool(commands) == bool(found.advice), text
    assert not commands or commands[0] <= 20, text
    also = lines[lines.index(ORDER[3]) :] if ORDER[3] in lines else []
    assert len(set(also)) == len(also), text
    return lines
