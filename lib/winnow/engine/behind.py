"""Reading back what was written while more is being written, in a thread of its own (docs/decisions/0005)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from winnow.engine.verify import StagedLog
from winnow.storage.open_store import is_remote
from winnow.storage.places import Places
from winnow.storage.segment_io import drop_cached
from winnow.storage.throttle import current_throttle

_PART_BYTES = 32 * 2**20
"""Written before they are synced and read back: less of it is more syncs, more of it is more to wait for at the end."""

Written = Callable[[int], None]


@contextmanager
def reading_behind(log: StagedLog) -> Iterator[Written]:
    """Hands out what is to be told the size of the log whenever whole batches were appended to it.

    Parts of it are then synced, dropped from the page cache and read back meanwhile; all of it that was begun is done
    when the block ends. Nothing is where a file can't be read before it is whole, and under a throttle, which holds for
    one thread. Raises what `StagedLog.up_to` raises, at the end.
    """
    if is_remote(log.path) or current_throttle() is not None:
        yield _nothing
        return
    parts: list[Future[None]] = []
    told = 0

    def written(size: int) -> None:
        nonlocal told
        if size - told >= _PART_BYTES:
            told = size
            parts.append(thread.submit(_read_back, log, size))

    with ThreadPoolExecutor(1, thread_name_prefix="reading-behind") as thread:
        try:
            yield written
        except BaseException:
            thread.shutdown(cancel_futures=True)
            raise
        for part in parts:
            part.result()


def _nothing(size: int) -> None:
    del size


def _read_back(log: StagedLog, size: int) -> None:
    Places().fsync_file(log.path)
    drop_cached(log.path)
    log.up_to(size)
