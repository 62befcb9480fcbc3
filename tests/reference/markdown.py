"""Tables and words as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

COLUMNS = 100
"""Prose wraps here; tables do not."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield row(head)
    yield "|---" * len(head) + "|"
    yield from map(row, rows)


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') or ' ' for cell in cells)} |"


def code(text: str) -> str:
    return f"`{text}`"


def wrapped(text: str, *, hanging: str = "") -> Iterator[str]:
    """Lines of at most `COLUMNS` characters. `hanging` indents all but the first."""
    yield from textwrap.wrap(
        text,
        COLUMNS,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
