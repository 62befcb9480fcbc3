"""The local POSIX file system, every path opened by `winnow.storage.guarded`."""

from __future__ import annotations

import os
import stat
from operator import attrgetter

from winnow.errors import CorruptLogError
from winnow.storage.attributes import give_attributes
from winnow.storage.contract import Entry, NewFile, Storage, Volume, write_whole
from winnow.storage.creating import create_directory, create_file, ensure_directories
from winnow.storage.guarded import (
    held,
    naming,
    not_a_file,
    open_file,
    open_guarded,
    opened_dir,
    parent_of,
    status_of,
)
from winnow.storage.io_counters import count_io
from winnow.storage.mounts import read_only
from winnow.storage.size_limits import check_size
from winnow.storage.turns import sync

_BLOCK_BYTES = 512
"""Of `st_blocks`, on every file system."""
_NAME = attrgetter("name")


class LocalStorage(Storage):
    """Implements `winnow.storage.contract.Storage`; keeps no state."""

    def canonical(self, path: str) -> str:
        return os.path.realpath(path)

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        with opened_dir(path) as directory, os.scandir(directory) as found:
            return tuple(sorted(map(_listed, found), key=_NAME))

    def names(self, path: str) -> tuple[str, ...]:
        with opened_dir(path) as directory:
            return tuple(os.listdir(directory))

    def entry(self, path: str) -> Entry:
        return entry_of(path.rpartition("/")[2], status_of(path))

    def read_bytes(self, path: str) -> bytes:
        # Not open(): a survey reads a million small files, and its buffer costs twice as much as
        # the file.
        with held(open_file(path), path) as fd:
            size = os.fstat(fd).st_size
            data = _read(fd, 0, check_size(path, size) + 1, at_once=size + 1)
        check_size(path, len(data))  # it may have grown while it was read
        return data

    def read_range(self, path: str, start: int, length: int) -> bytes:
        with held(open_file(path), path) as fd:
            return _read(fd, start, length, at_once=length)

    def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
        write_whole(self, path, self.new_file(path, mtime_ns=mtime_ns), data)

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        del mtime_ns  # set when the file is finished
        return NewLocalFile(path)

    def rename(self, source: str, target: str) -> None:
        above, _, new_name = target.rpartition("/")
        if source.rpartition("/")[0] == above:
            with parent_of(source) as (here, name):
                os.rename(name, new_name, src_dir_fd=here, dst_dir_fd=here)
            return
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
        with opened_dir(path) as fd:
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
            status, key, fixed = os.statvfs(fd), os.fstat(fd).st_dev, read_only(fd)
        return Volume(
            key=key,
            free_bytes=status.f_bavail * status.f_frsize,
            total_bytes=status.f_blocks * status.f_frsize,
            free_files=status.f_favail if status.f_files else None,
            read_only=fixed,
            used_bytes=(status.f_blocks - status.f_bfree) * status.f_frsize,
            used_files=status.f_files - status.f_ffree if status.f_files else None,
        )


class NewLocalFile(NewFile):
    """`descriptor`: of the empty file. None: it is created; `shared`: see `create_file`."""

    def __init__(self, path: str, descriptor: int | None = None, *, shared: bool = False) -> None:
        self._path = path
        self._fd = create_file(path, shared=shared) if descriptor is None else descriptor

    def write(self, data: memoryview) -> int:
        with naming(self._path):
            return os.write(self._fd, data)

    def finish(self) -> None:
        with naming(self._path):
            sync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def _read(fd: int, start: int, length: int, *, at_once: int) -> bytes:
    parts = []
    while length > 0 and (part := os.pread(fd, min(length, at_once), start)):
        parts.append(part)
        start += len(part)
        length -= len(part)
    data = b"".join(parts)
    count_io(read=len(data), files=1)
    return data


def entry_of(name: str, status: os.stat_result, *, leads_to_dir: bool = False) -> Entry:
    kind = stat.S_IFMT(status.st_mode)
    return Entry(
        name=name,
        is_file=kind == stat.S_IFREG,
        is_dir=kind == stat.S_IFDIR,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        is_link=kind == stat.S_IFLNK,
        leads_to_dir=leads_to_dir,
        stamp=stamp_of(status),
        allocated=status.st_blocks * _BLOCK_BYTES,
        links=status.st_nlink,
    )


def _listed(item: os.DirEntry[str]) -> Entry:
    try:
        status = item.stat(follow_symlinks=False)
    except FileNotFoundError:
        return Entry(item.name)  # removed since it was listed: a broker would see no file either
    try:
        leads_to_dir = stat.S_ISLNK(status.st_mode) and item.is_dir()
    except OSError:  # a link to itself, or to a target that can't be read
        leads_to_dir = False
    return entry_of(item.name, status, leads_to_dir=leads_to_dir)


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
