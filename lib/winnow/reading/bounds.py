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


@dataclass(frozen=True, slots=True)
class Point:
    """The point up to which a state counts, inclusive. One of the two is None."""

    ms: int | None
    """Since the epoch."""
    offsets: int | Mapping[str, Mapping[int, int]] | None


def range_options(start: Bound | None, end: Bound | None) -> dict[str, str]:
    """Return the options for a range from `start` up to `end`, exclusive. Times are those of the
    records, anywhere in the log. Raises UsageError if it ends before it begins.
    """
    options: dict[str, str] = {}
    first = None if start is None else parse_point(start, option="start", up=True)
    last = None if end is None else parse_point(end, option="end", up=True)
    if first is not None:
        options |= _option(first, "timestampFrom", "startingOffsets")
    if last is not None:
        options |= _option(last, "timestampBefore", "endingOffsets")
    if first is not None and last is not None and _is_after(first, last):
        raise UsageError(
            "end is before start",
            expected="a range, with end after start",
            found=f"start={start!r}, end={end!r}",
        )
    return options


def _is_after(one: Point, other: Point) -> bool:
    """Return whether both are times, or both are one offset, and `one` is the later one."""
    if one.ms is not None and other.ms is not None:
        return one.ms > other.ms
    first, last = one.offsets, other.offsets
    return isinstance(first, int) and isinstance(last, int) and first > last


def state_options(point: Point) -> dict[str, str]:
    """Return the options for all records up to a point."""
    if point.ms is not None:
        return {"timestampBefore": str(point.ms + 1)}
    if isinstance(point.offsets, Mapping):
        after: int | Mapping[str, Mapping[int, int]] = {
            topic: {partition: offset + 1 for partition, offset in partitions.items()}
            for topic, partitions in point.offsets.items()
        }
    else:
        after = (point.offsets or 0) + 1
    return _option(Point(None, after), "", "endingOffsets")


def parse_point(found: Bound, *, option: str, up: bool) -> Point:
    """Parse an offset, a time or offsets. A fraction of a millisecond is rounded `up` or down.

    Raises UsageError.
    """
    if isinstance(found, str | datetime):
        return Point(_milliseconds(found, option, up=up), None)
    if isinstance(found, Mapping):
        if not found or not all(isinstance(of, Mapping) and of for of in found.values()):
            raise _refused(option, found)
        for topic, partitions in found.items():
            for partition, offset in partitions.items():
                if not isinstance(topic, str) or not _is_count(partition) or not _is_count(offset):
                    raise _refused(option, found)
        return Point(None, found)
    if not _is_count(found):
        raise _refused(option, found)
    return Point(None, found)


def _option(point: Point, time: str, offsets: str) -> dict[str, str]:
    if point.ms is not None:
        return {time: str(point.ms)}
    return {
        offsets: json.dumps(point.offsets)
        if isinstance(point.offsets, Mapping)
        else str(point.offsets)
    }


def _is_count(found: object) -> bool:
    return type(found) is int and 0 <= found < 2**63 - 1


def _milliseconds(found: str | datetime, option: str, *, up: bool) -> int:
    try:
        moment = found if isinstance(found, datetime) else datetime.fromisoformat(found)
    except ValueError:
        raise _refused(option, found) from None
    if ms_of(moment) < 0:
        raise _refused(option, found)
    return ms_of(moment, up=up)


def _refused(option: str, found: object) -> UsageError:
    return UsageError(f"{option} can't be understood", expected=_EXPECTED, found=repr(found))
