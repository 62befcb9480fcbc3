"""How many files, and bytes of them, this process has read and written so far, through `winnow.storage`."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class Moved:
    """Sums that only grow: who wants to know of some work takes the difference. Exact where all that is under way is
    that work, as in a task; it may have threads.
    """

    read: int = 0
    """What is mapped counts as read."""
    written: int = 0
    files: int = 0
    """That were opened to be read or written; those of which nothing was wanted are not."""
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def add(self, *, read: int = 0, written: int = 0, files: int = 0) -> None:
        with self._lock:
            self.read += read
            self.written += written
            self.files += files


MOVED = Moved()
