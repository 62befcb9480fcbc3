"""Clients that outlive their broker (GoOn.java): they start before it stops and continue
afterwards.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kafka.judge.broker import BrokerFailedError
from tests.kafka.judge.jars import quick_java

ANSWER_SECONDS = 240


class LiveClients:
    """`with LiveClients(broker.bootstrap) as clients: clients.ask("before")`."""

    def __init__(self, bootstrap: str) -> None:
        self._log = tempfile.NamedTemporaryFile(prefix="kafka-clients-", suffix=".log")  # noqa: SIM115 - lives as long as the JVM
        self._process = subprocess.Popen(
            [*quick_java("-Xmx256m"), "org.apache.kafka.storage.internals.log.GoOn", bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )

    def ask(self, what: str) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            message = "the clients' pipes are not open"
            raise BrokerFailedError(message)
        alarm = threading.Timer(ANSWER_SECONDS, self._process.kill)
        alarm.start()
        try:
            stdin.write(what + "\n")
            stdin.flush()
            line = stdout.readline()
        finally:
            alarm.cancel()
        if not line:
            logged = Path(self._log.name).read_text(encoding="utf-8", errors="replace")
            message = f"the clients died at {what!r}\n{logged[-4000:]}"
            raise BrokerFailedError(message)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._log.close()
