"""Every path behind one storage: a plain one is of this machine, a URL of what its scheme names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from winnow.errors import UsageError
from winnow.storage.contract import Entry, NewFile, Storage, Volume
from winnow.storage.local import LocalStorage
from winnow.storage.open_store import is_remote

_LOCAL = LocalStorage()


def storage_of(path: str) -> Storage:
    """The storage that a path or URL is in; connections are kept by each process.

    Raises UsageError for a scheme in which nothing is changed in place.
    """
    if not is_remote(path):
        return _LOCAL
    scheme, _, rest = path.partition("://")
    return _remote(scheme.lower(), rest.partition("/")[0])


@cache
def _remote(scheme: str, authority: str) -> Storage:
    raise UsageError("no such kind of place", expected="a directory", found=f"{scheme}://{authority}")


class Places:
    """Implements `winnow.storage.contract.Storage` for paths and URLs alike. Tasks get it: it keeps no state."""

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
        storage_of(path).create(path, data)

    def new_file(self, path: str) -> NewFile:
        return storage_of(path).new_file(path)

    def rename(self, source: str, target: str) -> None:
        storage_of(source).rename(source, target)

    def link(self, source: str, target: str) -> None:
        storage_of(source).link(source, target)

    def unlink(self, path: str) -> None:
        storage_of(path).unlink(path)

    def fsync_file(self, path: str) -> None:
        storage_of(path).fsync_file(path)

    def fsync_dir(self, path: str) -> None:
        storage_of(path).fsync_dir(path)

    def mkdir(self, path: str) -> None:
        storage_of(path).mkdir(path)

    def ensure_dir(self, path: str) -> None:
        storage_of(path).ensure_dir(path)

    def rmdir(self, path: str) -> None:
        storage_of(path).rmdir(path)

    def copy_attributes(self, source: str, target: str) -> None:
        storage_of(source).copy_attributes(source, target)

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        storage_of(path).set_mtime_ns(path, mtime_ns)

    def volume(self, path: str) -> Volume:
        return storage_of(path).volume(path)

    @contextmanager
    def changing(self, directory: str) -> Iterator[None]:
        with storage_of(directory).changing(directory):
            yield
