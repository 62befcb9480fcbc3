"""The one way to stdout and stderr. Nothing that a file holds reaches a terminal as it is.

Names of groups, transactions, runs and files may come from whoever can write to a log directory,
and a terminal obeys escape sequences. Every verb writes through this module, which shows them as
escapes. A test looks for modules that write otherwise. Credentials in URLs are left out.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable
from typing import Any, TextIO, cast

from rich.console import Console
from rich.status import Status
from rich.text import Text

from winnow.words import one_line, printable, redacted

PIPE_WIDTH = 100
"""Columns where there is no terminal to ask."""
_INDENT = 6


class Wrapped(Text):
    """A paragraph that was broken into lines here: its line breaks are ours."""


def wrapped(text: str, width: int, *, style: str = "", break_on_hyphens: bool = False) -> Wrapped:
    """A paragraph of at least 40 columns."""
    space = " " * _INDENT
    lines = textwrap.wrap(
        redacted(text),
        max(width, 40),
        initial_indent=space,
        subsequent_indent=space,
        break_on_hyphens=break_on_hyphens,
    )
    return Wrapped("\n".join(map(one_line, lines)), style=style)


class Paper:
    """Text for people, in lines. `stream`: sys.stdout by default."""

    def __init__(self, stream: TextIO | None = None, *, width: int | None = None) -> None:
        stream = _raw(sys.stdout if stream is None else stream)
        self._console = _console(stream, width)
        if width is None and not self._console.is_terminal and "COLUMNS" not in os.environ:
            self._console = _console(stream, PIPE_WIDTH)

    @property
    def width(self) -> int:
        """Columns: that does not depend on where it runs, unless that is a terminal."""
        return self._console.width

    def print(self, text: str | Text = "") -> None:
        """One line, however long, after those line breaks that it begins with. A style is that of
        the whole text.
        """
        whole = text if isinstance(text, Text) else Text(text)
        plain = redacted(whole.plain)
        line = plain.lstrip("\n")
        ours = "\n" * (len(plain) - len(line))
        shown = printable(plain) if isinstance(text, Wrapped) else ours + one_line(line)
        self._console.print(Text(shown, style=whole.style), soft_wrap=True)

    def lines(self, lines: Iterable[str]) -> None:
        """Each is one line, whatever is in it."""
        for line in lines:
            self.print(Text(one_line(line)))


class Errors:
    """stderr: progress, notes and errors."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = _raw(sys.stderr if stream is None else stream)
        self._console = _console(self._stream, None)

    def line(self, text: str) -> None:
        """Its lines, as a message of Winnow."""
        self._write(f"winnow: {text}\n")

    def lines(self, lines: Iterable[str]) -> None:
        self._write("".join(f"{one_line(line)}\n" for line in lines))

    def traceback(self) -> None:
        """Of what is being handled."""
        self._write(traceback.format_exc())

    def as_told(self, show: Callable[..., object]) -> None:
        """What a library writes to the `file` that it is given."""
        told = Kept()
        show(file=told)
        self._write(told.text)

    def live(self, line: Callable[[], str]) -> Status | None:
        """A line that is asked for anew as long as it is shown; None where there is no terminal."""
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            return None
        return self._console.status(_Live(line))

    def _write(self, text: str) -> None:
        self._stream.write(_shown(text))
        self._stream.flush()


class Contents:
    """What files hold, for stdout, in pieces. It is data: what looks like a URL in it stays as it
    is.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = _raw(sys.stdout if stream is None else stream)

    def json(self, text: str) -> None:
        """Part of a JSON text, which has no control characters: `json` escapes them."""
        self._stream.write(text)

    def lines(self, text: str) -> None:
        self._stream.write(f"{printable(text)}\n")


class Guarded:
    """Stands for sys.stdout or sys.stderr, for whatever writes there without asking: a library, a
    warning, Python.
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        self.raw.write(_shown(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        return getattr(self.raw, name)


def guard_streams() -> None:
    """For the rest of this process."""
    sys.stdout, sys.stderr = (
        cast("TextIO", Guarded(_raw(stream))) for stream in (sys.stdout, sys.stderr)
    )


def _raw(stream: TextIO) -> TextIO:
    return stream.raw if isinstance(stream, Guarded) else stream


class Kept:
    """A file in memory, for who writes to files."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return False


def tell_json(value: str | dict[str, Any]) -> None:
    """One JSON text on stdout."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2)
    tell(lambda: _raw(sys.stdout).write(f"{redacted(text)}\n"))


def tell(write: Callable[[], object]) -> None:
    """Write to stdout; that its reader has gone changes nothing about the run."""
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def complain(message: str) -> None:
    """A note or an error, on stderr."""
    Errors().line(message)


def is_terminal() -> bool:
    """Whether a person looks at stdout."""
    return sys.stdout.isatty()


class _Live:
    def __init__(self, line: Callable[[], str]) -> None:
        self._line = line

    def __rich__(self) -> Text:
        return Text(one_line(redacted(self._line())))


def _console(stream: TextIO | None, width: int | None) -> Console:
    """No colour off a terminal or with NO_COLOR."""
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width)


def _shown(text: str) -> str:
    return printable(redacted(text))
