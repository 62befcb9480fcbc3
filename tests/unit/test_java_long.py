"""Sums of times and settings overflow as in Java."""

from __future__ import annotations

import pytest

from winnow.java_long import MAX_LONG, clamped, delete_horizon, wrapped

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("value", "in_java"),
    [
        (0, 0),
        (MAX_LONG, MAX_LONG),
        (MAX_LONG + 1, -MAX_LONG - 1),
        (-MAX_LONG - 2, MAX_LONG),
        (2 * MAX_LONG, -2),
    ],
)
def test_sum_overflows_as_in_java(value: int, in_java: int) -> None:
    assert wrapped(value) == in_java


def test_overflowing_sum_gives_no_delete_horizon() -> None:
    assert delete_horizon(NOW, 0) == NOW
    assert delete_horizon(NOW, MAX_LONG - NOW) == MAX_LONG
    assert delete_horizon(NOW, MAX_LONG - NOW + 1) is None
    assert delete_horizon(NOW, MAX_LONG) is None


def test_limit_out_of_range_is_clamped() -> None:
    assert clamped(-2000 - MAX_LONG) == -MAX_LONG
    assert clamped(5) == 5
