"""A prefix in an S3 or S3-compatible bucket, as a `FileTree`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import PurePosixPath

from winnow.storage.creating import create_file
from winnow.storage.file_tree import MOST_ON_TOP, FileTree, StoredFile, size_changed
from winnow.storage.guarded import open_file
from winnow.storage.local import LocalStorage
from winnow.storage.s3.answers import TooLongError
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.client import ObjectChangedError, bucket_and_key, mtime_of
from winnow.storage.s3.memory import inside, key_of, name_of


class S3Tree(FileTree):
    """See `S3Bucket.upload`: the existence of a large file is checked only beforehand."""

    def __init__(self, url: str) -> None:
        name, self._prefix = bucket_and_key(url)
        self.url = f"s3://{name}/{self._prefix}".rstrip("/")
        self._bucket = S3Bucket(name, leased=False)

    def list_tree(self) -> tuple[StoredFile, ...]:
        found = sorted(self._bucket.below(self._prefix), key=lambda one: one.key)
        # Consoles mark a directory with an empty object of its name.
        directories = {str(above) for one in found for above in PurePosixPath(one.key).parents}
        start = inside(self._prefix)
        return tuple(
            StoredFile(one.key.removeprefix(start), one.size, one.modified_ns, one.etag)
            for one in found
            if one.size > 0 or one.key not in directories
        )

    def list_top(self) -> tuple[str, ...]:
        return tuple(self._top(self._prefix))[:MOST_ON_TOP]

    def _top(self, prefix: str) -> list[str]:
        objects, directories = self._bucket.list_top(prefix)
        names = (name_of(one.key) for one in objects)
        return sorted([*names, *(f"{name}/" for name in directories)])

    def neighbours(self) -> Iterable[str]:
        parts = self._prefix.split("/")[:-1]
        for count in range(len(parts) + 1):
            with suppress(OSError):  # a prefix that may not be listed gives no hint
                yield from self._top("/".join(parts[:count]))
        with suppress(OSError):
            yield from (one.key for one in islice(self._bucket.below(""), MOST_ON_TOP))

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self._bucket.get_range(self._key(name), start, length)

    def fetch(self, file: StoredFile, path: str) -> None:
        with open(create_file(path, shared=True), "wb") as target:
            try:
                # Don't fetch another object that replaced it since the listing.
                attributes = self._bucket.download(
                    self._key(file.name), target, size=file.size, etag=file.stamp
                )
            except (ObjectChangedError, TooLongError):
                raise size_changed(self, file, -1) from None
            found = target.tell()
        if found != file.size:
            raise size_changed(self, file, found)
        LocalStorage().set_mtime_ns(path, mtime_of(attributes, file.mtime_ns))

    def create(self, name: str, data: bytes) -> None:
        self._bucket.create(self._key(name), data)

    def put(self, name: str, path: str) -> None:
        with open(open_file(path), "rb") as file:
            mtime_ns = os.fstat(file.fileno()).st_mtime_ns
            self._bucket.upload(self._key(name), file, mtime_ns=mtime_ns)

    def delete(self, name: str) -> None:
        self._bucket.delete([self._key(name)])

    def _key(self, name: str) -> str:
        return key_of(self._prefix, name)
