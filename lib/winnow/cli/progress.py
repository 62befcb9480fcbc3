"""What a run is at, on stderr: one live line on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.status import Status

from winnow.words import size

LOG_EVERY_S = 10.0


@dataclass(slots=True)
class _Stage:
    name: str
    total: int | None
    in_bytes: bool
    done: int = 0


class Progress:
    """A context, and what the engine tells how far it is (`winnow.engine.progress.Progress`)."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._console = Console(file=stream, highlight=False, markup=False)
        self._status: Status | None = None
        self._started = clock()
        self._stage: _Stage | None = None
        self._closed = threading.Event()
        self._lines: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._status = self._console.status("")
            self._status.start()
        else:
            self._lines = threading.Thread(target=self._log_lines, name="winnow-progress", daemon=True)
            self._lines.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed.set()
        if self._status is not None:
            self._status.stop()
        if self._lines is not None:
            self._lines.join()

    def stage(self, name: str, *, total_bytes: int | None = None, total_tasks: int | None = None) -> None:
        """A new stage begins; what it counts is bytes or tasks or, without a total, nothing."""
        total = total_tasks if total_bytes is None else total_bytes
        self._stage = _Stage(name, total, in_bytes=total_bytes is not None)
        self._show()

    def advance(self, amount: int) -> None:
        """So many more bytes or tasks of the stage are done."""
        if self._stage is not None:
            self._stage.done += amount
            self._show()

    def line(self) -> str:
        """What is done now and for how long: `rewriting: 34 % of 1.2 GiB (12 s)`."""
        stage = self._stage
        seconds = f"({self._clock() - self._started:.0f} s)"
        if stage is None:
            return f"starting {seconds}"
        if not stage.total:
            return f"{stage.name} {seconds}"
        of = size(stage.total) if stage.in_bytes else f"{stage.total} tasks"
        return f"{stage.name}: {100 * stage.done // stage.total} % of {of} {seconds}"

    def _show(self) -> None:
        if self._status is not None:
            self._status.update(self.line())

    def _log_lines(self) -> None:
        while not self._closed.wait(LOG_EVERY_S):
            self._stream.write(f"winnow: {self.line()}\n")
            self._stream.flush()
