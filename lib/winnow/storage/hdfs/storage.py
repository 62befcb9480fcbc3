"""HDFS behind the storage contract: cleans log directories there in place.

A name node does one change after the other and keeps their order, including renames, in its edit
log. A rename replaces its target atomically. So a directory needs no sync. When `finish` or
`create` returns, a file's bytes are on the disks of its data nodes. Times are in ms there. HDFS has
neither hard nor symbolic links.
"""

from __future__ import annotations

import errno
from contextlib import suppress

from hdfs_native import FileStatus, FileWriter, WriteOptions

from winnow.storage.contract import Entry, NewFile, Storage, Volume, os_error, write_whole
from winnow.storage.hdfs.client import (
    SCHEME,
    canonical_url,
    connect,
    hdfs_errors,
    path_of,
    split_url,
)
from winnow.storage.io_counters import count_io
from winnow.storage.size_limits import check_size

_NS = 10**6
_ERASURE_CODED = "hsync is not supported"


class HdfsStorage(Storage):
    """For the URLs of one name node. Its client is its only state."""

    def __init__(self, url: str) -> None:
        self._name_node, _ = split_url(url)
        self.client = connect(self._name_node)

    def canonical(self, path: str) -> str:
        return canonical_url(path)

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        with hdfs_errors(path) as at:
            found = [*self.client.list_status(at)]
        # A file is listed as its own only entry.
        if any(status.path == at and not status.isdir for status in found):
            raise os_error(errno.ENOTDIR, path)
        return tuple(sorted((_entry(status) for status in found), key=lambda entry: entry.name))

    def entry(self, path: str) -> Entry:
        with hdfs_errors(path) as at:
            return _entry(self.client.get_file_info(at))

    def read_bytes(self, path: str) -> bytes:
        return self.read_range(path, 0, None)

    def read_range(self, path: str, start: int, length: int | None) -> bytes:
        with hdfs_errors(path) as at:
            file = self.client.read(at)
            size = check_size(path, len(file)) if length is None else start + length
            length = min(size, len(file)) - start
            data: bytes = file.read_range(start, length) if length > 0 else b""
        count_io(read=len(data), files=1)
        return data

    def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
        del mtime_ns
        write_whole(self, path, self._new(path, 0o644), data)

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        del mtime_ns
        return self._new(path, 0o600)

    def _new(self, path: str, permission: int) -> _NewFile:
        with hdfs_errors(path) as at:
            # Don't create its directory: if it is gone, it was taken away from this writer.
            options = WriteOptions(permission=permission, create_parent=False)
            return _NewFile(path, self.client.create(at, options))

    def rename(self, source: str, target: str) -> None:
        with hdfs_errors(source) as at:
            self.client.rename(at, path_of(target), True)

    def move(self, source: str, target: str) -> None:
        """Like `rename`, but FileExistsError if there is something at `target`."""
        with hdfs_errors(target) as at:
            self.client.rename(path_of(source), at, False)

    def link(self, source: str, target: str) -> None:
        raise OSError(errno.EOPNOTSUPP, "HDFS has no links", source, None, target)

    def unlink(self, path: str) -> None:
        with hdfs_errors(path) as at:
            if not self.client.delete(at):
                raise FileNotFoundError

    def mkdir(self, path: str) -> None:
        if self.exists(path):  # HDFS accepts an existing one; only the lease holder makes any
            raise os_error(errno.EEXIST, path)
        with hdfs_errors(path) as at:
            self.client.mkdirs(at, 0o755, False)

    def ensure_dir(self, path: str) -> None:
        with hdfs_errors(path) as at:
            self.client.mkdirs(at, 0o755, True)

    def rmdir(self, path: str) -> None:
        self.unlink(path)

    def copy_attributes(self, source: str, target: str) -> None:
        with hdfs_errors(target) as at:
            wanted, have = (self.client.get_file_info(one) for one in (path_of(source), at))
            if (wanted.owner, wanted.group) != (have.owner, have.group):
                try:
                    with hdfs_errors(target):
                        self.client.set_owner(at, wanted.owner, wanted.group)
                except PermissionError as error:
                    owner = f"{wanted.owner}:{wanted.group}, the owner of {source}"
                    what = (
                        f"{error.strerror}: it must belong to {owner}; run as that user or as "
                        "HDFS's superuser"
                    )
                    raise PermissionError(error.errno, what, target) from None
            if wanted.permission != have.permission:
                self.client.set_permission(at, wanted.permission)

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        with hdfs_errors(path) as at:
            self.client.set_times(at, mtime_ns // _NS, mtime_ns // _NS)

    def volume(self, path: str) -> Volume:
        """Return an unlimited volume: HDFS itself refuses writes beyond a quota."""
        del path
        return Volume((SCHEME, self._name_node))


class _NewFile(NewFile):
    def __init__(self, path: str, file: FileWriter) -> None:
        self._path = path
        self._file = file

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
            self._file.close()

    def close(self) -> None:
        with suppress(OSError), hdfs_errors(self._path):
            self._file.close()


def _entry(status: FileStatus) -> Entry:
    return Entry(
        name=status.path.rpartition("/")[2],
        is_file=not status.isdir,
        is_dir=status.isdir,
        size=status.length,
        mtime_ns=status.modification_time * _NS,
    )
