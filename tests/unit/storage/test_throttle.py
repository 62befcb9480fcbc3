"""A throttle limits the bytes per second and does not change them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.storage.segment_io import SegmentWriter, map_range
from winnow.storage.throttle import PIECE_BYTES, Throttle, current_throttle, throttled


class Time:
    """A clock that only advances by sleeping, or by a pause between two calls."""

    def __init__(self) -> None:
        self.now = 100.0
        self.longest = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds
        self.longest = max(self.longest, seconds)

    def throttle(self, rate: float) -> Throttle:
        return Throttle(rate, clock=self.clock, sleep=self.sleep)


@given(
    rate=st.floats(1, 1e9),
    steps=st.lists(st.tuples(st.floats(0, 10), st.integers(0, 10**9)), max_size=20),
)
def test_rate_is_never_exceeded(rate: float, steps: list[tuple[float, int]]) -> None:
    """Measured from any call on, whatever was unused before it."""
    time = Time()
    throttle = time.throttle(rate)
    moved = []
    for pause, count in steps:
        time.now += pause
        moved.append((time.now, count))
        throttle.take(count)
    for number, (begin, _) in enumerate(moved):
        assert (
            time.now - begin >= sum(count for _, count in moved[number:]) / rate * (1 - 1e-9) - 1e-3
        )


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, 3 * PIECE_BYTES + 7])
def test_bytes_are_the_same_at_any_rate(tmp_path: Path, size: int) -> None:
    data = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    time, path, rate = Time(), tmp_path / "log", 10_000.0
    with throttled(time.throttle(rate)):
        with SegmentWriter(str(path)) as writer:
            writer.write(data)
        assert time.now - 100 == pytest.approx(size / rate)
        with map_range(str(path), size // 3, size) as found:
            assert np.array_equal(found, data[size // 3 :])
            del found
    assert writer.size == size
    assert path.read_bytes() == data.tobytes()
    assert time.now - 100 >= (size + size - size // 3) / rate - 1e-6
    assert time.longest <= PIECE_BYTES / rate + 1e-6


def test_throttle_ends_with_its_block() -> None:
    throttle = Time().throttle(1)
    with throttled(throttle):
        with throttled(None):
            assert current_throttle() is None
        assert current_throttle() is throttle
    assert current_throttle() is None
