"""What may still be written to a file system."""

from __future__ import annotations

from winnow.storage.places import Places

SPARE_BYTES = 64 * 2**20
"""Left free on every disk, for checkpoints and for whoever else writes there."""


def free_bytes(directory: str) -> int:
    """What this process may still write to the file system of a directory, less a little to spare;
    below 0 if that is not there.
    """
    return Places().volume(directory).free_bytes - SPARE_BYTES
