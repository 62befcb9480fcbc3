"""The only way to stdout and stderr. Content of files never reaches a terminal unescaped.

Anyone who can write to a log directory may choose the names of groups, transactions, runs and
files, and a terminal obeys escape sequences. Every verb writes through this module, which escapes
them. A test looks for modules that write otherwise. Credentials in URLs are removed.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stderr
from dataclasses import dataclass, fields
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TextIO, cast
from unicodedata import normalize

from rich.cells import cell_len
from rich.console import Console
from rich.status import Status
from rich.text import Text

from winnow.errors import WinnowError
from winnow.words import escaped, one_line, printable, redacted

if TYPE_CHECKING:
    from winnow.policy.versions import KnownVersion

PIPE_WIDTH = 100
"""Columns if there is no terminal to ask."""
_SPINNER = 2
"""Columns before a live line."""
LEAST_NAME = 20
"""Least width of a name that is cut."""
_KEPT_BEFORE = 4
"""Characters that are kept of what names have in common, before their first difference."""
Row = Mapping[str, str]
"""Of a table, by the headings of the columns."""


@dataclass(frozen=True, slots=True)
class Styled:
    """A line in a style of rich, such as `bold yellow`."""

    text: str
    style: str = ""

    def lines(self, _width: int) -> list[str]:
        return [self.text]


@dataclass(frozen=True, slots=True)
class Paragraph(Styled):
    """Words that a page wraps to its width, but to at least 40 columns. `hang`: indent of the lines
    after the first one, beyond its own. A word that is longer than a line, such as a path, stays
    whole.
    """

    indent: int = 6
    hang: int = 0
    break_on_hyphens: bool = False

    def lines(self, width: int) -> list[str]:
        lines = textwrap.wrap(
            redacted(self.text),
            max(width, 40),
            initial_indent=" " * self.indent,
            subsequent_indent=" " * (self.indent + self.hang),
            break_on_hyphens=self.break_on_hyphens,
            break_long_words=False,
        )
        return lines or [""]


Line = str | Styled


def item(text: str, style: str = "") -> Paragraph:
    """Return an item of a list, whose further lines are indented more."""
    return Paragraph(text, style, indent=2, hang=2)


def section(title: str, lines: Iterable[Line], *, style: str = "bold") -> Iterator[Line]:
    """Yield an empty line, the title, and the lines. Nothing if there are no lines."""
    for number, line in enumerate(lines):
        if not number:
            yield from ("", Styled(title, style))
        yield line


def aligned(rows: Sequence[Row], *words: str) -> list[str]:
    """Return the line of the headings, and one for each row. The columns `words` are left-aligned,
    figures right-aligned.
    """
    lines = [{name: name for name in rows[0]}, *rows]
    widths = {name: max(columns(line[name]) for line in lines) for name in rows[0]}

    def padded(text: str, name: str) -> str:
        room = " " * (widths[name] - columns(text))
        return text + room if name in words else room + text

    return ["  ".join(padded(line[name], name) for name in widths).rstrip() for line in lines]


def fitted(
    rows: Sequence[Row], width: int, *, names: int = 1, needed: int, whole: bool = False
) -> list[Row]:
    """Cut long names in the middle so that each row fits `width`. Where names would get too short,
    the last columns are omitted. Different names stay different (`apart`).

    The first `names` columns are names; the first `needed` columns are never omitted. `whole`: cut
    and omit nothing.
    """
    if whole:
        return [*rows]
    widths = [max(map(columns, (name, *(row[name] for row in rows)))) for name in rows[0]]
    while True:
        left = width - sum(widths[names:]) - 2 * (len(widths) - 1)
        if left >= sum(min(one, LEAST_NAME) for one in widths[:names]) or len(widths) <= needed:
            break
        widths.pop()
    while sum(widths[:names]) > left and (longest := max(widths[:names])) > LEAST_NAME:
        widths[widths.index(longest)] -= 1
    most = dict(zip(rows[0], widths, strict=False))
    shown = {name: apart([row[name] for row in rows], most[name]) for name in most}
    return [{name: shown[name][row[name]] for name in most} for row in rows]


def apart(names: Iterable[str], width: int) -> dict[str, str]:
    """Shorten each name to `width` columns, by name. Names that `cut` would make equal are cut
    where they begin alike instead. Names that still look equal stay whole, in ASCII.
    """
    every = {name: cut(name, width) for name in names}
    for alike in _equal(every):
        # The first and the last name in order have in common what all have.
        least, greatest = min(alike), max(alike)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(least, greatest, strict=False))
        begin = max(sum(1 for _ in same) - _KEPT_BEFORE, 0)
        every |= {name: f"…{cut(name[begin:], width - 1)}" for name in alike}
    return every | {name: _ascii(name) for alike in _equal(every) for name in alike}


def _equal(shown: Mapping[str, str]) -> list[list[str]]:
    """Return the names that look alike as they are shown, in groups of at least two. Unicode has
    several spellings of a character, and characters without a width.
    """
    groups: dict[str, list[str]] = {}
    for name, text in shown.items():
        look = text
        if not text.isascii():
            look = "".join(c for c in normalize("NFKC", text) if columns(c))
        groups.setdefault(look, []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _ascii(name: str) -> str:
    return "".join(c if c.isascii() else escaped(c) for c in name)


def cut(name: str, width: int) -> str:
    """Shorten a name in the middle. Its end has the number of the partition."""
    if columns(name) <= width:
        return name
    end = width // 2
    return f"{first_columns(name, width - end - 1)}…{first_columns(name[::-1], end)[::-1]}"


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes. East Asian wide characters take two,
    combining marks none.
    """
    return cell_len(text)


