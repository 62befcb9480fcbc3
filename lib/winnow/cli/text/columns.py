"""Fit tables to the width of a screen."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_NAME = 20

Row = tuple[str, ...]


def fitted(rows: Sequence[Row], width: int, *, names: int = 1, needed: int) -> list[Row]:
    """Cut long names in the middle so that each row fits `width`. Where names would get too short,
    the last columns are omitted.

    The first `names` columns are names; the first `needed` columns are never omitted.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    columns = len(widths)
    while True:
        left = width - sum(widths[names:columns]) - 2 * (columns - 1)
        if left >= sum(min(one, LEAST_NAME) for one in widths[:names]) or columns <= needed:
            break
        columns -= 1
    room = list(widths[:names])
    while sum(room) > left and max(room) > LEAST_NAME:
        room[room.index(max(room))] -= 1
    return [
        (*(cut(name, most) for name, most in zip(row, room, strict=False)), *row[names:columns])
        for row in rows
    ]


def cut(name: str, width: int) -> str:
    """Shorten a name in the middle. Its end has the number of the partition."""
    if len(name) <= width:
        return name
    end = width // 2
    return f"{name[: width - end - 1]}…{name[-end:]}"
