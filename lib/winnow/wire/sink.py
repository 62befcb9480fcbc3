"""Collect the decompressed bytes of all batches of a buffer in one array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from winnow import batch_memory
from winnow.errors import BatchMemoryError, OversizedBatchError
from winnow.wire.buffers import as_bytes, as_view

if TYPE_CHECKING:
    from winnow.wire.buffers import Buffer, Bytes


class Sink:
    """A growing array that is filled piece by piece, with a limit per batch (`begin`)."""

    def __init__(self, capacity: int = 1 << 16) -> None:
        self._view = np.empty(capacity, np.uint8).data
        self._used = 0
        self._limit = 0
        self._end = 0

    @property
    def used(self) -> int:
        """Bytes filled in so far."""
        return self._used

    @property
    def room(self) -> int:
        """Bytes left up to the limit."""
        return self._end - self._used

    def begin(self, limit: int) -> None:
        """Begin the next batch: it may hold `limit` bytes, and no more than there is memory for."""
        self._limit = limit
        self._end = self._used + min(limit, batch_memory.batch_budget())

    def begin_converted(self, size: int) -> None:
        """Begin a converted copy of bytes that are in memory already. It may take `size` bytes."""
        self._limit = size
        self._end = self._used + size

    def reserve(self, size: int, *, at_most: bool = False) -> memoryview:
        """Return room for `size` bytes. Call `commit` with the number of bytes written.

        Raises OversizedBatchError beyond the limit. With `at_most`, `size` is an upper bound, and 0
        raises, too.
        """
        end = self._used + size
        if end > self._end or (at_most and size <= 0):
            raise self.overflow()
        if end > len(self._view):
            grown = np.empty(max(2 * len(self._view), end), np.uint8).data
            grown[: self._used] = self._view[: self._used]
            self._view = grown
        return self._view[self._used : end]

    def rest(self) -> Bytes:
        """Return all the room behind the written bytes, whatever the limit. Then call `commit`."""
        return np.frombuffer(self._view[self._used :], np.uint8)

    def commit(self, size: int) -> None:
        """Mark `size` reserved bytes as written."""
        self._used += size

    def write(self, data: Buffer) -> None:
        """Append `data`. Raises OversizedBatchError beyond the limit."""
        piece = as_view(data)
        self.reserve(len(piece))[:] = piece
        self.commit(len(piece))

    def overflow(self) -> OversizedBatchError:
        """Return the error for a batch that holds more than the limit."""
        if batch_memory.batch_budget() < self._limit:
            return BatchMemoryError(
                "a batch needs too much memory",
                expected=f"at most {batch_memory.batch_budget()} bytes when decompressed",
                found="more",
                hint=batch_memory.hint(),
            )
        return OversizedBatchError(
            "compressed batch is too large",
            expected=f"at most {self._limit} bytes when decompressed",
            found="more",
            hint="A broker sets this limit with `max.decompressed.message.bytes`.",
        )

    def data(self) -> Bytes:
        """Return all that was written, read-only."""
        return as_bytes(self._view[: self._used])
