"""How many files, and bytes of them, this process has read and written so far, through
`winnow.storage`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Moved:
    """Sums that only grow: who wants to know of some work takes the difference. Exact where one
    thread does the work, as in a task.
    """

    read: int = 0
    """What is mapped counts as read."""
    written: int = 0
    files: int = 0
    """That were opened to be read or written; those of which nothing was wanted are not."""


MOVED = Moved()
