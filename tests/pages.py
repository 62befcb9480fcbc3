"""Pages of the documentation as programs: their blocks, and a reader who executes them in order.

A `console` block holds commands, each after `$ `, and their stdout. Shown output is compared: a
line `...` matches any lines, and `...` in a line matches anything in it. A command without shown
output only has to succeed. A command followed by `echo $?` only has to exit with the code shown.
`python` blocks share their names, including `spark`; their output is in the `text` block after
them, if there is one. `sql` blocks run unchanged. Blocks in other languages are not run.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.session import verbs_use
from winnow.cli.main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PROGRAM = "./spark-submit.sh"
LOG_DIR = "/var/lib/kafka"
"""What pages call the log directory."""

_FENCED = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"[|><;&`$(]")


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str
    where: str
    """Page and line, for error messages."""


@dataclass(frozen=True, slots=True)
class Command:
    line: str
    shown: str
    """The output on the page; empty if it shows none."""
    where: str


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], f"{page.name}:{text.count(chr(10), 0, found.start()) + 1}")
        for found in _FENCED.finditer(text)
        if not languages or found[1] in languages
    ]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a `console` block. A backslash at the end of a line continues it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.replace("\\\n", "").partition("\n")
        yield Command(line, shown, block.where)


@dataclass
class Reader:
    """Who sits before a page, in the directory `place`; commands start there, in this process where
    that can be.
    """

    spark: SparkSession
    place: Path
    instead: Mapping[str, str] = field(default_factory=dict)
    """Words of the page -> what the reader has in their place, the log directory above all."""
    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""
    """By all snippets."""

    def __post_init__(self) -> None:
        self.names["spark"] = self.spark

    def follow(self, page: Path) -> None:
        printed = ""
        for block in blocks(page):
            if block.language == "console":
                self._type(block)
            elif block.language == "python":
                with redirect_stdout(io.StringIO()) as out:
                    exec(compile(self.own(block.text), block.where, "exec"), self.names)  # noqa: S102 - the point
                printed = out.getvalue()
                self.printed += printed
            elif block.language == "text":
                _compare(block.text, printed, block.where)
            elif block.language == "sql":
                for statement in filter(str.strip, self.own(block.text).split(";")):
                    self.spark.sql(statement).collect()

    def own(self, text: str) -> str:
        for word, mine in self.instead.items():
            text = text.replace(word, mine)
        return text

    def _type(self, block: Block) -> None:
        last, asked = 0, True
        for command in commands(block):
            if command.line == "echo $?":
                assert command.shown.strip() == str(last), (
                    f"{command.where}: the exit code is {last}"
                )
                asked = True
                continue
            assert asked, f"{command.where}: the command before `{command.line}` failed with {last}"
            last, printed, complaints = self._run(self.own(command.line))
            asked = last == 0
            if command.shown:
                _compare(
                    self.own(command.shown),
                    printed,
                    f"{command.where}: {command.line}\n{complaints}",
                )
        assert asked, f"{block.where}: the last command failed with {last}: {complaints}"

    def _run(self, line: str) -> tuple[int, str, str]:
        typed, _, file = line.partition(" > ")
        words = shlex.split(typed, comments=True)
        if (
            words[0] != PROGRAM
            or _SHELL.search(typed.partition(" #")[0])
            or words[1].endswith(".py")
        ):
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=self.place,
                check=False,
                capture_output=True,
                text=True,
                env=_environment(),
            )
            return done.returncode, done.stdout, done.stderr
        code, out, err = run_here(self.spark, words[1:])
        if file:
            (self.place / file.strip()).write_text(out, encoding="utf-8")
        return code, "" if file else out, err


def run_here(spark: SparkSession, words: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr (both pipes) of a command line in a session that stays open."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.delenv("COLUMNS", raising=False)
        code = run_over(spark, words)
    return code, out.getvalue(), err.getvalue()


def run_over(spark: SparkSession, words: list[str]) -> int:
    """The exit code of a command line in a session that stays open."""
    with pytest.MonkeyPatch.context() as patch:
        verbs_use(spark, patch)
        return run(words, program=PROGRAM)


def checkout(place: Path) -> Path:
    """`place` as the directory that pages are read in: a checkout whose own files a reader would
    name.
    """
    for name in ("spark-submit.sh", "demo", "examples"):
        (place / name).symlink_to(ROOT / name)
    return place


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def _compare(shown: str, printed: str, where: str) -> None:
    pattern = "".join(
        r"(?:.*\n)*?"
        if line == "..."
        else ".*?".join(map(re.escape, line.rstrip().split("..."))) + r"[ ]*\n"
        for line in shown.rstrip("\n").split("\n")
    )
    assert re.fullmatch(pattern + r"\n*", printed), f"{where}\nshown:\n{shown}\nprinted:\n{printed}"
