"""Count the files and bytes that this process has read and written through `winnow.storage`, and
the time that it took to read back what it wrote.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

MOVED: Counter[str] = Counter()
"""`read` and `written`: bytes; mapped bytes count as read. `files`: opened for reading or writing.
`read_back_ns`: the time in which segments were read back from the disk before their commit. These
sums only grow: subtract two to measure the work between them, of one thread.
"""


def count_io(*, read: int = 0, written: int = 0, files: int = 0, read_back_ns: int = 0) -> None:
    """Add to `MOVED`. Nothing but reports depends on it."""
    # Not `update`, which takes as long as a small file.
    MOVED["read"] += read
    MOVED["written"] += written
    MOVED["files"] += files
    MOVED["read_back_ns"] += read_back_ns


@contextmanager
def reading_back() -> Iterator[None]:
    """Count the time of the block. Threads that do this at the same time are added up."""
    began = time.monotonic_ns()
    try:
        yield
    finally:
        count_io(read_back_ns=time.monotonic_ns() - began)
