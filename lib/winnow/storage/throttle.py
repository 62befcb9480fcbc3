"""Limit how many bytes of segments are read and written per second.

The rate belongs to the work at hand, not to the files. Inside a `throttled` block, it applies to
all that its thread maps and writes through `winnow.storage.segment_io`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PIECE_BYTES = 2**20
"""Bytes passed at once, as in one write. It bounds how long a slow run sleeps."""


class Throttle:
    """Make N bytes take as long as the rate says. A pause saves nothing for later."""

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
        """Return when `count` more bytes may be moved."""
        now = self._clock()
        self._paid_at = max(self._paid_at, now) + count * self._seconds_per_byte
        self._sleep(self._paid_at - now)


_current: ContextVar[Throttle | None] = ContextVar("throttle", default=None)


def current_throttle() -> Throttle | None:
    return _current.get()


@contextmanager
def throttled(throttle: Throttle | None) -> Iterator[None]:
    """Apply a throttle inside the block. None: as fast as the disk allows."""
    before = _current.set(throttle)
    try:
        yield
    finally:
        _current.reset(before)
