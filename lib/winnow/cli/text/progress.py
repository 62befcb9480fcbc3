"""Progress of a run on stderr: one live line on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Self

from winnow.cli.out import complain, live_line
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.side_by_side import repeating
from winnow.words import size

LOG_EVERY_S = 10.0
ESTIMATE_AFTER_S = 2.0
"""Age of a stage from which the time left is shown."""


def progress_on_stderr(*, quiet: bool) -> AbstractContextManager[Progress]:
    return nullcontext(Silence()) if quiet else Display()


@dataclass(slots=True)
class _Stage:
    name: str
    total: int | None
    in_bytes: bool
    began: float
    done: int = 0
    ended: float | None = None


class Display:
    """A context, and a `Progress` that the engine calls."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._stage: _Stage | None = None
        self._shown: AbstractContextManager[object] = nullcontext()

    def __enter__(self) -> Self:
        self._shown = live_line(self.line) or repeating(
            lambda: complain(self.line()), every_s=LOG_EVERY_S
        )
        self._shown.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.__exit__(None, None, None)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Show nothing in the block: a question is asked there, and its answer is typed."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def stage(
        self, name: str, *, total_bytes: int | None = None, total_tasks: int | None = None
    ) -> None:
        """Begin a new stage. It counts bytes, or tasks, or, without a total, nothing."""
        total = total_tasks if total_bytes is None else total_bytes
        self._stage = _Stage(name, total, in_bytes=total_bytes is not None, began=self._clock())

    def advance(self, amount: int) -> None:
        """Add this many bytes or tasks of the stage as done."""
        if self._stage is not None:
            self._stage.done += amount
            if self._stage.total is not None and self._stage.done >= self._stage.total:
                self._stage.ended = self._clock()

    def line(self, width: int | None = None) -> str:
        """Return what is done now, how fast, the time left, and how long the run has taken. In a
        line of `width` columns, the rate and then the time taken are omitted if there is no room.

        For example `compacting 3 partitions: 34 % of 1.2 GiB, 210.0 MiB/s, 4 s left (12 s)`. The
        time left is estimated from the stage's mean rate so far.
        """
        stage, now = self._stage, self._clock()
        seconds = f"({now - self._started:.0f} s)"
        if stage is None:
            return f"starting {seconds}"
        if not stage.total:
            return f"{stage.name} {seconds}"
        percent = 100 * stage.done // stage.total
        count = (
            f"{percent} % of {size(stage.total)}"
            if stage.in_bytes
            else f"{stage.done:,} of {stage.total:,}"
        )
        what, rate, left = f"{stage.name}: {count}", "", ""
        took = (now if stage.ended is None else stage.ended) - stage.began
        if stage.done and took > 0 and stage.in_bytes:
            rate = f", {size(round(stage.done / took))}/s"
        if 0 < stage.done < stage.total and took >= ESTIMATE_AFTER_S:
            left = f", {_duration(took * (stage.total - stage.done) / stage.done)} left"
        lines = f"{what}{rate}{left} {seconds}", f"{what}{left} {seconds}", f"{what}{left}"
        return next((one for one in lines if width is None or len(one) <= width), lines[-1])


def _duration(seconds: float) -> str:
    """Return `4 s`, `3 min` or `2 h 5 min`, rounded up rather than down."""
    if seconds <= 60:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
