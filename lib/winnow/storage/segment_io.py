"""Segment bytes in bulk: a range of a file as an array without copying it, and a new file written in order."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np

from winnow.errors import CorruptLogError, NoSpaceError
from winnow.storage.moved import MOVED
from winnow.storage.throttle import PIECE_BYTES, Throttle, current_throttle

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_EMPTY = np.frombuffer(b"", np.uint8)


@contextmanager
def map_range(path: str, start: int, end: int) -> Iterator[Bytes]:
    """Bytes [start, end) of a file as a read-only uint8 array, mapped.

    Populating the map at once is cheaper than a page fault per 4 KiB. Every array made from it must be gone when the
    block ends; the kernels copy what they keep. With a throttle (`winnow.storage.throttle`) it is read piece by piece.

    Raises CorruptLogError if the file is shorter than `end`: touching a page beyond it would kill the process.
    """
    if start == end:
        yield _EMPTY
        return
    first_page = start - start % mmap.ALLOCATIONGRANULARITY
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        if size < end:
            raise CorruptLogError(
                "the file became shorter while it was being read",
                expected=f"at least {end} bytes",
                found=f"{size} bytes",
                where=path,
                hint="Something else is writing to this directory. Stop it and run again.",
            )
        throttle = current_throttle()
        flags = mmap.MAP_SHARED | (_POPULATE if throttle is None else 0)
        mapped = mmap.mmap(fd, end - first_page, flags=flags, prot=mmap.PROT_READ, offset=first_page)
    finally:
        os.close(fd)
    MOVED.read += end - start
    if throttle is not None:
        _read_slowly(np.frombuffer(mapped, np.uint8), throttle)
    # No mapped.close(): it would raise while an array still refers to the map. The last reference unmaps it.
    yield np.frombuffer(mapped, np.uint8)[start - first_page :]


def _read_slowly(data: Bytes, throttle: Throttle) -> None:
    """Touches every page, so that whoever gets the map finds it in memory."""
    for at in range(0, len(data), PIECE_BYTES):
        piece = data[at : at + PIECE_BYTES]
        throttle.take(len(piece))
        piece[:: mmap.PAGESIZE].max()


_POPULATE = getattr(mmap, "MAP_POPULATE", 0)


class SegmentWriter:
    """A new file, written from its start, on stable storage when closed without an error.

    `limit`: bytes it may have; NoSpaceError rather than more of them.
    """

    def __init__(self, path: str, *, limit: int | None = None) -> None:
        self.path = path
        self.size = 0
        self._limit = limit
        self._throttle = current_throttle()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: Bytes | bytes) -> None:
        view = memoryview(data.data if isinstance(data, np.ndarray) else data)
        if self._limit is not None and self.size + view.nbytes > self._limit:
            raise NoSpaceError(
                "not enough space: a file becomes larger than what it is made from",
                expected=f"at most {self._limit} bytes",
                found=f"{self.size + view.nbytes}",
                where=self.path,
                hint="Free some, or allow for more with --max-extra-space.",
            )
        while view.nbytes:
            piece = view
            if self._throttle is not None:
                piece = view[:PIECE_BYTES]
                self._throttle.take(piece.nbytes)
            try:
                written = os.write(self._fd, piece)
            except OSError as error:
                error.filename = self.path
                raise
            self.size += written
            MOVED.written += written
            view = view[written:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                os.fsync(self._fd)
        finally:
            os.close(self._fd)


def drop_cached(path: str) -> None:
    """Asks the system to forget its copy of a written file, so that reading it back reads the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
