"""What Spark's WHERE lets a scan leave out: whole partitions, ranges of offsets and of timestamps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONSTANTS = ("topic", "partition")
"""Columns with one value in all rows of a Kafka partition."""

_TESTS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda have, value: bool(have == value),
    EqualNullSafe: lambda have, value: bool(have == value),
    GreaterThan: lambda have, value: bool(have > value),
    GreaterThanOrEqual: lambda have, value: bool(have >= value),
    LessThan: lambda have, value: bool(have < value),
    LessThanOrEqual: lambda have, value: bool(have <= value),
    In: lambda have, value: have in value,
    StringStartsWith: lambda have, value: str(have).startswith(value),
    StringEndsWith: lambda have, value: str(have).endswith(value),
    StringContains: lambda have, value: value in str(have),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Inclusive bounds of a number that must not be null. `low > high`: nothing."""

    low: int = MIN_LONG
    high: int = MAX_LONG

    def both(self, other: Span) -> Span:
        return Span(max(self.low, other.low), min(self.high, other.high))


@dataclass(frozen=True, slots=True)
class Pushed:
    """The filters that a scan applies by itself, all of them. None: there is none for that column."""

    constants: tuple[Filter, ...] = ()
    offset: Span | None = None
    timestamp: Span | None = None
    """ms"""

    def accepts(self, topic: str, partition: int) -> bool:
        values = {"topic": topic, "partition": partition}
        return all(_holds(each, values) for each in self.constants)


def push(filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
    """(what the scan does, what is left to Spark)."""
    pushed, left = Pushed(), []
    for each in filters:
        inner = each.child if isinstance(each, Not) else each
        column: tuple[str, ...] = getattr(inner, "attribute", ())
        if len(column) == 1 and column[0] in _CONSTANTS and _is_constant_test(inner):
            pushed = replace(pushed, constants=(*pushed.constants, each))
            continue
        span = None if isinstance(each, Not) else _span(each, _ms if column == ("timestamp",) else _whole)
        if column == ("offset",) and span is not None:
            pushed = replace(pushed, offset=span.both(pushed.offset or Span()))
        elif column == ("timestamp",) and span is not None:
            pushed = replace(pushed, timestamp=span.both(pushed.timestamp or Span()))
        else:
            left.append(each)
    return pushed, left


def _is_constant_test(one: Filter) -> bool:
    if isinstance(one, IsNotNull):
        return True
    value = getattr(one, "value", None)
    nulls = value is None or (isinstance(one, In) and None in value)
    return type(one) in _TESTS and not nulls


def _holds(each: Filter, values: dict[str, Any]) -> bool:
    if isinstance(each, Not):
        return not _holds(each.child, values)
    if isinstance(each, IsNotNull):
        return True
    have: Any = values[each.attribute[0]]  # type: ignore[attr-defined]
    return _TESTS[type(each)](have, each.value)  # type: ignore[attr-defined]


def _span(each: Filter, bounds: Callable[[Any], tuple[int, int] | None]) -> Span | None:
    """`bounds` of a literal: the largest number at or below it, and the smallest at or above it."""
    if isinstance(each, IsNotNull):
        return Span()
    if not isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
        return None
    found = bounds(each.value)
    if found is None:
        return None
    below, above = found
    return {
        EqualTo: Span(above, below),
        GreaterThan: Span(low=below + 1),
        GreaterThanOrEqual: Span(low=above),
        LessThan: Span(high=above - 1),
        LessThanOrEqual: Span(high=below),
    }[type(each)]


def _whole(value: object) -> tuple[int, int] | None:
    return (value, value) if isinstance(value, int) else None


def _ms(value: object) -> tuple[int, int] | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    since, unit = value - _EPOCH, timedelta(milliseconds=1)
    return since // unit, -(-since // unit)
