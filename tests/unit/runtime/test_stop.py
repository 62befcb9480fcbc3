from __future__ import annotations

import pytest

from winnow.errors import StoppedError
from winnow.runtime.stop import Stop


def test_run_continues_without_a_reason_to_stop() -> None:
    stop = Stop()
    stop.check()
    assert stop.reason is None


def test_first_reason_is_kept() -> None:
    stop = Stop()
    stop.request("one")
    stop.request("two")
    assert stop.reason == "one"
    with pytest.raises(StoppedError, match="one"):
        stop.check()


def test_timeout_is_reached_exactly_and_stays_reached() -> None:
    now = 100.0
    stop = Stop(timeout_s=90, clock=lambda: now)
    now = 189.9
    assert stop.reason is None
    now = 190.0
    assert stop.reason == "its time limit of 90 s has passed"
    now = 0.0
    assert stop.reason is not None
