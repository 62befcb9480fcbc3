"""Let threads take turns, so that they wait for the disk together and not for each other.

One thread at a time runs Python, and it gives way in each call of the operating system. Sixteen
threads that commit partitions spent more time on that than on the commits. So one of them goes on
until it waits for the disk (docs/decisions/0050).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_T = TypeVar("_T")

PATIENCE_S = 1.0
"""A thread that has waited so long goes on without its turn: the one that has it may wait for a
lock of this thread.
"""
_turn = threading.Lock()


class _Mine(threading.local):
    turn = False
    """Whether this thread has the turn."""

    def take(self) -> None:
        self.turn = _turn.acquire(timeout=PATIENCE_S)

    def give(self) -> None:
        if self.turn:
            self.turn = False
            _turn.release()


_mine = _Mine()


def in_turn(piece: Callable[[], _T]) -> _T:
    """Call a piece of work while no other thread is in one, except where that one is `waiting`."""
    _mine.take()
    try:
        return piece()
    finally:
        _mine.give()


@contextmanager
def waiting() -> Iterator[None]:
    """Give the turn to another thread while this one waits in the block. Outside of `in_turn` this
    does nothing.
    """
    if not _mine.turn:
        yield
        return
    _mine.give()
    try:
        yield
    finally:
        _mine.take()


def sync(fd: int) -> None:
    with waiting():
        os.fsync(fd)


@contextmanager
def holding(lock: threading.Lock) -> Iterator[None]:
    """Hold a lock. Its holders may wait for the disk, so whoever waits for it gives up the turn."""
    with waiting():
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
