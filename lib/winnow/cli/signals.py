"""SIGINT, SIGTERM and SIGHUP stop a run cleanly: work that has begun is finished, no more is begun.

spark-submit is a JVM and starts the job's Python as its child. A user who ends a run sends the
signal to the JVM. By default the JVM would stop Spark and exit at once, without waiting for the
job.
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
"""Work that has begun ends within seconds, a commit of many segments within minutes. A hook must
have a limit.
"""
_SPARK_PRIORITY = 40
"""Priority of Spark's hook in Hadoop's manager (`FileSystem.SHUTDOWN_HOOK_PRIORITY` + 30), which
runs all of Spark's own hooks.
"""


class Signals:
    """The signals of one run. The first signal counts; later ones change nothing."""

    def __init__(self) -> None:
        self._received: signal.Signals | None = None

    @contextmanager
    def ask(self, stop: Stop, spark: WithContext) -> Iterator[None]:
        """Inside the block, a signal is a request to `stop`. A signal that was ignored, as with
        nohup, is still ignored.
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
        """Return the code a shell reports for a command ended by a signal, unless the run finished
        anyway.
        """
        return code if self._received is None or code == 0 else 128 + self._received


def _let_jvm_wait(spark: WithContext) -> None:
    """Make a JVM that gets a signal send SIGTERM to this process and wait for it, before it stops
    Spark.

    Hooks of the JVM itself all run at once, so Spark may have stopped before this process knows why
    its job failed. Spark's hooks are in Hadoop's manager, which runs them one after another, the
    highest priority first. A hook is a Runnable. A method handle can be one, so no Java class of
    our own is needed.
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
