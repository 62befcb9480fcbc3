"""Let threads take turns, so that they wait for the disk together and not for each other.

Python runs one thread at a time, and a thread lets go of Python in each system call. Sixteen
threads that committed partitions spent more time on switching than on the commits. So one thread
runs until it waits for the disk (docs/decisions/0050).

Turns save time and guard nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_T = TypeVar("_T")

_PATIENCE_S = 1.0
"""A thread waits this long for its turn, then runs without it. Perhaps the thread that has the turn
waits for a lock of this one.
"""
_turn = threading.Lock()


class _Mine(threading.local):
    turn = False
    """Whether this thread has the turn."""

    def take(self) -> None:
        self.turn = _turn.acquire(timeout=_PATIENCE_S)

    def give(self) -> None:
        if self.turn:
            self.turn = False
            _turn.release()


_mine = _Mine()


def in_turn(piece: Callable[[], _T]) -> _T:
    """Call a piece of work. Other threads that are in such a call wait meanwhile, for a second at
    most, or are `waiting` for something else.
    """
    _mine.take()
    try:
        return piece()
    finally:
        _mine.give()


class waiting:  # noqa: N801 - used like a function
    """Let another thread run while this one waits in the block. Outside of `in_turn` it does
    nothing.
    """

    def __enter__(self) -> None:
        self._had_turn = _mine.turn
        _mine.give()

    def __exit__(self, *error: object) -> None:
        if self._had_turn:
            _mine.take()


def sync(fd: int) -> None:
    with waiting():
        os.fsync(fd)


@contextmanager
def holding(lock: threading.Lock) -> Iterator[None]:
    """Hold a lock whose holder may wait for the disk. Other threads run while this one waits."""
    with waiting():
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
