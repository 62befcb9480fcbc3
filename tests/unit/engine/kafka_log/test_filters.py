"""Filters mean to a scan what they mean to Spark: each is tried on values around its bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from winnow.engine.kafka_log.filters import MAX_LONG, MIN_LONG, Pushed, Span, push

OFFSET, TIMESTAMP, TOPIC, PARTITION = ("offset",), ("timestamp",), ("topic",), ("partition",)
NOON = datetime(2026, 9, 21, 12, tzinfo=UTC)
NOON_MS = 1_789_992_000_000
MICRO = timedelta(microseconds=1)


def pushed(*filters: Filter) -> Pushed:
    found, left = push(filters)
    assert left == []
    return found


@pytest.mark.parametrize(
    ("one", "span"),
    [
        (EqualTo(OFFSET, 5), Span(5, 5)),
        (GreaterThan(OFFSET, 5), Span(6, MAX_LONG)),
        (GreaterThanOrEqual(OFFSET, 5), Span(5, MAX_LONG)),
        (LessThan(OFFSET, 5), Span(MIN_LONG, 4)),
        (LessThanOrEqual(OFFSET, 5), Span(MIN_LONG, 5)),
        (IsNotNull(OFFSET), Span()),
    ],
)
def test_offsets(one: Filter, span: Span) -> None:
    assert pushed(one).offset == span


def test_both_ends() -> None:
    assert pushed(IsNotNull(OFFSET), GreaterThan(OFFSET, 5), LessThan(OFFSET, 9), LessThan(OFFSET, 20)).offset == Span(
        6, 8
    )


@pytest.mark.parametrize("shift", [timedelta(0), MICRO, -MICRO, 999 * MICRO, -999 * MICRO])
@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        (EqualTo, lambda a, b: a == b),
        (GreaterThan, lambda a, b: a > b),
        (GreaterThanOrEqual, lambda a, b: a >= b),
        (LessThan, lambda a, b: a < b),
        (LessThanOrEqual, lambda a, b: a <= b),
    ],
)
def test_timestamps_are_compared_by_the_microsecond(kind: Any, holds: Any, shift: timedelta) -> None:
    span = pushed(kind(TIMESTAMP, NOON + shift)).timestamp
    assert span is not None
    for ms in range(NOON_MS - 2, NOON_MS + 3):
        moment = NOON + timedelta(milliseconds=ms - NOON_MS)
        assert (span.low <= ms <= span.high) == holds(moment, NOON + shift), ms


@pytest.mark.parametrize(
    ("one", "accepted"),
    [
        (EqualTo(TOPIC, "orders"), {("orders", 0), ("orders", 1)}),
        (EqualNullSafe(TOPIC, "orders"), {("orders", 0), ("orders", 1)}),
        (In(TOPIC, ("orders", "x")), {("orders", 0), ("orders", 1)}),
        (Not(EqualTo(TOPIC, "orders")), {("returns", 0)}),
        (Not(In(TOPIC, ("orders", "x"))), {("returns", 0)}),
        (StringStartsWith(TOPIC, "re"), {("returns", 0)}),
        (StringEndsWith(TOPIC, "ers"), {("orders", 0), ("orders", 1)}),
        (StringContains(TOPIC, "tur"), {("returns", 0)}),
        (GreaterThan(TOPIC, "orders"), {("returns", 0)}),
        (EqualTo(PARTITION, 1), {("orders", 1)}),
        (GreaterThanOrEqual(PARTITION, 1), {("orders", 1)}),
        (LessThan(PARTITION, 1), {("orders", 0), ("returns", 0)}),
        (LessThanOrEqual(PARTITION, 0), {("orders", 0), ("returns", 0)}),
        (IsNotNull(TOPIC), {("orders", 0), ("orders", 1), ("returns", 0)}),
    ],
)
def test_partitions(one: Filter, accepted: set[tuple[str, int]]) -> None:
    there = {("orders", 0), ("orders", 1), ("returns", 0)}
    assert {each for each in there if pushed(one).accepts(*each)} == accepted


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("key",), b"k"),
        IsNull(OFFSET),
        IsNull(TOPIC),
        In(OFFSET, (1, 2)),
        Not(EqualTo(OFFSET, 5)),
        Not(IsNotNull(OFFSET)),
        Not(IsNull(TOPIC)),
        EqualTo(("headers", "key"), "x"),
        EqualTo(TIMESTAMP, "2026-09-21"),
        EqualTo(TOPIC, None),
        In(TOPIC, ("orders", None)),
        EqualNullSafe(OFFSET, 5),
    ],
)
def test_the_rest_is_sparks(one: Filter) -> None:
    assert push([one]) == (Pushed(), [one])
