"""The lines of the doctor's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from winnow.words import printable

MOST = 10
"""Lines in each list on the page. --json has all."""


def listed(title: str, lines: Sequence[str]) -> Iterator[Text]:
    """Yield the title and the lines; nothing if there are no lines."""
    if not lines:
        return
    yield plain("")
    yield bold(title)
    yield from (plain(f"  {line}") for line in lines[:MOST])
    if len(lines) > MOST:
        yield plain(f"  and {len(lines) - MOST} more: --json has all", style="dim")


def bold(text: str) -> Text:
    return plain(text, style="bold")


def plain(text: str, *, style: str = "") -> Text:
    return Text(printable(text), style=style)
