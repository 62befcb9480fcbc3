"""What a file system lacks when no file can be written: bytes or inodes."""

from __future__ import annotations

import os
from contextlib import suppress

from winnow.storage.contract import Volume
from winnow.storage.places import Places
from winnow.words import counted, size

FREE_INODES = (
    "Inodes are what is missing (`df -i`), not bytes: remove or move files that are not Kafka's, "
    "however small"
)


_FEW_INODES = 1000
"""A run that fails removes what it has staged: then some are free again."""


def lacks_inodes(volume: Volume) -> bool:
    return volume.free_files == 0 and volume.free_bytes > 0


def words_of_no_space(error: OSError) -> str:
    """Return a message for an error that says that a file system is full. Of few free
    inodes, it gives the number.
    """
    words = f"not enough space: {error}"
    with suppress(OSError):
        volume = Places().volume(os.path.dirname(str(error.filename or "")) or "/")
        if error.filename and lacks_inodes(volume):
            free = f"although {size(volume.free_bytes)} are free"
            return f"{words}. No file can be made there, {free}. {FREE_INODES}"
        if error.filename and volume.free_files is not None and volume.free_files < _FEW_INODES:
            free = f"{counted(volume.free_files, 'inode')} and {size(volume.free_bytes)}"
            return f"{words}. Now {free} are free there: `df -i` and `df` show what is missing"
    return words
