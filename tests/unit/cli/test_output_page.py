"""Every command in docs/output.md parses, and every place in it has a tree."""

from __future__ import annotations

import shlex

import pytest
import typer

from tests.pages import DOCS, blocks, commands
from winnow.cli.app import app
from winnow.storage.places import open_tree

LINES = [command.line for block in blocks(DOCS / "output.md") for command in commands(block)]


@pytest.mark.parametrize("line", LINES)
def test_command_parses_and_its_places_have_stores(line: str) -> None:
    verbs = getattr(typer.main.get_command(app), "commands")  # noqa: B009 - the group that several verbs are
    _, verb, *words = shlex.split(line, comments=True)
    taken = verbs[verb].make_context(verb, words).params
    assert taken["log_dirs"]
    for place in (*taken["log_dirs"], *(taken["output"] or ())):
        open_tree(place)


def test_page_has_commands() -> None:
    assert len(LINES) >= 5
