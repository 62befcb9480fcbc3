"""Count the files and bytes that this process has read and written through `winnow.storage`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Moved:
    """Sums that only grow: subtract two to measure the work between them, of one thread."""

    read: int = 0
    """Bytes. Mapped bytes count as read."""
    written: int = 0
    files: int = 0
    """Files opened for reading or writing."""


MOVED = Moved()


def count_io(*, read: int = 0, written: int = 0, files: int = 0) -> None:
    """Add to `MOVED`. Nothing but reports depends on it."""
    MOVED.read += read
    MOVED.written += written
    MOVED.files += files
