from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from winnow.cli.signals import Signals
from winnow.runtime.stop import Stop

NO_SPARK: Any = None
"""There is a JVM only under spark-submit."""


@pytest.fixture(autouse=True)
def _own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run as a plain process: not under spark-submit or nohup, nor in a shell's background, which
    ignores SIGINT.
    """
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
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
    with signals.ask(stop, NO_SPARK):
        signal.raise_signal(number)
        signal.raise_signal(signal.SIGTERM)  # too late: the first signal counts
    assert stop.reason == f"it got {number.name}"
    assert signals.exit_code(3) == 128 + number
    assert signals.exit_code(0) == 0, "all was done before it could stop"
    assert signal.getsignal(number) == before


def test_without_a_signal_the_exit_code_is_unchanged() -> None:
    signals, stop = Signals(), Stop()
    with signals.ask(stop, NO_SPARK):
        pass
    assert (signals.exit_code(3), stop.reason) == (3, None)


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals().ask(stop := Stop(), NO_SPARK):
            signal.raise_signal(signal.SIGHUP)
        assert stop.reason is None
    finally:
        signal.signal(signal.SIGHUP, before)
