"""Cores that the tasks of one machine share out among themselves, chunk by chunk.

A segment is written by one task. Where few are left to be written, the other cores help with their
chunks. Meanwhile each of the other tasks holds one core.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")

_LOOK_AGAIN_S = 0.001
"""For each core that there is: the more there are, the less one counts."""
MOST_THREADS = 4
"""Of a task: for each of them, and one more, what became of a chunk waits in memory to be written.
"""
ENOUGH_BYTES = 64 * 2**20
"""When a thread has made so much of its chunk, it leaves the rest to whoever takes it."""


@dataclass(frozen=True, slots=True)
class Cores:
    """`count` of them, for all who name the same `directory`. One that dies has given back what it
    had.
    """

    directory: str
    count: int

    @contextmanager
    def one(self) -> Iterator[None]:
        """Waits for a core."""
        while (core := self._free()) is None:
            time.sleep(_LOOK_AGAIN_S * self.count)
        try:
            yield
        finally:
            os.close(core)

    def _free(self) -> int | None:
        """Open file of a core that nobody else has."""
        for n in range(self.count):
            core = os.open(
                f"{self.directory}/core-{n}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600
            )
            try:
                fcntl.flock(core, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(core)
            except OSError:
                os.close(core)
                raise
            else:
                return core
        return None


def one_of(cores: Cores | None) -> AbstractContextManager[None]:
    """Waits for a core, if they are shared out at all."""
    return nullcontext() if cores is None else cores.one()


def in_order(
    jobs: Iterable[Iterator[_T]], cores: Cores | None, size: Callable[[_T], int]
) -> Iterator[_T]:
    """All items of all jobs, in order. With `cores`, the next jobs are begun meanwhile, each in a
    thread.

    `size`: bytes of an item. Forget each before the next is asked for.
    """
    if cores is None:
        for job in jobs:
            yield from job
        return
    threads = min(cores.count, MOST_THREADS)
    begun: deque[tuple[Future[deque[_T]], Iterator[_T]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for job in jobs:
                begun.append((pool.submit(_begin, job, cores, size), job))
                if len(begun) > threads:
                    yield from _items(*begun.popleft())
            while begun:
                yield from _items(*begun.popleft())
        finally:
            for future, _ in begun:
                future.cancel()


def _begin(job: Iterator[_T], cores: Cores, size: Callable[[_T], int]) -> deque[_T]:
    items: deque[_T] = deque()
    total = 0
    with cores.one():
        for item in job:
            items.append(item)
            total += size(item)
            if total >= ENOUGH_BYTES:
                break
    return items


def _items(future: Future[deque[_T]], job: Iterator[_T]) -> Iterator[_T]:
    items = future.result()
    del future
    while items:
        yield items.popleft()
    yield from job
