"""No more than so many bytes of segments a second, read and written.

The rate is a property of the work at hand and not of the files: it holds for all that is mapped and
written (`winnow.storage.segment_io`) inside the block of `throttled`, in its thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PIECE_BYTES = 2**20
"""Let through at once: what goes to the disk in one go, and how long a slow run sleeps."""


class Throttle:
    """N bytes take as long as the rate says, and what a pause leaves unused is not saved up for a
    burst.
    """

    def __init__(
        self,
        bytes_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._seconds_per_byte = 1 / bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._paid_at = clock()

    def take(self, count: int) -> None:
        """Returns when `count` more bytes may have been moved."""
        now = self._clock()
        self._paid_at = max(self._paid_at, now) + count * self._seconds_per_byte
        self._sleep(self._paid_at - now)


_current: ContextVar[Throttle | None] = ContextVar("throttle", default=None)


def current_throttle() -> Throttle | None:
    return _current.get()


@contextmanager
def throttled(throttle: Throttle | None) -> Iterator[None]:
    """None: as fast as the disk allows."""
    before = _current.set(throttle)
    try:
        yield
    finally:
        _current.reset(before)
