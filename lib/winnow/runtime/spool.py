"""Where blobs are kept between two stages: in Spark's shuffle, or in files beside it
(docs/decisions/0002).

The shuffle copies each byte through two Python workers, two pipes and the JVM. Where all tasks
share a machine, only the location of a blob travels.

Each process appends to one file in turn: thousands of small blobs do not need a file each.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from winnow.runtime.run_directory import run_directory
from winnow.wire.buffers import Array

if TYPE_CHECKING:
    from pyspark import SparkContext

_FILE_BYTES = 2**26
"""A file that has grown to this size is full. The next blob begins another one."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """`size` bytes of a file, starting at `start`."""

    path: str
    start: int
    size: int

    def __len__(self) -> int:
        return self.size

    def rows(self, first: int, end: int, size: int) -> Spooled:
        """Return where some rows of an array are, of `size` bytes each."""
        return Spooled(self.path, self.start + first * size, (end - first) * size)


Blob: TypeAlias = bytes | Spooled


@dataclass(frozen=True, slots=True)
class StoredPart:
    """Keys of the dirty or of the clean range of a split: see `winnow.scan.scan.PackedKeys`."""

    dirty: bool
    starts: Spooled
    hashes: Spooled
    numbers: Spooled
    tombstones: Spooled

    @property
    def count(self) -> int:
        return len(self.numbers) // 4


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """The keys of a split, in a file, prefetched by the walk (`winnow.scan.prefetch`)."""

    first_dirty_offset: int
    """Offsets at or above it were treated as dirty."""
    buckets: int
    parts: tuple[StoredPart, ...]


@contextmanager
def spooling(sc: SparkContext) -> Iterator[str | None]:
    """Yield a directory for blobs beside Spark's shuffle files; None if tasks run on other
    machines.
    """
    master = sc.master or ""
    if not (master == "local" or master.startswith("local[")):
        yield None
        return
    beside: str | None = sc._temp_dir  # noqa: SLF001 - no public way to ask
    directory = tempfile.mkdtemp(prefix="winnow-spool-", dir=beside or run_directory())
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def part_of(directory: str | None) -> str | None:
    """Return a new directory in it, for blobs that are needed for less time; itself if none can be
    made.
    """
    with suppress(OSError):
        return None if directory is None else tempfile.mkdtemp(dir=directory)
    return directory


def remove_part(part: str | None, directory: str | None) -> None:
    if part is not None and part != directory:
        shutil.rmtree(part, ignore_errors=True)


def stored(directory: str | None, array: Array, bounds: Sequence[int]) -> list[Blob]:
    """Store rows `bounds[i]` to `bounds[i + 1]` of a contiguous array, each as a blob."""
    if directory is None:
        return [array[start:end].tobytes() for start, end in pairwise(bounds)]
    [whole] = written(directory, [array])
    row = array.nbytes // max(1, len(array))
    return [whole.rows(start, end, row) for start, end in pairwise(bounds)]


def written(directory: str, arrays: Sequence[Array]) -> list[Spooled]:
    """Write the bytes of contiguous arrays and return where each is. On failure, remove them and
    raise OSError, which names the file.
    """
    descriptor, path = _next_file(directory)
    with open(descriptor, "wb", buffering=0) as file:
        start = file.seek(0, os.SEEK_END)
        try:
            for array in arrays:
                left = array.reshape(-1).view(np.uint8).data
                while left:
                    left = left[file.write(left) :]
        except OSError as error:
            error.filename = path  # errors of a descriptor name no file
            with suppress(OSError):
                file.truncate(start)
                if not start:
                    os.unlink(path)
            raise
        if file.tell() < _FILE_BYTES:
            _begun[directory, os.getpid()] = path
    starts = accumulate((array.nbytes for array in arrays), initial=start)
    return [Spooled(path, at, array.nbytes) for at, array in zip(starts, arrays, strict=False)]


_begun: dict[tuple[str, int], str] = {}
"""By directory and process: a file with room. A worker may be forked at any time."""


def _next_file(directory: str) -> tuple[int, str]:
    """Return a file of this process to append to, opened, and its path. It is not kept open: the
    end of the job removes it, and its space must be free then.
    """
    path = _begun.pop((directory, os.getpid()), None)
    _begun.clear()  # directories of earlier jobs
    if path is not None:
        with suppress(OSError):  # a new one is as good
            return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC), path
    return tempfile.mkstemp(dir=directory)


def joined(blobs: Sequence[Blob], dtype: type[np.generic]) -> Array:
    """Return all bytes, concatenated, read-only. Raises OSError for a file that is too short."""
    array = np.empty(sum(map(len, blobs)) // np.dtype(dtype).itemsize, dtype)
    view = array.view(np.uint8).data
    at = 0
    for blob in blobs:
        part = view[at : at + len(blob)]
        at += len(blob)
        if isinstance(blob, bytes):
            part[:] = blob
            continue
        with open(blob.path, "rb") as file:
            file.seek(blob.start)
            missing = len(blob) - file.readinto(part)
        if missing:
            end = blob.start + blob.size
            raise OSError(f"{blob.path}: {missing} bytes are missing before byte {end}")
    array.flags.writeable = False
    return array
