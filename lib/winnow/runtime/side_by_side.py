"""Do independent pieces of work side by side in threads of this process.

It helps where most of the time passes in calls of the operating system or of a server, such as a
sync of a file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TypeVar

_T = TypeVar("_T")


def side_by_side(
    pieces: Sequence[Callable[[], _T]], *, at_once: int, done: Callable[[], None] = lambda: None
) -> list[_T]:
    """Call each piece and return the results in the given order. Pieces begin in this order, too.

    `at_once`: the most pieces under way at one time. With 1 no thread is started. `done`: called in
    this thread after each piece that ends.

    If a piece raises, or this thread is interrupted, no further piece begins, and the exception is
    raised. Either way no piece is under way any more when this returns: what the caller holds for
    them, such as a lock, may be released.
    """
    if at_once <= 1 or len(pieces) <= 1:
        results = []
        for piece in pieces:
            results.append(piece())
            done()
        return results
    stopped = Event()

    def begin(piece: Callable[[], _T]) -> _T:
        if stopped.is_set():
            raise CancelledError
        try:
            return piece()
        except BaseException:
            stopped.set()  # here, because this thread takes the next piece at once
            raise

    with ThreadPoolExecutor(
        min(at_once, len(pieces)), thread_name_prefix="winnow-side-by-side"
    ) as pool:
        futures: list[Future[_T]] = []
        try:
            futures += (pool.submit(begin, piece) for piece in pieces)
            for future in as_completed(futures):
                with suppress(CancelledError):  # a piece that raised follows
                    future.result()
                    done()
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            _wait_for([future for future in futures if not future.cancelled()])
    return [future.result() for future in futures]


def in_background(
    pieces: Iterable[tuple[int, Callable[[], _T]]], *, at_once: int, room: int
) -> Iterator[_T]:
    """Call each piece in a thread while this thread makes the next one. Yield the results in the
    given order.

    A piece comes with its size. While one is made, at most `at_once` are under way or have results
    that wait, and their sizes together are at most `room`, or there is only one. With 0 no thread
    is started.

    If a piece raises, or the caller stops early, no further piece begins, and none is under way any
    more when this ends.
    """
    if at_once <= 0:
        for _, piece in pieces:
            yield piece()
        return
    begun: deque[tuple[int, Future[_T]]] = deque()
    with ThreadPoolExecutor(at_once + 1, thread_name_prefix="winnow-in-background") as pool:
        for size, piece in pieces:
            begun.append((size, pool.submit(piece)))
            while len(begun) > at_once or (
                len(begun) > 1 and sum(size for size, _ in begun) > room
            ):
                yield begun.popleft()[1].result()
        while begun:
            yield begun.popleft()[1].result()


@contextmanager
def repeating(call: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Call it again and again in a thread, until the block ends."""
    ended = Event()

    def repeat() -> None:
        while not ended.wait(every_s):
            call()

    thread = Thread(target=repeat, name="winnow-repeating", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _wait_for(futures: Sequence[Future[_T]]) -> None:
    """Wait through further interrupts: the first one is raised when this is over."""
    while True:
        try:
            wait(futures)
        except KeyboardInterrupt:
            continue
        return
