"""A command that a page names is read by bash as it was meant."""

from __future__ import annotations

import os
import subprocess

import pytest

from winnow.cli.text.next_command import typed

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
