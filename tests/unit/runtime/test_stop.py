from __future__ import annotations

import pytest

from winnow.errors import StoppedError
from winnow.runtime.stop import Stop


def test_without_a_reason_nothing_ends() -> None:
    stop = Stop()
    stop.check()
    assert stop.reason is None


def test_the_first_reason_stays() -> None:
    stop = Stop()
    stop.request("one")
    stop.request("two")
    assert stop.reason == "one"
    with pytest.raises(StoppedError, match="one"):
        stop.check()


def test_the_time_is_over_at_its_end_and_stays_so() -> None:
    now = 100.0
    stop = Stop(timeout_s=90, clock=lambda: now)
    now = 189.9
    assert stop.reason is None
    now = 190.0
    assert stop.reason == "its time limit of 90 s has passed"
    now = 0.0
    assert stop.reason is not None
