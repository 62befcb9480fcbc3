"""Every command of docs/output.md is one that the command line takes, on places that there are
stores for.
"""

from __future__ import annotations

import shlex

import pytest
import typer

from tests.pages import DOCS, blocks, commands
from winnow.cli.app import app
from winnow.storage.open_store import open_store

LINES = [command.line for block in blocks(DOCS / "output.md") for command in commands(block)]


@pytest.mark.parametrize("line", LINES)
def test_a_command_is_understood(line: str) -> None:
    verbs = getattr(typer.main.get_command(app), "commands")  # noqa: B009 - the group that several verbs are
    _, verb, *words = shlex.split(line, comments=True)
    taken = verbs[verb].make_context(verb, words).params
    assert taken["log_dirs"]
    for place in (*taken["log_dirs"], *(taken["output"] or ())):
        open_store(place)


def test_there_are_some() -> None:
    assert len(LINES) >= 5
