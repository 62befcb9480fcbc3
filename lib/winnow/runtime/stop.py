"""End a run early and cleanly: finish what has begun, begin nothing more."""

from __future__ import annotations

import time
from collections.abc import Callable

from winnow.errors import StoppedError


class Stop:
    """Checked between the steps of a run. It has a reason after `request`, or when the time is
    over.

    A partition whose commit has begun is finished: only renames are left.
    """

    def __init__(
        self, *, timeout_s: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else clock() + timeout_s
        self._requested: str | None = None

    def request(self, reason: str) -> None:
        """Request a stop, from any thread or a signal handler. The first reason is kept."""
        self._requested = self._requested or reason

    @property
    def reason(self) -> str | None:
        left = self.seconds_left
        if left is not None and left <= 0:
            self.request(f"its time limit of {self._timeout_s:g} s has passed")
        return self._requested

    @property
    def seconds_left(self) -> float | None:
        """The time until the limit. None without a limit."""
        return None if self._deadline is None else self._deadline - self._clock()

    def check(self) -> None:
        """Raise StoppedError if there is a reason to stop."""
        if self.reason is not None:
            raise StoppedError(
                f"the run was stopped, {self.reason}: everything that it began is complete",
                hint="Run the same command again to do the rest.",
            )
