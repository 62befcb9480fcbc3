"""Map a range of a segment as an array without copying it, and write new files in order."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from winnow.errors import CorruptLogError, NoSpaceError
from winnow.storage.guarded import held, open_file
from winnow.storage.io_counters import count_io
from winnow.storage.live.page_cache import read_into
from winnow.storage.live.read_view import open_viewed, view_of
from winnow.storage.places import Places
from winnow.storage.size_limits import LOG_SUFFIX, check_size
from winnow.storage.throttle import PIECE_BYTES, Throttle, current_throttle
from winnow.storage.urls import is_remote

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_FETCHED_AT_ONCE = 8 * 2**20
_SMALL_BYTES = 64 * 2**10
_EMPTY = np.frombuffer(b"", np.uint8)
_POPULATE_READ = 22
"""MADV_POPULATE_READ of Linux 5.14, on every processor. Python 3.11 has no name for it."""
_SENT_BYTES = 4 * 2**20
"""After so many new bytes of a file the system is asked to write them to the disk."""
_ON_THE_WAY = 4 * _SENT_BYTES
"""The pages of so many earlier bytes are dropped, too, if they are on the disk by now. Older pages
are not searched: that takes 0.6 ms for each 64 MiB.
"""
_HARDWARE_POISON = 133
_UNREADABLE = frozenset({errno.EFAULT, errno.EIO, _HARDWARE_POISON})


@contextmanager
def map_range(path: str, start: int, end: int, *, gradually: bool = False) -> Iterator[Bytes]:
    """Yield bytes [start, end) of a file as a read-only uint8 array, mapped.

    Mapping all pages at once is cheaper than a fault every few pages. Use `gradually` to look at
    few of the pages in ascending order. Then call `load` before touching them: a page that the disk
    can't read would kill the process.

    Every array made from it must be gone when the block ends; the kernels copy what they keep. With
    a throttle (`winnow.storage.throttle`) the file is read piece by piece.

    Files of a read view are copied into memory, not mapped. With `gradually`, `load` copies: bytes
    that were not loaded, or were released, are zeros.

    Raises CorruptLogError if the file is shorter than `end`, and OSError if the disk can't read it.
    """
    try:
        if start == end:
            yield _EMPTY
        elif is_remote(path):
            yield _fetched(path, start, end)
        elif end - start <= _SMALL_BYTES and current_throttle() is None:
            yield _read(path, start, end)
        elif (view := view_of(path)) is not None and (file := view.file_at(path)) is not None:
            if file.entry.size < end:
                raise _shorter(path, end, file.entry.size)
            if file.bytes_in_file < end:
                yield _read(path, start, end)
                return
            with held(open_viewed(view, path, file), path) as descriptor:
                yield _copied(descriptor, path, start, end, gradually=gradually)
        else:
            yield _mapped(path, start, end, gradually=gradually)
    except OSError as error:
        if error.errno == errno.EIO and error.filename is None:
            error.filename = path
        raise


class PacedPlaces(Places):
    """`Places`, but ranges are read at the rate of the throttle."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        # Files of a read view are read at that rate anyway.
        if (throttle := current_throttle()) is not None and view_of(path) is None:
            throttle.take(length)
        return super().read_range(path, start, length)


def load(buf: Bytes, start: int, end: int) -> None:
    """Load bytes [start, end) of an array from `map_range`. Does nothing to other arrays.

    Raises OSError (EIO) if the disk can't read them: touching them would kill the process.
    """
    owner, offset = _map_of(buf)
    if owner is not None and start < end:
        _load(owner, offset + start, offset + end)


def release(buf: Bytes, end: int) -> None:
    """Let the system drop what lies before byte `end` of an array from `map_range`. A later access
    reads it again.

    For readers that pass over a segment in ascending order: otherwise the process holds all of it
    at the end.
    """
    owner, offset = _map_of(buf)
    if owner is not None:
        passed = offset + end
        passed -= passed % mmap.PAGESIZE
        if passed > 0:
            owner.madvise(mmap.MADV_DONTNEED, 0, passed)


def _map_of(buf: Bytes) -> tuple[mmap.mmap | None, int]:
    """Return the map that an array is a part of, if any, and where it begins there."""
    whole: Any = buf
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    owner = whole.base.obj if isinstance(whole.base, memoryview) else None
    if not isinstance(owner, mmap.mmap):
        return None, 0
    return owner, buf.ctypes.data - whole.ctypes.data


def _load(owner: mmap.mmap, start: int, end: int) -> None:
    if isinstance(owner, _Copy):
        owner.fill(start, end)
        return
    start -= start % mmap.PAGESIZE
    try:
        _populate(owner, start, end)
    except OSError as error:
        if error.errno in _UNREADABLE:
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from error
        raise


def _populate(owner: mmap.mmap, start: int, end: int) -> None:
    try:
        owner.madvise(_POPULATE_READ, start, end - start)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _copy(owner, start, end)  # a system older than Linux 5.14


def _copy(owner: mmap.mmap, start: int, end: int) -> None:
    """Let the system read all pages. It reports an error for one that it can't load."""
    sink = os.memfd_create("winnow", os.MFD_CLOEXEC)
    try:
        with memoryview(owner) as whole:
            while start < end:
                with whole[start : min(end, start + PIECE_BYTES)] as piece:
                    start += os.pwrite(sink, piece, 0)
    finally:
        os.close(sink)


