"""Directories of more levels than Python can call itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEVELS = 1_500


@contextmanager
def deep_directory(path: Path) -> Iterator[int]:
    """Make `LEVELS` directories below a directory, each in the one above. Yield the descriptor of
    the deepest: its path is longer than the system accepts.
    """
    descriptor = os.open(path, os.O_RDONLY)
    for _ in range(LEVELS):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    try:
        yield descriptor
    finally:
        os.close(descriptor)
