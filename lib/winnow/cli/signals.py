"""SIGINT, SIGTERM and SIGHUP end a run in order: what is begun is finished, nothing more is begun.

spark-submit is a JVM and starts the job's Python as its child. Who ends a run sends the signal to
the JVM, which would stop Spark and go at once, and leave the job to itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from winnow.runtime.session import WithContext
from winnow.runtime.stop import Stop

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST_END_DAYS = 7
"""What has begun is finished within seconds, a commit of many segments within minutes; a hook must
have a limit.
"""
_SPARK_PRIORITY = 40
"""Of Spark's hook in Hadoop's manager (`FileSystem.SHUTDOWN_HOOK_PRIORITY` + 30), which runs all of
Spark's own.
"""


class Signals:
    """Of one run. The first signal counts; more of them change nothing."""

    def __init__(self) -> None:
        self._received: signal.Signals | None = None

    @contextmanager
    def ask(self, stop: Stop, spark: WithContext) -> Iterator[None]:
        """Inside the block signals are requests to `stop`. One that was ignored, as by nohup, still
        is.
        """

        def handle(number: int, frame: FrameType | None) -> None:
            del frame
            self._received = self._received or signal.Signals(number)
            stop.request(f"it got {self._received.name}")

        if "PYSPARK_GATEWAY_PORT" in os.environ:
            _let_jvm_wait(spark)
        before = {
            number: signal.signal(number, handle)
            for number in _SIGNALS
            if signal.getsignal(number) != signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def exit_code(self, code: int) -> int:
        """As a shell reports a command that a signal ended, unless the run was done all the same."""
        return code if self._received is None or code == 0 else 128 + self._received


def _let_jvm_wait(spark: WithContext) -> None:
    """When the JVM is told to end, it sends SIGTERM to this process and waits for it, before Spark
    stops.

    Hooks of the JVM itself run all at once, and Spark may have gone before this process knows why
    its job failed. Spark's are hooks of Hadoop's manager, which runs one after another, the highest
    priority first. A hook is a Runnable: a method handle can be one without a class of our own.
    """
    jvm: JVMView = spark.sparkContext._jvm  # noqa: SLF001 - pyspark has no other way to the JVM
    java = jvm.java.lang
    this_process = java.ProcessHandle.of(os.getpid()).get()
    a_class = java.Class.forName
    lookup = java.invoke.MethodHandles.publicLookup()
    runnable = a_class("java.lang.Runnable")
    hooks = jvm.org.apache.hadoop.util.ShutdownHookManager.get()

    def hook(
        owner: str, method: str, returns: JavaObject, receiver: JavaObject, priority: int
    ) -> None:
        found = lookup.findVirtual(
            a_class(owner), method, java.invoke.MethodType.methodType(returns)
        )
        action = java.invoke.MethodHandleProxies.asInterfaceInstance(
            runnable, found.bindTo(receiver)
        )
        hooks.addShutdownHook(
            action, priority, _LONGEST_END_DAYS, jvm.java.util.concurrent.TimeUnit.DAYS
        )

    hook("java.lang.ProcessHandle", "destroy", java.Boolean.TYPE, this_process, _SPARK_PRIORITY + 2)
    on_exit = this_process.onExit()
    hook(
        "java.util.concurrent.CompletableFuture",
        "join",
        a_class("java.lang.Object"),
        on_exit,
        _SPARK_PRIORITY + 1,
    )