def _read(path: str, start: int, end: int) -> Bytes:
    """Read a small range. Copying it is faster than mapping it and needs no page of its own."""
    data = Places().read_range(path, start, end - start)
    if start + len(data) < end:
        raise _shorter(path, end, start + len(data))
    return np.frombuffer(data, np.uint8)


class _Copy(mmap.mmap):
    """Memory that is filled with the bytes of a file as they are loaded. Unlike a map of the file,
    it does not kill the process if the file becomes shorter.
    """

    descriptor: int
    path: str
    start: int
    """The byte of the file with which it begins."""

    def fill(self, start: int, end: int) -> None:
        with memoryview(self) as whole, whole[start:end] as target:
            count = read_into(self.descriptor, target, self.start + start)
            if count < end - start:
                wanted, found = self.start + end, self.start + start + count
                raise _shorter(self.path, wanted, found)


def _copied(descriptor: int, path: str, start: int, end: int, *, gradually: bool) -> Bytes:
    copy = _Copy(-1, end - start, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    copy.descriptor, copy.path, copy.start = descriptor, path, start
    if not gradually:
        for at in range(0, end - start, PIECE_BYTES):
            copy.fill(at, min(end - start, at + PIECE_BYTES))
    array = np.frombuffer(copy, np.uint8)
    array.flags.writeable = False
    return array


def _mapped(path: str, start: int, end: int, *, gradually: bool) -> Bytes:
    first_page = start - start % mmap.ALLOCATIONGRANULARITY
    throttle = current_throttle()
    with held(open_file(path), path) as fd:
        size = os.fstat(fd).st_size
        if size < end:
            raise _shorter(path, end, size)
        if path.endswith(LOG_SUFFIX):
            check_size(path, size)
        # Doubles the read-ahead, for a map, too: data that is not in memory arrives an eighth
        # sooner.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        mapped = mmap.mmap(
            fd, end - first_page, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=first_page
        )
    if gradually:
        mapped.madvise(mmap.MADV_SEQUENTIAL)
    count_io(read=end - start, files=1)
    if throttle is not None:
        _load_slowly(mapped, throttle)
    elif not gradually:
        _load(mapped, 0, len(mapped))
    # No mapped.close(): it would raise while an array still refers to the map. The last reference
    # unmaps it.
    return np.frombuffer(mapped, np.uint8)[start - first_page :]


def _fetched(path: str, start: int, end: int) -> Bytes:
    """Copy a remote range to an unnamed local file, which the system can write out."""
    storage, throttle = Places(), current_throttle()
    with tempfile.TemporaryFile(prefix="winnow-") as copy:
        for at in range(start, end, _FETCHED_AT_ONCE):
            length = min(_FETCHED_AT_ONCE, end - at)
            if throttle is not None:
                throttle.take(length)
            piece = storage.read_range(path, at, length)
            if len(piece) < length:
                raise _shorter(path, end, at + len(piece))
            copy.write(piece)
        copy.flush()
        mapped = mmap.mmap(copy.fileno(), end - start, prot=mmap.PROT_READ)
    _load(mapped, 0, len(mapped))
    return np.frombuffer(mapped, np.uint8)


def _shorter(path: str, end: int, size: int) -> CorruptLogError:
    return CorruptLogError(
        "the file became shorter while it was being read",
        expected=f"at least {end} bytes",
        found=f"{size} bytes",
        where=path,
        hint="Something else is writing to this directory. Stop it and run again.",
    )


def _load_slowly(mapped: mmap.mmap, throttle: Throttle) -> None:
    """Load all of a map at the rate of the throttle."""
    for at in range(0, len(mapped), PIECE_BYTES):
        end = min(len(mapped), at + PIECE_BYTES)
        throttle.take(end - at)
        _load(mapped, at, end)


class SegmentWriter:
    """A new file, written from its start. It is on stable storage when closed without an error.

    `limit`: maximum size in bytes; NoSpaceError if more is written. `mtime_ns`: see
    `Storage.new_file`.
    """

    def __init__(self, path: str, *, limit: int | None = None, mtime_ns: int | None = None) -> None:
        self.path = path
        self.size = self._sent = 0
        self._limit = limit
        self._throttle = current_throttle()
        self._file = Places().new_file(path, mtime_ns=mtime_ns)
        count_io(files=1)

    def write(self, data: Bytes | bytes) -> None:
        view = memoryview(data.data if isinstance(data, np.ndarray) else data)
        if self._limit is not None and self.size + view.nbytes > self._limit:
            raise NoSpaceError(
                "not enough space: a new file is larger than its sources",
                expected=f"at most {self._limit} bytes",
                found=f"{self.size + view.nbytes}",
                where=self.path,
                hint="Free some space, or allow more with --max-extra-space.",
            )
        while view.nbytes:
            piece = view
            if self._throttle is not None:
                piece = view[:PIECE_BYTES]
                self._throttle.take(piece.nbytes)
            written = self._file.write(piece)
            self.size += written
            count_io(written=written)
            view = view[written:]
        if self.size - self._sent >= _SENT_BYTES:
            # When asked to drop pages that are not on the disk yet, the system starts to write
            # them. The sync at the end then has less to wait for.
            drop_cached(self.path, start=max(0, self._sent - _ON_THE_WAY))
            self._sent = self.size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._file.finish()
        finally:
            self._file.close()


def drop_cached(path: str, *, start: int = 0) -> None:
    """Drop the system's copy of a written file from byte `start` on, so that a later read reads the
    disk.
    """
    if is_remote(path):
        return  # nothing of it is cached here
    with held(open_file(path), path) as fd:
        os.posix_fadvise(fd, start, 0, os.POSIX_FADV_DONTNEED)
