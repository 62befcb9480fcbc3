"""Give access to every path: plain ones are local, URLs belong to their scheme."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from winnow.errors import UsageError
from winnow.extras import HDFS, S3, how_to_install
from winnow.storage.contract import Storage
from winnow.storage.file_tree import FileTree
from winnow.storage.lease_file import LeaseFile
from winnow.storage.live.read_view import ViewStorage, view_of
from winnow.storage.live.staging import StagingStorage
from winnow.storage.local import LocalStorage
from winnow.storage.local_tree import LocalTree
from winnow.storage.urls import is_remote, local_path

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LOCAL, _STAGING = LocalStorage(), StagingStorage()
_CLASSES = {
    "hdfs": {"storage": "HdfsStorage", "lease": "HdfsLeaseFile", "tree": "HdfsTree"},
    "s3": {"storage": "S3Storage", "lease": "S3LeaseFile", "tree": "S3Tree"},
}
"""By folder of `storage` and module there. Each class takes a URL."""
_OPENED: list[Storage] = []
"""The S3 and HDFS storages that this process uses."""
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
    if path.startswith("/") or not is_remote(path):
        view = view_of(path)
        if view is None:
            return _LOCAL
        return _STAGING if view.may_write(path) else ViewStorage(view)
    scheme, authority = path.partition(":")[0].lower(), path.partition("://")[2].partition("/")[0]
    return _remote("s3" if scheme == "s3a" else scheme, authority)


@cache
def _remote(scheme: str, authority: str) -> Storage:
    opened: Storage = _open(f"{scheme}://{authority}", "storage")
    _OPENED.append(opened)
    return opened


def _open(url: str, part: str) -> Any:  # noqa: ANN401 - the parts have no common type
    """Open a storage, lease file or tree. Its module is imported only now: only users of S3 or HDFS
    need the packages for it.
    """
    scheme = url.partition(":")[0].lower()
    room = "s3" if scheme == "s3a" else scheme
    if room not in _CLASSES:
        raise UsageError(
            "unsupported URL scheme", expected="a directory, s3:// or hdfs://", found=f"{scheme}://"
        )
    try:
        module = import_module(f"winnow.storage.{room}.{part}")
    except ImportError as missing:
        raise not_installed(scheme, missing) from None
    return getattr(module, _CLASSES[room][part])(url)


def not_installed(scheme: str, missing: ImportError) -> UsageError:
    return UsageError(
        f"{scheme}:// needs a package that is not installed",
        found=str(missing),
        hint=f"Run {how_to_install(HDFS if scheme == 'hdfs' else S3)}",
    )


def lease_file_of(log_dir: str) -> LeaseFile:
    """Return the lease file of a canonical URL. UsageError like `storage_of`."""
    lease: LeaseFile = _open(log_dir, "lease")
    return lease


def _by_place(method: Callable[_P, _R], *, changes: int | None = None) -> Callable[_P, _R]:
    """Return a method of `Places` that calls the same method of the path's storage. `changes`: the
    number of the argument that is changed. The method first checks that this process still may.
    """
    name, at = method.__name__, 1 + (changes or 0)

    def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
        path = str(arguments[at])
        if changes is not None and _FENCES:
            check_fences(path)
        answer: _R = getattr(storage_of(path), name)(*arguments[1:], **named)
        return answer

    return call


class Places(Storage):
    """Implements `Storage` for paths and URLs alike. It keeps no state, so tasks can receive it."""

    canonical = _by_place(Storage.canonical)
    list_dir = _by_place(Storage.list_dir)
    names = _by_place(Storage.names)
    entry = _by_place(Storage.entry)
    exists = _by_place(Storage.exists)
    read_bytes = _by_place(Storage.read_bytes)
    read_range = _by_place(Storage.read_range)
    create = _by_place(Storage.create, changes=0)
    new_file = _by_place(Storage.new_file, changes=0)
    rename = _by_place(Storage.rename, changes=1)
    link = _by_place(Storage.link, changes=1)
    unlink = _by_place(Storage.unlink, changes=0)
    truncate = _by_place(Storage.truncate, changes=0)
    fsync_file = _by_place(Storage.fsync_file)
    fsync_dir = _by_place(Storage.fsync_dir)
    mkdir = _by_place(Storage.mkdir, changes=0)
    ensure_dir = _by_place(Storage.ensure_dir, changes=0)
    rmdir = _by_place(Storage.rmdir, changes=0)
    copy_attributes = _by_place(Storage.copy_attributes, changes=1)
    set_mtime_ns = _by_place(Storage.set_mtime_ns, changes=0)
    volume = _by_place(Storage.volume)
    settle = _by_place(Storage.settle, changes=0)
    listed_in = _by_place(Storage.listed_in)
    learn = _by_place(Storage.learn)

    @contextmanager
    def changing(self, directory: str) -> Iterator[None]:
        check_fences(directory)
        with storage_of(directory).changing(directory):
            yield
            check_fences(directory)  # before the changes take effect, where that happens only now

    def read_ahead(self, paths: Iterable[str]) -> None:
        by_storage: dict[Storage, list[str]] = {}
        for path in paths:
            by_storage.setdefault(storage_of(path), []).append(path)
        for storage, wanted in by_storage.items():
            storage.read_ahead(wanted)

    def forget(self) -> None:
        for storage in _OPENED:
            storage.forget()


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
    tree: FileTree = _open(path, "tree")
    return tree
