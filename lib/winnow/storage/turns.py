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

_turn = threading.Lock()


class _Mine(threading.local):
    has_turns = False


_mine = _Mine()


def in_turn(piece: Callable[[], _T]) -> _T:
    """Call a piece of work while no other thread is in one, except where that one is `waiting`."""
    with _turn:
        _mine.has_turns = True
        try:
            return piece()
        finally:
            _mine.has_turns = False


@contextmanager
def waiting() -> Iterator[None]:
    """Give the turn to another thread while this one waits in the block. It may wait there for
    nothing that needs the turn of this thread. Outside of `in_turn` this does nothing.
    """
    if not _mine.has_turns:
        yield
        return
    _mine.has_turns = False
    _turn.release()
    try:
        yield
    finally:
        _turn.acquire()
        _mine.has_turns = True


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
