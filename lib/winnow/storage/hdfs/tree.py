"""A directory in HDFS as a `FileTree`."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any

from winnow.storage.creating import create_file
from winnow.storage.file_tree import PIECE_BYTES, FileTree, StoredFile, size_changed
from winnow.storage.guarded import open_file, status_of
from winnow.storage.hdfs.client import SCHEME, connect, hdfs_errors, split_url
from winnow.storage.hdfs.storage import HdfsStorage
from winnow.storage.local import LocalStorage


class HdfsTree:
    """Implements `winnow.storage.file_tree.FileTree`. Times are in ms there."""

    def __init__(self, url: str) -> None:
        authority, self._root = split_url(url)
        self._name_node = f"{SCHEME}://{authority}"
        self._url = f"{self._name_node}{self._root}".rstrip("/")
        self._client = connect(authority)
        self._storage = HdfsStorage(authority)

    @property
    def url(self) -> str:
        return self._url

    @property
    def local_path(self) -> str | None:
        return None

    def list_tree(self) -> tuple[StoredFile, ...]:
        found = (
            StoredFile(name, one.length, one.modification_time * 10**6, str(one.modification_time))
            for name, one in self._listed(self._root, recursive=True)
            if not one.isdir
        )
        return tuple(sorted(found, key=lambda file: file.name))

    def list_top(self) -> tuple[str, ...]:
        return tuple(sorted(_names(self._listed(self._root, recursive=False))))[:1000]

    def neighbours(self) -> Iterable[str]:
        above = os.path.dirname(self._root)
        while True:
            with suppress(OSError):  # a directory that may not be listed gives no hint
                yield from _names(self._listed(above, recursive=False))
            if above == "/":
                return
            above = os.path.dirname(above)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self._storage.read_range(f"{self._url}/{name}", start, length)

    def fetch(self, file: StoredFile, path: str) -> None:
        at = self._at(file.name)
        with (
            open(create_file(path, shared=True), "wb") as target,
            self._errors(at),
            self._client.read(at) as source,
        ):
            if len(source) != file.size:
                raise size_changed(self, file, len(source))
            target.writelines(source.read_range_stream(0, file.size))
        LocalStorage().set_mtime_ns(path, file.mtime_ns)

    def create(self, name: str, data: bytes) -> None:
        path = self._at(name)
        beside = (
            f"{path}.{secrets.token_hex(4)}.new"  # under its own name the file is whole or missing
        )
        with self._errors(path):
            self._make_directory(path)
            try:
                with self._client.create(beside) as file:
                    file.write(data)
                self._client.rename(beside, path)
            finally:
                with suppress(FileNotFoundError):
                    self._client.delete(beside)

    def put(self, name: str, path: str) -> None:
        target = self._at(name)
        status = status_of(path)
        mtime_ms = status.st_mtime_ns // 10**6
        with self._errors(target):
            self._make_directory(target)
            with open(open_file(path), "rb") as source, self._client.create(target) as file:
                while piece := source.read(PIECE_BYTES):
                    file.write(piece)
            self._client.set_permission(target, stat.S_IMODE(status.st_mode) & 0o777)
            self._client.set_times(target, mtime_ms, mtime_ms)

    def delete(self, name: str) -> None:
        path = self._at(name)
        with self._errors(path):
            with suppress(FileNotFoundError):
                self._client.delete(path)
            # As in an object store, a directory without files does not exist.
            while (path := os.path.dirname(path)) not in {self._root, "/"}:
                if any(True for _ in self._listed(path, recursive=False)):
                    break
                with suppress(FileNotFoundError):
                    self._client.delete(path)

    def settle(self) -> None:
        """Nothing to do: a closed file is known to the name node and lies on its data nodes."""

    def _errors(self, path: str) -> AbstractContextManager[None]:
        return hdfs_errors(f"{self._name_node}{path}")

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _make_directory(self, path: str) -> None:
        self._client.mkdirs(os.path.dirname(path), create_parent=True)

    def _listed(self, directory: str, *, recursive: bool) -> Iterator[tuple[str, Any]]:
        """Yield each name relative to `directory`, and its status."""
        prefix = f"{directory.rstrip('/')}/"
        with suppress(FileNotFoundError), self._errors(directory):
            for status in self._client.list_status(directory, recursive):
                if status.path.startswith(prefix):
                    yield status.path.removeprefix(prefix), status


def _names(listed: Iterable[tuple[str, Any]]) -> Iterator[str]:
    return (name + "/" * status.isdir for name, status in listed)


open_tree: Callable[[str], FileTree] = HdfsTree
"""For `winnow.storage.places`."""
