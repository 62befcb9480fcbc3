from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from winnow.cli.signals import Signals, held_back
from winnow.runtime.stop import Stop


@pytest.fixture(autouse=True)
def _own_process() -> Iterator[None]:
    """Run as a plain process: not under nohup, nor in the background of a shell, which ignores
    SIGINT.
    """
    before = {
        number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGINT)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_the_run_and_sets_its_exit_code(number: signal.Signals) -> None:
    signals, stop = Signals(), Stop()
    before = signal.getsignal(number)
    with signals.ask(stop):
        signal.raise_signal(number)
        signal.raise_signal(signal.SIGTERM)  # too late: the first signal counts
    assert stop.reason == f"it got {number.name}"
    assert signals.exit_code(3) == 128 + number
    assert signals.exit_code(0) == 0, "all was done before it could stop"
    assert signal.getsignal(number) == before


def test_without_a_signal_the_exit_code_is_unchanged() -> None:
    signals, stop = Signals(), Stop()
    with signals.ask(stop):
        pass
    assert (signals.exit_code(3), stop.reason) == (3, None)


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals().ask(stop := Stop()):
            signal.raise_signal(signal.SIGHUP)
        assert stop.reason is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signal_at_the_start_of_spark_is_delivered_after_it() -> None:
    seen: list[str] = []
    signal.signal(signal.SIGHUP, lambda *_: seen.append("delivered"))
    with held_back():
        signal.raise_signal(signal.SIGHUP)
        seen.append("started")
    assert seen == ["started", "delivered"]
    with held_back():
        pass
    assert len(seen) == 2
