"""Where a read begins and ends, as options of `kafka-log`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from winnow.clock import ms_of
from winnow.errors import UsageError

Bound: TypeAlias = int | str | datetime | Mapping[str, Mapping[int, int]]
"""An offset, a time (ISO-8601 or datetime; UTC by default), or offsets by topic and partition."""

_EXPECTED = (
    "an offset, a time such as '2026-11-21T09:30:00Z', or offsets such as {'orders': {0: 23}}"
)
_END = ("timestampBefore", "endingOffsets")


@dataclass(frozen=True, slots=True)
class Point:
    """A time, offsets, or one offset for all partitions."""

    at: int | Mapping[str, Mapping[int, int]]
    is_time: bool
    """`at` is in ms since the epoch."""


def range_options(start: Bound | None, end: Bound | None) -> dict[str, str]:
    """Return the options for a range from `start` up to `end`, exclusive. Times are those of the
    records, anywhere in the log. Raises UsageError if it ends before it begins.
    """
    first = None if start is None else parse_point(start, option="start", up=True)
    last = None if end is None else parse_point(end, option="end", up=True)
    match first, last:
        case Point(int(begin), one), Point(int(after), other) if one == other and begin > after:
            raise UsageError(
                "end is before start",
                expected="a range, with end after start",
                found=f"start={start!r}, end={end!r}",
            )
    return _option(first, "timestampFrom", "startingOffsets") | _option(last, *_END)


def state_options(point: Point) -> dict[str, str]:
    """Return the options for all records up to a point, which counts."""
    if isinstance(point.at, int):
        return _option(Point(point.at + 1, point.is_time), *_END)
    after = {
        topic: {partition: offset + 1 for partition, offset in partitions.items()}
        for topic, partitions in point.at.items()
    }
    return _option(Point(after, is_time=False), *_END)


def parse_point(found: Bound, *, option: str, up: bool) -> Point:
    """Parse an offset, a time or offsets. A fraction of a millisecond is rounded `up` or down.

    Raises UsageError.
    """
    if isinstance(found, str | datetime):
        try:
            moment = found if isinstance(found, datetime) else datetime.fromisoformat(found)
        except ValueError:
            raise _refused(option, found) from None
        if ms_of(moment) < 0:
            raise _refused(option, found)
        return Point(ms_of(moment, up=up), is_time=True)
    counts: list[object] = [found]
    if isinstance(found, Mapping):
        if not found or not all(
            isinstance(topic, str) and isinstance(of, Mapping) and of for topic, of in found.items()
        ):
            raise _refused(option, found)
        counts = [count for of in found.values() for pair in of.items() for count in pair]
    if not all(type(count) is int and 0 <= count < 2**63 - 1 for count in counts):
        raise _refused(option, found)
    return Point(found, is_time=False)


def _option(point: Point | None, time: str, offsets: str) -> dict[str, str]:
    if point is None:
        return {}
    return {time if point.is_time else offsets: json.dumps(point.at)}


def _refused(option: str, found: object) -> UsageError:
    return UsageError(f"{option} can't be understood", expected=_EXPECTED, found=repr(found))
