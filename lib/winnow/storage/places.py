"""Give access to every path: plain ones are local, URLs belong to their scheme."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from winnow.errors import UsageError
from winnow.extras import HDFS, S3, how_to_install
from winnow.storage.contract import Entry, NewFile, Remembered, Remembers, Storage, Volume
from winnow.storage.file_tree import FileTree
from winnow.storage.lease_file import LeaseFile
from winnow.storage.local import LocalStorage
from winnow.storage.local_tree import LocalTree
from winnow.storage.urls import is_remote, local_path

_LOCAL = LocalStorage()
REQUESTS_AT_ONCE = 16
_REMEMBERING: list[Remembers] = []
"""The open storages of this kind."""
_FENCES: dict[str, Callable[[], None]] = {}
"""By directory: checks whether this process may still change it. Tasks are other processes and have
no fences. They write into a staging directory, which a new owner of the log directory takes away.
"""


def put_fence(directory: str, check: Callable[[], None]) -> None:
    """Add a fence. `check` raises an error if nothing in or below the directory may be changed."""
    _FENCES[directory] = check


def lift_fence(directory: str) -> None:
    _FENCES.pop(directory, None)


def check_fences(path: str) -> None:
    for directory, check in tuple(_FENCES.items()):
        if path == directory or path.startswith(f"{directory}/"):
            check()


def storage_of(path: str) -> Storage:
    """Return the storage of a path or URL. Each process keeps its connections.

    Raises UsageError for a scheme without a storage.
    """
    if not is_remote(path):
        return _LOCAL
    return _remote(_scheme(path), path.partition("://")[2].partition("/")[0])


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


@cache
def _remote(scheme: str, authority: str) -> Storage:
    if scheme == "s3a":
        return _remote("s3", authority)  # the same storage: it knows the open changes
    opened: Storage = _part_of(scheme, "storage").open_storage(authority)
    if isinstance(opened, Remembers):
        _REMEMBERING.append(opened)
    return opened


def _part_of(scheme: str, part: str) -> Any:  # noqa: ANN401 - modules have no common type
    """Import a module of a storage: only who uses it must have the packages that it needs."""
    room = {"hdfs": "hdfs", "s3": "s3", "s3a": "s3"}.get(scheme)
    if room is None:
        raise UsageError(
            "unsupported URL scheme", expected="a directory, s3:// or hdfs://", found=f"{scheme}://"
        )
    try:
        return import_module(f"winnow.storage.{room}.{part}")
    except ImportError as missing:
        raise not_installed(scheme, missing) from None


def not_installed(scheme: str, missing: ImportError) -> UsageError:
    return UsageError(
        f"{scheme}:// needs a package that is not installed",
        found=str(missing),
        hint=f"Run {how_to_install(HDFS if scheme == 'hdfs' else S3)}",
    )


def lease_file_of(log_dir: str) -> LeaseFile:
    """Return the lease file of a canonical URL. UsageError like `storage_of`."""
    lease: LeaseFile = _part_of(_scheme(log_dir), "lease").open_lease(log_dir)
    return lease


def _to_change(path: str) -> Storage:
    check_fences(path)
    return storage_of(path)


class Places:
    """Implements `winnow.storage.contract.Storage` for paths and URLs alike. It keeps no state, so
    tasks can receive it.

    Before every change it checks that this process still may make it.
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

    def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
        _to_change(path).create(path, data, mtime_ns=mtime_ns)

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


def read_ahead(paths: Iterable[str]) -> None:
    """See `Remembers.read_ahead`."""
    by_storage: dict[Storage, list[str]] = {}
    for path in filter(is_remote, paths):
        by_storage.setdefault(storage_of(path), []).append(path)
    for storage, wanted in by_storage.items():
        if isinstance(storage, Remembers):
            storage.read_ahead(wanted)


def requests_at_once(path: str) -> int:
    """Return how many calls for files there may overlap usefully."""
    return REQUESTS_AT_ONCE if isinstance(storage_of(path), Remembers) else 1


def forget_listings() -> None:
    """See `Remembers.forget`."""
    for storage in _REMEMBERING:
        storage.forget()


def listed_in(directory: str) -> tuple[Remembered, ...]:
    """See `Remembers.listed_in`. Empty in a storage that has no use for it."""
    storage = storage_of(directory)
    return storage.listed_in(directory) if isinstance(storage, Remembers) else ()


def learn(directory: str, listed: Iterable[Remembered]) -> None:
    """See `Remembers.learn`."""
    if isinstance(storage := storage_of(directory), Remembers):
        storage.learn(directory, listed)


KEEP_FREE_BYTES = 2**16
"""Default of what stays free on every disk, for checkpoints, journals and other writers."""


def free_bytes(directory: str, *, keep_free: int = KEEP_FREE_BYTES) -> int:
    """Return how many bytes this process may still write to the directory's file system, less
    `keep_free`. Below 0 if less than that is free.
    """
    return Places().volume(directory).free_bytes - keep_free


def open_tree(path: str) -> FileTree:
    """Return the file tree of a path or URL. UsageError for a scheme without one."""
    if not is_remote(path):
        return LocalTree(local_path(path))
    tree: FileTree = _part_of(_scheme(path), "tree").open_tree(path)
    return tree
