"""Report progress in bytes while tasks run: a file with one byte for each piece of work.

Spark reports a task only when it ends, and one task may process a gigabyte. A task sets a byte for
each piece it finishes, and the driver adds up the sizes of these pieces. Setting a byte twice is
harmless: a task may run again. This works only where workers and driver share a machine. Elsewhere
the file is not found and nothing is ticked.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from winnow.runtime.run_directory import run_directory


class TickSheet:
    """The driver's side, a context manager. `sizes`: bytes of each piece of work."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = np.array(sizes, np.int64)
        descriptor, self.path = tempfile.mkstemp(prefix="winnow-ticks-", dir=run_directory())
        os.ftruncate(descriptor, len(sizes))
        os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        Path(self.path).unlink(missing_ok=True)

    @property
    def total(self) -> int:
        return int(self._sizes.sum())

    def done(self) -> int:
        try:
            ticked = np.frombuffer(Path(self.path).read_bytes(), np.uint8)
        except OSError:
            return 0
        count = min(len(ticked), len(self._sizes))
        return int(self._sizes[:count][ticked[:count] != 0].sum())


def tick(path: str, piece: int) -> None:
    """Mark this piece as done, on the worker's side. Problems with the file never fail a task."""
    with contextlib.suppress(OSError), open(path, "r+b", buffering=0) as sheet:
        sheet.seek(piece)
        sheet.write(b"\x01")
