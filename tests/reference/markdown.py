"""Tables and words as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield row(head)
    yield "|---" * len(head) + "|"
    yield from map(row, rows)


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') or ' ' for cell in cells)} |"


def code(text: str) -> str:
    return f"`{text}`"
