"""A command that a page names is read by bash as it was meant."""

from __future__ import annotations

import os
import subprocess

import pytest

from winnow import resources
from winnow.cli.options import CommandLine
from winnow.cli.text.next_command import command, typed

WORDS = [
    "plain",
    "two words",
    "it's",
    "new\nline",
    "tab\tquote'\\",
    "\udcff",
    "\x1b[31m",
    "grün",
    "",
]


@pytest.mark.parametrize("word", WORDS)
def test_bash_reads_the_words(word: str) -> None:
    line = typed(["printf", "%s", word])
    assert line.isprintable()
    told = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert told == os.fsencode(word)


@pytest.mark.parametrize(("checkout", "program"), [(True, "./spark-submit.sh"), (False, "winnow")])
def test_command_starts_with_the_program_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, *, checkout: bool, program: str
) -> None:
    monkeypatch.setattr(resources, "is_checkout", lambda: checkout)
    assert command(["verify"], CommandLine(log_dirs=("/logs",))) == [program, "verify", "/logs"]
