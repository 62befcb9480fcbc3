"""Give access to every path through one storage: plain paths are local, URLs belong to their
scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from winnow.storage.contract import Entry, NewFile, Storage, Volume
from winnow.storage.fences import check_fences
from winnow.storage.lease_file import LeaseFile
from winnow.storage.local import LocalStorage
from winnow.storage.urls import is_remote, not_installed, unsupported

_LOCAL = LocalStorage()


def storage_of(path: str) -> Storage:
    """Return the storage of a path or URL. Each process keeps its connections.

    Raises UsageError for a scheme without a storage.
    """
    if not is_remote(path):
        return _LOCAL
    scheme, _, rest = path.partition("://")
    return _remote(scheme.lower(), rest.partition("/")[0])


@cache
def _remote(scheme: str, authority: str) -> Storage:
    try:
        if scheme == "hdfs":
            from winnow.storage.hdfs.storage import HdfsStorage  # noqa: PLC0415 - only who needs it has to have hdfs-native

            return HdfsStorage(authority)
        if scheme == "s3":
            from winnow.storage.s3.storage import open_s3  # noqa: PLC0415 - likewise obstore

            return open_s3(authority)
    except ImportError as missing:
        raise not_installed(scheme, missing) from None
    if scheme == "s3a":
        return _remote("s3", authority)  # the same storage: it knows the open changes
    raise unsupported(scheme)


def lease_file_of(log_dir: str) -> LeaseFile:
    """Return the lease file of a log directory that is a canonical URL. UsageError like
    `storage_of`.
    """
    scheme = log_dir.partition("://")[0].lower()
    storage_of(log_dir)
    if scheme == "hdfs":
        from winnow.storage.hdfs.lease import HdfsLeaseFile  # noqa: PLC0415 - as above

        return HdfsLeaseFile(log_dir)
    if scheme in {"s3", "s3a"}:
        from winnow.storage.s3.lease import S3LeaseFile  # noqa: PLC0415 - as above

        return S3LeaseFile(log_dir)
    raise unsupported(scheme)


def _to_change(path: str) -> Storage:
    check_fences(path)
    return storage_of(path)


class Places:
    """Implements `winnow.storage.contract.Storage` for paths and URLs alike. It keeps no state, so
    tasks can receive it.

    Before every change it checks that this process still may make it (`winnow.storage.fences`).
    """

    def canonical(self, path: str) -> str:
        return storage_of(path).canonical(path)

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        return storage_of(path).list_dir(path)

    def entry(self, path: str) -> Entry:
        return storage_of(path).entry(path)

    def exists(self, path: str) -> bool:
        return storage_of(path).exists(path)

    def read_bytes(self, path: str) -> bytes:
        return storage_of(path).read_bytes(path)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return storage_of(path).read_range(path, start, length)

    def create(self, path: str, data: bytes) -> None:
        _to_change(path).create(path, data)

    def new_file(self, path: str, *, mtime_ns: int | None = None) -> NewFile:
        return _to_change(path).new_file(path, mtime_ns=mtime_ns)

    def rename(self, source: str, target: str) -> None:
        _to_change(target).rename(source, target)

    def link(self, source: str, target: str) -> None:
        _to_change(target).link(source, target)

    def unlink(self, path: str) -> None:
        _to_change(path).unlink(path)

    def truncate(self, path: str, size: int) -> None:
        _to_change(path).truncate(path, size)

    def fsync_file(self, path: str) -> None:
        storage_of(path).fsync_file(path)

    def fsync_dir(self, path: str) -> None:
        storage_of(path).fsync_dir(path)

    def mkdir(self, path: str) -> None:
        _to_change(path).mkdir(path)

    def ensure_dir(self, path: str) -> None:
        _to_change(path).ensure_dir(path)

    def rmdir(self, path: str) -> None:
        _to_change(path).rmdir(path)

    def copy_attributes(self, source: str, target: str) -> None:
        _to_change(target).copy_attributes(source, target)

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        _to_change(path).set_mtime_ns(path, mtime_ns)

    def volume(self, path: str) -> Volume:
        return storage_of(path).volume(path)

    @contextmanager
    def changing(self, directory: str) -> Iterator[None]:
        with _to_change(directory).changing(directory):
            yield
            check_fences(directory)  # before the changes take effect, where that happens only now

    def settle(self, directory: str) -> None:
        _to_change(directory).settle(directory)
