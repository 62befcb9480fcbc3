"""Threads that work beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def in_threads(stop: threading.Event, work: Sequence[Callable[[], None]]) -> Iterator[None]:
    """Run each function in a thread of its own inside the block. After the block, set `stop`, wait
    for the threads, and raise the first error of a function.
    """
    failed: list[BaseException] = []

    def guarded(do: Callable[[], None]) -> None:
        try:
            do()
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=[do]) for do in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
