"""The local POSIX file system, every path opened by `winnow.storage.guarded`."""

from __future__ import annotations

import os
import stat
from contextlib import AbstractContextManager, nullcontext

from winnow.errors import CorruptLogError
from winnow.storage.attributes import give_attributes
from winnow.storage.contract import Entry, NewFile, Volume
from winnow.storage.creating import create_directory, create_file, ensure_directories
from winnow.storage.guarded import (
    held,
    is_there,
    not_a_file,
    open_dir,
    open_file,
    open_guarded,
    parent_of,
    status_of,
)
from winnow.storage.io_counters import count_io
from winnow.storage.size_limits import size_limit, too_large
from winnow.storage.turns import sync


class LocalStorage:
    """Implements `winnow.storage.contract.Storage`; keeps no state."""

    def canonical(self, path: str) -> str:
        return os.path.realpath(path)

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        entries = []
        with held(open_dir(path), path) as directory, os.scandir(directory) as found:
            for item in found:
                try:
                    status = item.stat(follow_symlinks=False)
                except FileNotFoundError:
                    # Removed since it was listed. A broker would see no file either.
                    entries.append(
                        Entry(name=item.name, is_file=False, is_dir=False, size=0, mtime_ns=0)
                    )
                    continue
                entries.append(
                    _entry(
                        item.name, status, leads_to_dir=item.is_symlink() and _leads_to_dir(item)
                    )
                )
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def entry(self, path: str) -> Entry:
        return _entry(os.path.basename(path), status_of(path))

    def exists(self, path: str) -> bool:
        return is_there(path)

    def read_bytes(self, path: str) -> bytes:
        # Not open(): a survey reads a million small files, and its buffer costs twice as much as
        # the file.
        with held(open_file(path), path) as fd:
            size, most = os.fstat(fd).st_size, size_limit(path)
            if size > most:
                raise too_large(path, size, most)
            parts: list[bytes] = []
            left = most + 1
            while left > 0 and (part := os.read(fd, min(left, size + 1))):
                parts.append(part)
                left -= len(part)
            if left <= 0:  # the file is growing while it is read
                raise too_large(path, most + 1, most)
        data = b"".join(parts)
        count_io(read=len(data), files=1)
        return data

    def read_range(self, path: str, start: int, length: int) -> bytes:
        parts = []
        with held(open_file(path), path) as fd:
            while length > 0 and (part := os.pread(fd, length, start)):
                parts.append(part)
                start += len(part)
                length -= len(part)
                count_io(read=len(part))
        count_io(files=1)
        return b"".join(parts)

    def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
        del mtime_ns
        fd = create_file(path)
        try:
            view = memoryview(data)
            while view.nbytes:
                view = view[os.write(fd, view) :]
            count_io(written=len(data), files=1)
            sync(fd)
        except OSError as error:  # half a file is useless and blocks a second attempt
            self.unlink(path)
            error.filename = path
            raise
        finally:
            os.close(fd)

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        del mtime_ns  # set when the file is finished
        return _NewFile(path)

    def rename(self, source: str, target: str) -> None:
        with parent_of(source) as (there, name), parent_of(target) as (here, new_name):
            os.rename(name, new_name, src_dir_fd=there, dst_dir_fd=here)

    def link(self, source: str, target: str) -> None:
        with parent_of(source) as (there, name), parent_of(target) as (here, new_name):
            os.link(name, new_name, src_dir_fd=there, dst_dir_fd=here, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        with parent_of(path) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def truncate(self, path: str, size: int) -> None:
        with held(open_file(path, os.O_RDWR), path) as fd:
            status = os.fstat(fd)
            if status.st_size < size:
                raise CorruptLogError(
                    "a file is shorter than what must stay of it",
                    expected=f"at least {size} bytes",
                    found=f"{status.st_size} bytes",
                    where=path,
                    hint="Something else is writing to this directory. Stop it and run again.",
                )
            if status.st_nlink > 1:
                raise CorruptLogError(
                    "a file that must be cut has other names, perhaps in a backup by hard links",
                    expected="one name",
                    found=f"{status.st_nlink} names",
                    where=path,
                    hint="Replace it with a copy of its own: cp -p FILE FILE.copy, then mv "
                    "FILE.copy FILE.",
                )
            if size < status.st_size:
                os.ftruncate(fd, size)

    def fsync_file(self, path: str) -> None:
        with held(open_file(path), path) as fd:
            sync(fd)

    def fsync_dir(self, path: str) -> None:
        with held(open_dir(path), path) as fd:
            sync(fd)

    def mkdir(self, path: str) -> None:
        create_directory(path)

    def ensure_dir(self, path: str) -> None:
        ensure_directories(path)

    def rmdir(self, path: str) -> None:
        with parent_of(path) as (directory, name):
            os.rmdir(name, dir_fd=directory)

    def copy_attributes(self, source: str, target: str) -> None:
        wanted = status_of(source)
        if stat.S_ISLNK(wanted.st_mode):
            raise not_a_file(source, wanted)
        give_attributes(target, wanted, like=source)

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        with held(open_file(path), path) as fd:
            os.utime(fd, ns=(os.fstat(fd).st_atime_ns, mtime_ns))

    def volume(self, path: str) -> Volume:
        with held(open_guarded(path, os.O_PATH), path) as fd:
            status, key = os.statvfs(fd), os.fstat(fd).st_dev
        return Volume(
            key=key,
            free_bytes=status.f_bavail * status.f_frsize,
            total_bytes=status.f_blocks * status.f_frsize,
            free_files=status.f_favail if status.f_files else None,
            read_only=bool(status.f_flag & os.ST_RDONLY),
        )

    def changing(self, directory: str) -> AbstractContextManager[None]:
        del directory
        return nullcontext()

    def settle(self, directory: str) -> None:
        """Nothing to do: each change takes effect at once."""


class _NewFile:
    """Implements `winnow.storage.contract.NewFile`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = create_file(path)

    def write(self, data: memoryview) -> int:
        try:
            return os.write(self._fd, data)
        except OSError as error:
            error.filename = self._path
            raise

    def finish(self) -> None:
        sync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def _entry(name: str, status: os.stat_result, *, leads_to_dir: bool = False) -> Entry:
    return Entry(
        name=name,
        is_file=stat.S_ISREG(status.st_mode),
        is_dir=stat.S_ISDIR(status.st_mode),
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        is_link=stat.S_ISLNK(status.st_mode),
        leads_to_dir=leads_to_dir,
        stamp=stamp_of(status),
    )


def _leads_to_dir(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # a link to itself, or to a target that can't be read
        return False


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
