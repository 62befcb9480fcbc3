"""To end a run early and in order: what is begun is finished, nothing more is begun."""

from __future__ import annotations

import time
from collections.abc import Callable

from winnow.errors import StoppedError


class Stop:
    """Asked between the steps of a run. From `request` on, or when the time is over, there is a
    reason to end.

    A partition whose commit has begun is finished: what is left of it is renames.
    """

    def __init__(
        self, *, timeout_s: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else clock() + timeout_s
        self._requested: str | None = None

    def request(self, reason: str) -> None:
        """From any thread, or out of a signal handler. The first reason stays."""
        self._requested = self._requested or reason

    @property
    def reason(self) -> str | None:
        if (
            self._requested is None
            and self._deadline is not None
            and self._clock() >= self._deadline
        ):
            self._requested = f"its {self._timeout_s:g} s are over"
        return self._requested

    def check(self) -> None:
        """Raises StoppedError if there is a reason to end."""
        if self.reason is not None:
            raise StoppedError(
                f"the run was stopped, {self.reason}: nothing was begun that is not finished",
                hint="The same command does the rest.",
            )
