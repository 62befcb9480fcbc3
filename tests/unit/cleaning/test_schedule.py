from __future__ import annotations

import math

import pytest

from winnow.cleaning.schedule import ASSUMED_RATE, Pace, chosen
from winnow.cleaning.space import BATCH_BYTES
from winnow.runtime.stop import Stop


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ([5, 5, 5], (10, math.inf), [0, 1]),
        ([50, 5, 5], (10, math.inf), [0]),  # at least one, whatever its size
        ([5, 50, 5], (10, math.inf), [0]),  # the order stays
        ([50, 5, 5], (10, 10), [1, 2]),  # there may not be enough time for the first
        ([50, 30, 40], (10, 10), [1]),  # nor for any of them: begin with the smallest
        ([0, 0, 0], (1, 1), [0, 1, 2]),
        ([7, 3], (0, 0), [1]),
    ],
)
def test_batch_is_in_order_and_never_empty(
    sizes: list[int], limits: tuple[float, float], expected: list[int]
) -> None:
    assert chosen(dict(enumerate(sizes)), *limits) == expected


def test_without_a_time_limit_only_the_size_counts() -> None:
    assert Pace(Stop()).limits() == (BATCH_BYTES, math.inf)


def test_time_limit_gives_a_batch_a_quarter_of_what_can_be_done_in_the_time_left() -> None:
    now = 0.0
    stop = Stop(timeout_s=1_000, clock=lambda: now)
    pace = Pace(stop, clock=lambda: now)
    assert pace.limits() == (250 * ASSUMED_RATE, 1_000 * ASSUMED_RATE)
    now = 200.0
    pace.log_bytes += 2_000_000  # 10 KB a second
    assert pace.limits() == (2_000_000, 8_000_000)
    now = 600.0
    pace.log_bytes += 1_000_000  # 5 KB a second
    assert pace.limits() == (500_000, 2_000_000)


def test_after_the_time_all_that_is_left_is_one_batch() -> None:
    now = 0.0
    pace = Pace(Stop(timeout_s=1, clock=lambda: now), clock=lambda: now)
    pace.log_bytes += 1
    now = 2.0
    assert pace.limits() == (math.inf, math.inf)
