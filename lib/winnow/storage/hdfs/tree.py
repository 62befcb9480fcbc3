"""A directory in HDFS as a `FileTree`."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import PurePosixPath

from winnow.storage.creating import create_file
from winnow.storage.file_tree import (
    PIECE_BYTES,
    StorageTree,
    StoredFile,
    names_of,
    size_changed,
)
from winnow.storage.guarded import open_file, status_of
from winnow.storage.hdfs.client import canonical_url, hdfs_errors, path_of
from winnow.storage.hdfs.storage import HdfsStorage
from winnow.storage.local import LocalStorage


class HdfsTree(StorageTree):
    """Times are in ms there."""

    def __init__(self, url: str) -> None:
        self._hdfs = HdfsStorage(url)
        super().__init__(self._hdfs, canonical_url(url).removesuffix("/"))

    def neighbours(self) -> Iterable[str]:
        path = path_of(self.url)
        for above in PurePosixPath(path).parents:
            with suppress(OSError):  # a directory that may not be listed gives no hint
                yield from names_of(self._hdfs.list_dir(f"{self.url.removesuffix(path)}{above}"))

    def fetch(self, file: StoredFile, path: str) -> None:
        at = self._at(file.name)
        with (
            open(create_file(path, shared=True), "wb") as target,
            hdfs_errors(at) as path_there,
            self._hdfs.client.read(path_there) as source,
        ):
            if len(source) != file.size:
                raise size_changed(self, file, len(source))
            target.writelines(source.read_range_stream(0, file.size))
        LocalStorage().set_mtime_ns(path, file.mtime_ns)

    def create(self, name: str, data: bytes) -> None:
        path = self._at(name)
        self._hdfs.ensure_dir(os.path.dirname(path))
        beside = f"{path}.{secrets.token_hex(4)}.new"
        try:
            self._hdfs.create(beside, data)
            self._hdfs.move(beside, path)  # under this name the file is whole or missing
        finally:
            with suppress(FileNotFoundError):
                self._hdfs.unlink(beside)

    def put(self, name: str, path: str) -> None:
        target = self._at(name)
        status = status_of(path)
        self._hdfs.ensure_dir(os.path.dirname(target))
        with open(open_file(path), "rb") as source, closing(self._hdfs.new_file(target)) as file:
            while piece := source.read(PIECE_BYTES):
                file.write(memoryview(piece))
            file.finish()
        with hdfs_errors(target) as at:
            self._hdfs.client.set_permission(at, stat.S_IMODE(status.st_mode) & 0o777)
        self._hdfs.set_mtime_ns(target, status.st_mtime_ns)
