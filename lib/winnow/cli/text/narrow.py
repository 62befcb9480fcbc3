"""Texts and names on lines of 80 columns, as on the terminal of the person on call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from winnow.cli.out import apart, columns, first_columns
from winnow.words import one_line, redacted

COLUMNS = 80
NAME = 32
"""Columns of a name that is shown among others."""
_MOST_NAMES = 3
_WORD = re.compile(rf"[\w.+-]{{{NAME + 1},}}")
"""Of a text, what may be a long name."""


class Names:
    """Shortens names so that two never look equal. A name that can't be shown in `NAME` columns is
    counted instead.
    """

    def __init__(self, names: Iterable[str]) -> None:
        every = dict.fromkeys(map(one_line, names))
        shown = apart(every, NAME)
        self._shown = {name: text for name, text in shown.items() if columns(text) <= NAME}

    def few(self, names: Sequence[str], width: int) -> str:
        """Return the first names that fit `width`, and how many more there are. Empty if none
        fits.
        """
        names = [one_line(name) for name in names]
        shown = [self._shown[name] for name in names if name in self._shown]
        for many in range(min(len(shown), _MOST_NAMES), 0, -1):
            rest = len(names) - many
            text = ", ".join(shown[:many]) + (f" and {rest:,} more" if rest else "")
            if columns(text) <= width:
                return text
        return ""

    def in_text(self, text: str) -> str:
        """Return a text with its long names shortened."""
        return _WORD.sub(lambda word: self._shown.get(word[0], word[0]), text)


def rows(text: str, most: int = 1, *, indent: int = 2, hang: int = 2) -> list[str]:
    """Wrap a text to `COLUMNS`, and cut what is beyond `most` lines: at the end of a sentence if
    that leaves at least half of it, else at a word, with `…`.
    """
    text = one_line(redacted(text))
    lines = _wrapped(text, indent, hang)
    if len(lines) <= most:
        return lines
    whole = _longest(re.split(r"(?<=[.;]) ", text), lambda one: one.rstrip(";"), most, indent, hang)
    if whole and len(" ".join(whole)) * 2 > most * COLUMNS:
        return whole
    words = _longest(text.split(" "), lambda one: f"{one.rstrip(',:;')} …", most, indent, hang)
    return words or [f"{first_columns(line, COLUMNS - 1)}…" for line in lines[:most]]


def _longest(
    parts: Sequence[str], end: Callable[[str], str], most: int, indent: int, hang: int
) -> list[str]:
    """Return the lines of the most leading parts that fit. Empty if none does."""
    low, high = 0, len(parts)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_wrapped(end(" ".join(parts[:middle])), indent, hang)) <= most:
            low = middle
        else:
            high = middle - 1
    return _wrapped(end(" ".join(parts[:low])), indent, hang) if low else []


def _wrapped(text: str, indent: int, hang: int) -> list[str]:
    """Like `textwrap.wrap`, which counts characters and not columns."""
    lines, start = [" " * indent], " " * (indent + hang)
    for word in text.split():
        gap = " " if lines[-1].strip() else ""
        if columns(f"{lines[-1]}{gap}{word}") > COLUMNS >= columns(start + word):
            lines.append(start + word)
            continue
        rest = gap + word
        while rest:
            part = first_columns(rest, COLUMNS - columns(lines[-1]))
            lines[-1] += part
            rest = rest.removeprefix(part)
            if rest:
                lines.append(start)
    return lines if text.strip() else []