def first_columns(text: str, width: int) -> str:
    """Return the longest beginning of a text that takes at most `width` columns."""
    for at, character in enumerate(text):
        width -= columns(character)
        if width < 0:
            return text[:at]
    return text


class Guarded:
    """Replaces sys.stdout or sys.stderr for code that writes there directly: a library, a warning,
    Python itself. `keep` also gets each line.
    """

    def __init__(self, raw: TextIO, keep: Callable[[str], object] | None = None) -> None:
        self.raw = raw
        self.keep = keep
        self._rest = ""

    def write(self, text: str) -> int:
        shown = printable(redacted(text))
        self.raw.write(shown)
        if self.keep is not None:
            *lines, self._rest = (self._rest + shown).split("\n")
            for line in filter(None, lines):
                self.keep(line)
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        return getattr(self.raw, name)


def guard_streams() -> None:
    """Replace both streams for the rest of this process."""
    sys.stdout, sys.stderr = (
        cast("TextIO", Guarded(_raw(stream))) for stream in (sys.stdout, sys.stderr)
    )


def flush_streams() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def copying_errors(keep: Callable[[str], object]) -> AbstractContextManager[Any]:
    """Also hand each line of stderr to `keep` while the block runs, but not the live line."""
    return redirect_stderr(cast("TextIO", Guarded(_raw(sys.stderr), keep)))


def _raw(stream: TextIO) -> TextIO:
    return stream.raw if isinstance(stream, Guarded) else stream


def as_json(value: Mapping[str, Any]) -> str:
    """Return the JSON text. Values of dataclasses in it become objects."""
    return f"{redacted(json.dumps(value, indent=2, default=fields_of))}\n"


def tell_json(value: Mapping[str, Any]) -> None:
    tell(lambda: _raw(sys.stdout).write(as_json(value)))


def tell_page(lines: Iterable[Line]) -> None:
    """Print each line as one, of any length and whatever it contains. A style applies to the whole
    line.
    """
    console = _paper()

    def write() -> None:
        for line in lines:
            styled = Styled(line) if isinstance(line, str) else line
            for text in styled.lines(console.width):
                shown = Text(one_line(redacted(text)), style=styled.style)
                console.print(shown, soft_wrap=True)

    tell(write)


