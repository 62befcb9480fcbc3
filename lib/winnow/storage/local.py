"""A POSIX file system of this machine behind the storage contract."""

from __future__ import annotations

import os
import stat
from contextlib import AbstractContextManager, nullcontext

from winnow.storage.contract import Entry, NewFile, Volume
from winnow.storage.creating import create_directory, create_file, ensure_directories
from winnow.storage.moved import MOVED

_PIECE_BYTES = 2**20


class LocalStorage:
    """Implements `winnow.storage.contract.Storage`; keeps no state."""

    def canonical(self, path: str) -> str:
        return os.path.realpath(path)

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        entries = []
        with os.scandir(path) as found:
            for item in found:
                link = item.is_symlink()
                try:
                    status = item.stat()
                except OSError:
                    # A link to nowhere or to itself, or gone since it was listed: no file to a broker either.
                    entries.append(Entry(name=item.name, is_file=False, is_dir=False, size=0, mtime_ns=0, is_link=link))
                    continue
                entries.append(_entry(item.name, status, is_link=link))
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def entry(self, path: str) -> Entry:
        return _entry(os.path.basename(path), os.stat(path), is_link=os.path.islink(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def read_bytes(self, path: str) -> bytes:
        # Not open(): a survey reads a million small files, and its buffer costs twice as much as the file.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            at_once = min(os.fstat(fd).st_size + 1, _PIECE_BYTES)
            while part := os.read(fd, at_once):
                parts.append(part)
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(fd)
        data = b"".join(parts)
        MOVED.read += len(data)
        MOVED.files += 1
        return data

    def read_range(self, path: str, start: int, length: int) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while length > 0:
                part = os.pread(fd, length, start)
                if not part:
                    break
                parts.append(part)
                start += len(part)
                length -= len(part)
                MOVED.read += len(part)
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(fd)
        MOVED.files += 1
        return b"".join(parts)

    def create(self, path: str, data: bytes) -> None:
        fd = create_file(path)
        try:
            view = memoryview(data)
            while view.nbytes:
                view = view[os.write(fd, view) :]
            MOVED.written += len(data)
            MOVED.files += 1
            os.fsync(fd)
        except OSError as error:  # half of it is of no use, and in the way of a second attempt
            os.unlink(path)
            error.filename = path
            raise
        finally:
            os.close(fd)

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        del mtime_ns  # it is set when the file is finished
        return _NewFile(path)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def fsync_file(self, path: str) -> None:
        _fsync(path, os.O_RDONLY)

    def fsync_dir(self, path: str) -> None:
        _fsync(path, os.O_RDONLY | os.O_DIRECTORY)

    def mkdir(self, path: str) -> None:
        create_directory(path)

    def ensure_dir(self, path: str) -> None:
        ensure_directories(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def copy_attributes(self, source: str, target: str) -> None:
        wanted, have = os.stat(source), os.stat(target)
        # Who may not give files away can still write ones that already have the right owner.
        if (wanted.st_uid, wanted.st_gid) != (have.st_uid, have.st_gid):
            try:
                os.chown(target, wanted.st_uid, wanted.st_gid)
            except PermissionError as error:
                owner = f"{wanted.st_uid}:{wanted.st_gid}, the owner of {source}"
                what = f"{error.strerror}: it must belong to {owner}; run as that user, or as root"
                raise PermissionError(error.errno, what, target) from None
        # After chown: it clears set-id bits.
        os.chmod(target, stat.S_IMODE(wanted.st_mode))

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        os.utime(path, ns=(os.stat(path).st_atime_ns, mtime_ns))

    def volume(self, path: str) -> Volume:
        status = os.statvfs(path)
        return Volume(
            key=os.stat(path).st_dev,
            free_bytes=status.f_bavail * status.f_frsize,
            total_bytes=status.f_blocks * status.f_frsize,
        )

    def changing(self, directory: str) -> AbstractContextManager[None]:
        del directory
        return nullcontext()

    def settle(self, directory: str) -> None:
        """Nothing ever is."""


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
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def _entry(name: str, status: os.stat_result, *, is_link: bool) -> Entry:
    return Entry(
        name=name,
        is_file=stat.S_ISREG(status.st_mode),
        is_dir=stat.S_ISDIR(status.st_mode),
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        is_link=is_link,
        stamp=stamp_of(status),
    )


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """`Entry.stamp`."""
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _fsync(path: str, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
