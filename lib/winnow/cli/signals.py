"""SIGINT, SIGTERM and SIGHUP stop a run cleanly: work that has begun is finished, no more is begun.

spark-submit is a JVM and starts the job's Python as its child. A user who ends a run sends the
signal to the JVM. By default the JVM would stop Spark and exit at once, without waiting for the
job. So it passes the signal on to the job, and ends as the job ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import Any

from winnow.runtime.stop import Stop

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG, an operation of prctl(2)."""


class Ended(KeyboardInterrupt):
    """A signal ends the process, while there is nothing to finish."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number


def interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the error if it is a KeyboardInterrupt, else the one while which it was raised: what
    is under way in Spark fails in many ways when a signal ends it. None: there is none.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def end_by_signals() -> None:
    """Let SIGTERM and SIGHUP raise Ended, as SIGINT raises KeyboardInterrupt, so that the command
    reports its end. Only the first signal counts: the JVM passes on what it gets.
    """
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        if len(received) == 1:
            raise Ended(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


def end_with_jvm() -> None:
    """Let SIGTERM end this process when the JVM of spark-submit ends. A signal ends the JVM until
    it passes signals on, and would leave this process behind.
    """
    jvm = _jvm()
    if jvm is not None:
        _when_parent_ends(signal.SIGTERM)
        if os.getppid() != jvm:  # it has ended meanwhile
            signal.raise_signal(signal.SIGTERM)


def _jvm() -> int | None:
    """Return the process of spark-submit if it started this one. The environment alone may be that
    of a script which runs this command.
    """
    parent = os.getppid()
    with suppress(OSError):  # no Linux, or it has ended
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            with open(f"/proc/{parent}/comm", "rb") as file:
                return parent if file.read() == b"java\n" else None
    return None


def _when_parent_ends(number: int) -> None:
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, number)


class Signals:
    """The signals of one run. The first signal counts; later ones change nothing."""

    def __init__(self) -> None:
        self._received: signal.Signals | None = None

    def ask(self, stop: Stop) -> AbstractContextManager[None]:
        """Inside the block, a signal is a request to `stop`. A signal that was ignored, as with
        nohup, is still ignored.
        """

        def handle(number: int, frame: FrameType | None) -> None:
            del frame
            self._received = self._received or signal.Signals(number)
            stop.request(f"it got {self._received.name}")

        return _handling(handle)

    def exit_code(self, code: int) -> int:
        """Return the code a shell reports for a command ended by a signal, unless the run finished
        anyway.
        """
        return code if self._received is None or code == 0 else 128 + self._received


@contextmanager
def held_back() -> Iterator[None]:
    """Deliver the first signal when the block has ended. For the start of Spark, which leaves long
    traces if it is interrupted.
    """
    received: list[int] = []
    try:
        with _handling(lambda number, _: received.append(number)):
            yield
    finally:
        if received:
            signal.raise_signal(received[0])


@contextmanager
def _handling(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals that are not ignored, inside the block."""
    before = {number: signal.signal(number, handle) for number in _heard()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heard() -> list[signal.Signals]:
    """Return the signals that are not ignored: nohup, for example, ignores SIGHUP."""
    return [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def let_jvm_pass_signals_on(gateway: Any, *, ours: bool) -> None:  # noqa: ANN401 - py4j has no types
    """Make the JVM send the signals that it gets to this process, and not end by them.

    `ours`: this process started the JVM, which ignores Ctrl-C. Otherwise spark-submit did.

    A handler is a SignalHandler of the JVM. A method handle can be one, so no Java class of our own
    is needed.
    """
    java, invoke = gateway.jvm.java.lang, gateway.jvm.java.lang.invoke
    sun, a_class = gateway.jvm.sun.misc, java.Class.forName
    kind = invoke.MethodType.methodType(a_class("java.lang.Process"))
    start = invoke.MethodHandles.publicLookup().findVirtual(
        a_class("java.lang.ProcessBuilder"), "start", kind
    )
    types = gateway.new_array(java.Class, 1)
    types[0] = a_class("sun.misc.Signal")
    for number in _heard():
        if ours and number == signal.SIGINT:
            continue
        name = number.name.removeprefix("SIG")
        # Small images have a shell, but no program `kill`.
        words = ["sh", "-c", f"kill -{name} {os.getpid()}"]
        kill = invoke.MethodHandles.dropArguments(
            start.bindTo(java.ProcessBuilder(words)), 0, types
        )
        handler = invoke.MethodHandleProxies.asInterfaceInstance(
            a_class("sun.misc.SignalHandler"), kill
        )
        sun.Signal.handle(sun.Signal(name), handler)
    if not ours and _jvm() is not None:
        _when_parent_ends(0)  # from now on, the run itself reports the end of a JVM
