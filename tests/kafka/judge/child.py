"""A Java program of ours that answers: a line in, a line out, and its errors in a file."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.judge.broker import BrokerFailedError
from tests.kafka.judge.jars import KAFKA_VERSION, quick_java


class Child:
    """Lives until the `with` block ends. `patience`: seconds after which an answer is given up.
    `version`: that of the class path.
    """

    def __init__(self, *program: str, patience: float, version: str = KAFKA_VERSION) -> None:
        self._patience = patience
        self._log = tempfile.NamedTemporaryFile(prefix="kafka-clients-", suffix=".log")  # noqa: SIM115 - lives as long as the JVM
        self._process = subprocess.Popen(
            [*quick_java("-Xmx256m", version=version), *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )

    def answer(self, question: str) -> str:
        """Return the line that answers. Empty if the program died."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        alarm = threading.Timer(self._patience, self._process.kill)
        alarm.start()
        try:
            stdin.write(question + "\n")
            stdin.flush()
            return stdout.readline().strip()
        finally:
            alarm.cancel()

    def failure(self, what: str) -> BrokerFailedError:
        logged = Path(self._log.name).read_text(encoding="utf-8", errors="replace")
        return BrokerFailedError(f"{what}\n{logged[-4000:]}")

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
