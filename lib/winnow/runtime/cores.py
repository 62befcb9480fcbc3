"""Share the cores of one machine among its tasks, chunk by chunk.

One task writes a segment. When few segments are left, idle cores help with their chunks. Each of
the other tasks holds one core meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

from winnow.runtime.side_by_side import in_background

_T = TypeVar("_T")

_LOOK_AGAIN_S = 0.001
"""Poll interval per core: with more cores, each one matters less."""
MOST_AHEAD = 4
"""Chunks that threads of a task make ahead while it writes one. They wait in memory."""


@dataclass(frozen=True, slots=True)
class Cores:
    """`count` cores, shared by all processes that use the same `directory`.

    A process that dies releases its cores.
    """

    directory: str
    count: int
    enough_bytes: int = 64 * 2**20
    """A thread that has produced this many bytes of its chunk leaves the rest to the consumer."""

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a core and hold it during the block."""
        while (core := self._free()) is None:
            time.sleep(_LOOK_AGAIN_S * self.count)
        try:
            yield
        finally:
            os.close(core)

    def _free(self) -> int | None:
        """Return the open file of a free core, or None."""
        for n in range(self.count):
            core = os.open(
                f"{self.directory}/core-{n}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600
            )
            try:
                fcntl.flock(core, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(core)
                if not isinstance(error, BlockingIOError):
                    raise
            else:
                return core
        return None


def one_of(cores: Cores | None) -> AbstractContextManager[None]:
    """Wait for a core; do nothing if cores are not shared."""
    return nullcontext() if cores is None else cores.one()


def in_order(
    jobs: Iterable[Iterator[_T]], cores: Cores | None, size: Callable[[_T], int]
) -> Iterator[_T]:
    """Yield all items of all jobs, in order. With `cores`, start the next jobs early, each in a
    thread.

    `size`: bytes of an item. The caller must drop each item before it asks for the next.
    """
    if cores is None:
        yield from chain.from_iterable(jobs)
        return
    begun = ((0, partial(_begin, job, cores, size)) for job in jobs)
    for items in in_background(begun, at_once=min(cores.count, MOST_AHEAD), room=0):
        yield from items


def _begin(job: Iterator[_T], cores: Cores, size: Callable[[_T], int]) -> Iterator[_T]:
    """Make the first items of a job. Return all of its items."""
    items: deque[_T] = deque()
    total = 0
    with cores.one():
        for item in job:
            items.append(item)
            total += size(item)
            if total >= cores.enough_bytes:
                break
    return chain(_emptied(items), job)


def _emptied(items: deque[_T]) -> Iterator[_T]:
    while items:
        yield items.popleft()
