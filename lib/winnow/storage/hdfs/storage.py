"""HDFS behind the storage contract: cleans log directories there in place.

A name node does one change after the other and keeps their order, including renames, in its edit
log. A rename replaces its target atomically. So a directory needs no sync. When `finish` or
`create` returns, a file's bytes are on the disks of its data nodes. Times are in ms there. HDFS has
neither hard nor symbolic links.
"""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

from hdfs_native import FileStatus, FileWriter, WriteOptions

from winnow.storage.contract import Entry, NewFile, Storage, Volume, os_error
from winnow.storage.hdfs.client import SCHEME, canonical_url, connect, hdfs_errors
from winnow.storage.io_counters import count_io

_NS = 10**6
_ERASURE_CODED = "hsync is not supported"


class HdfsStorage:
    """Implements `Storage` for the URLs of one name node. Its client is its only state."""

    def __init__(self, authority: str) -> None:
        self._url = f"{SCHEME}://{authority}"
        self._client = connect(authority)

    def canonical(self, path: str) -> str:
        return canonical_url(path)

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        at = _path(path)
        with hdfs_errors(path):
            found = [*self._client.list_status(at)]
        # A file is listed as its own only entry.
        if any(status.path == at and not status.isdir for status in found):
            raise os_error(errno.ENOTDIR, path)
        return tuple(sorted((_entry(status) for status in found), key=lambda entry: entry.name))

    def entry(self, path: str) -> Entry:
        with hdfs_errors(path):
            return _entry(self._client.get_file_info(_path(path)))

    def exists(self, path: str) -> bool:
        with suppress(FileNotFoundError):
            self.entry(path)
            return True
        return False

    def read_bytes(self, path: str) -> bytes:
        with hdfs_errors(path):
            data: bytes = self._client.read(_path(path)).read()
        count_io(read=len(data), files=1)
        return data

    def read_range(self, path: str, start: int, length: int) -> bytes:
        with hdfs_errors(path):
            file = self._client.read(_path(path))
            length = min(length, len(file) - start)
            data: bytes = file.read_range(start, length) if length > 0 else b""
        count_io(read=len(data), files=1)
        return data

    def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
        del mtime_ns
        file = self._new(path, 0o644)
        try:
            file.write(memoryview(data))
            file.finish()
        except OSError:  # half a file is useless and blocks a second attempt
            with suppress(OSError):
                self.unlink(path)
            raise
        count_io(written=len(data), files=1)

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        del mtime_ns
        return self._new(path, 0o600)

    def rename(self, source: str, target: str) -> None:
        with hdfs_errors(source):
            self._client.rename(_path(source), _path(target), True)

    def move(self, source: str, target: str) -> None:
        """Like `rename`, but FileExistsError if there is something at `target`."""
        with hdfs_errors(target):
            self._client.rename(_path(source), _path(target), False)

    def link(self, source: str, target: str) -> None:
        raise OSError(errno.EOPNOTSUPP, "HDFS has no links", source, None, target)

    def unlink(self, path: str) -> None:
        with hdfs_errors(path):
            if not self._client.delete(_path(path)):
                raise FileNotFoundError

    def truncate(self, path: str, size: int) -> None:
        raise io.UnsupportedOperation(f"{path} can't be cut to {size} bytes")

    def fsync_file(self, path: str) -> None:
        """Nothing to do: see the module."""

    def fsync_dir(self, path: str) -> None:
        """Nothing to do: see the module."""

    def mkdir(self, path: str) -> None:
        if self.exists(path):  # HDFS accepts an existing one; only the lease holder makes any
            raise os_error(errno.EEXIST, path)
        with hdfs_errors(path):
            self._client.mkdirs(_path(path), 0o755, False)

    def ensure_dir(self, path: str) -> None:
        with hdfs_errors(path):
            self._client.mkdirs(_path(path), 0o755, True)

    def rmdir(self, path: str) -> None:
        self.unlink(path)

    def copy_attributes(self, source: str, target: str) -> None:
        with hdfs_errors(target):
            wanted, have = (self._client.get_file_info(_path(path)) for path in (source, target))
            if (wanted.owner, wanted.group) != (have.owner, have.group):
                try:
                    with hdfs_errors(target):
                        self._client.set_owner(_path(target), wanted.owner, wanted.group)
                except PermissionError as error:
                    owner = f"{wanted.owner}:{wanted.group}, the owner of {source}"
                    what = (
                        f"{error.strerror}: it must belong to {owner}; run as that user or as "
                        "HDFS's superuser"
                    )
                    raise PermissionError(error.errno, what, target) from None
            if wanted.permission != have.permission:
                self._client.set_permission(_path(target), wanted.permission)

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        with hdfs_errors(path):
            self._client.set_times(_path(path), mtime_ns // _NS, mtime_ns // _NS)

    def volume(self, path: str) -> Volume:
        """Return an unlimited volume: HDFS itself refuses writes beyond a quota."""
        del path
        return Volume(key=self._url, free_bytes=sys.maxsize, total_bytes=sys.maxsize)

    def changing(self, directory: str) -> AbstractContextManager[None]:
        del directory
        return nullcontext()

    def settle(self, directory: str) -> None:
        """Nothing to do: each change takes effect at once."""

    def _new(self, path: str, permission: int) -> _NewFile:
        with hdfs_errors(path):
            # Don't create its directory: if it is gone, it was taken away from this writer.
            options = WriteOptions(permission=permission, create_parent=False)
            return _NewFile(path, self._client.create(_path(path), options))


class _NewFile:
    """Implements `winnow.storage.contract.NewFile`."""

    def __init__(self, path: str, file: FileWriter) -> None:
        self._path = path
        self._file = file
        self._is_open = True

    def write(self, data: memoryview) -> int:
        with hdfs_errors(self._path):
            taken: int = self._file.write(data)
            return taken

    def finish(self) -> None:
        with hdfs_errors(self._path):
            try:
                self._file.hsync()
            except Exception as error:
                # closing is the only sync that erasure-coded files have
                if _ERASURE_CODED not in str(error):
                    raise
            self._is_open = False
            self._file.close()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            with suppress(OSError), hdfs_errors(self._path):
                self._file.close()


def _path(url: str) -> str:
    """Return the path of a URL. The given directories are canonical already."""
    return "/" + url.partition("://")[2].partition("/")[2]


def _entry(status: FileStatus) -> Entry:
    return Entry(
        name=status.path.rpartition("/")[2],
        is_file=not status.isdir,
        is_dir=status.isdir,
        size=status.length,
        mtime_ns=status.modification_time * _NS,
    )


open_storage: Callable[[str], Storage] = HdfsStorage
"""For `winnow.storage.places`."""
