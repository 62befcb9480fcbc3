"""How much may still be written to a file system."""

from __future__ import annotations

from winnow.storage.places import Places

KEEP_FREE_BYTES = 2**16
"""Default of what stays free on every disk, for checkpoints, journals and other writers."""


def free_bytes(directory: str, *, keep_free: int = KEEP_FREE_BYTES) -> int:
    """Return how many bytes this process may still write to the directory's file system, less
    `keep_free`. Below 0 if less than that is free.
    """
    return Places().volume(directory).free_bytes - keep_free
