"""How much may still be written to a file system."""

from __future__ import annotations

from winnow.storage.places import Places

SPARE_BYTES = 64 * 2**20
"""Left free on every disk, for checkpoints and for other writers."""


def free_bytes(directory: str) -> int:
    """Return how many bytes this process may still write to the directory's file system, less
    `SPARE_BYTES`. Below 0 if less than that is free.
    """
    return Places().volume(directory).free_bytes - SPARE_BYTES