def page_width() -> int:
    """Return the columns of a page: fixed, except on a terminal."""
    return _paper().width


def _paper() -> Console:
    console = _console(sys.stdout)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    return console


def tell_contents(pieces: Iterable[str]) -> None:
    """Write content of files to stdout, in pieces. It is data: URLs in it are not changed."""
    tell(lambda: _raw(sys.stdout).writelines(map(printable, pieces)))


def picked(value: object, *names: str) -> dict[str, Any]:
    """Return these attributes by their names, for JSON."""
    return {name: getattr(value, name) for name in names}


def fields_of(value: Any, *left_out: str) -> dict[str, Any]:  # noqa: ANN401 - of a dataclass
    """Return all fields but those left out, for JSON."""
    return picked(value, *(one.name for one in fields(value) if one.name not in left_out))


def by_the_rules(kafka: KnownVersion) -> str:
    return f"By the {kafka}."


def version_keys(kafka: KnownVersion) -> dict[str, str]:
    """Return the keys of JSON objects: the versions, as `4.3` or `2.8 to 3.9`, and how that is
    known.
    """
    return {"kafka_version": kafka.versions, "kafka_version_source": kafka.how}


def tell(write: Callable[[], object]) -> None:
    """Write to stdout. If its reader has closed it, the run is not affected. Raises WinnowError if
    it can't be written, as on a full disk. Later calls then write nowhere.
    """
    try:
        write()
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(error, BrokenPipeError):
            raise WinnowError(
                "stdout can't be written, so the output is not complete",
                found=error.strerror,
                hint="What the command did is done.",
            ) from error


def complain(message: str) -> None:
    """Print a note or an error on stderr."""
    tell_errors([f"winnow: {message}"])


def tell_errors(lines: Iterable[str]) -> None:
    """Print each line on stderr. Line breaks in one are escaped: a name with one could look like a
    second message.
    """
    stream = errors()
    stream.write("".join(f"{one_line(line)}\n" for line in lines))
    stream.flush()


def errors() -> Guarded:
    """Return stderr for text of any kind, such as a traceback."""
    return sys.stderr if isinstance(sys.stderr, Guarded) else Guarded(sys.stderr)


def live_line(line: Callable[[int], str]) -> Status | None:
    """Return a line on stderr that is refreshed while it is shown; None if there is no terminal, or
    if it must get no escape sequences. `line` returns the text for a number of columns.
    """
    console = _console(sys.stderr)
    if not console.is_terminal or console.is_dumb_terminal or _plain():
        return None
    return _LiveStatus(_Live(lambda: line(console.width - _SPINNER)), console=console)


def tell_notes(notes: Iterable[str]) -> None:
    for note in notes:
        complain(f"note: {note}")


def questions_are_seen() -> bool:
    return sys.stderr.isatty()


def is_terminal() -> bool:
    return sys.stdout.isatty()


class _Live:
    def __init__(self, line: Callable[[], str]) -> None:
        self._line = line

    def __rich__(self) -> Text:
        return Text(one_line(redacted(self._line())), no_wrap=True, overflow="ellipsis")


class _LiveStatus(Status):
    def start(self) -> None:
        """Show the line, and print above it what is written to stderr meanwhile."""
        before = sys.stderr
        super().start()  # rich has replaced stderr until `stop`
        if isinstance(before, Guarded):
            sys.stderr = cast("TextIO", Guarded(sys.stderr, before.keep))


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Write nothing more. Rich itself would end the process, with exit code 1."""
        self.quiet = True


def _console(stream: TextIO) -> Console:
    """Return a console. Without a terminal, or with NO_COLOR, it has no colour and no attribute."""
    return _Console(
        file=_raw(stream),
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None if _plain() else "auto",
    )


def _plain() -> bool:
    return bool(os.environ.get("NO_COLOR"))
