"""A prefix in an S3 or S3-compatible bucket, as a `FileTree`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

import obstore
from obstore.exceptions import PreconditionError

from winnow.storage.creating import create_file
from winnow.storage.file_tree import FileTree, StoredFile, size_changed
from winnow.storage.guarded import open_file
from winnow.storage.local import LocalStorage
from winnow.storage.s3.bucket import S3Bucket, key_of
from winnow.storage.s3.client import bucket_and_key, connect, errors, modified_ns, mtime_of


class S3Tree:
    """Implements `winnow.storage.file_tree.FileTree`.

    A file of 16 MiB or more is uploaded in parts, so its existence is checked only beforehand.
    """

    def __init__(self, url: str, *, environment: Mapping[str, str] = os.environ) -> None:
        self._bucket, self._prefix = bucket_and_key(url)
        self._objects = S3Bucket(self._bucket, environment=environment, leased=False)
        self._all = connect(self._bucket, environment)
        self._store = (
            connect(self._bucket, environment, prefix=self._prefix) if self._prefix else self._all
        )

    @property
    def url(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def local_path(self) -> str | None:
        return None

    def list_tree(self) -> tuple[StoredFile, ...]:
        with self._errors(""):
            found = [_stored(meta) for metas in obstore.list(self._store) for meta in metas]
        # Consoles mark a directory with an empty object of its name.
        directories = {f.name[:at] for f in found for at in range(len(f.name)) if f.name[at] == "/"}
        files = (f for f in found if f.name and not (f.size == 0 and f.name in directories))
        return tuple(sorted(files, key=lambda file: file.name))

    def list_top(self) -> tuple[str, ...]:
        with self._errors(""):
            return tuple(_top(self._store, None))[:1000]

    def neighbours(self) -> Iterable[str]:
        parts = self._prefix.split("/")[:-1] if self._prefix else []
        for count in range(len(parts) + 1):
            # a prefix that may not be listed gives no hint
            with suppress(OSError), self._errors(""):
                yield from _top(self._all, "/".join(parts[:count]) or None)
        with suppress(OSError), self._errors(""):
            first = next(iter(obstore.list(self._all, chunk_size=1000)), ())
            yield from (str(meta["path"]) for meta in first)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self._objects.get_range(self._key(name), start, length)

    def fetch(self, file: StoredFile, path: str) -> None:
        with open(create_file(path, shared=True), "wb") as target, self._errors(file.name):
            try:
                # Don't fetch another object that replaced it since the listing.
                answer = obstore.get(
                    self._store, file.name, options={"if_match": file.stamp} if file.stamp else {}
                )
            except PreconditionError:
                raise size_changed(self, file, -1) from None
            target.writelines(answer.stream(min_chunk_size=2**20))
            found = target.tell()
            attributes = answer.attributes
        if found != file.size:
            raise size_changed(self, file, found)
        mtime_ns = mtime_of(attributes, file.mtime_ns)
        LocalStorage().set_mtime_ns(path, mtime_ns)

    def create(self, name: str, data: bytes) -> None:
        self._objects.create(self._key(name), data)

    def put(self, name: str, path: str) -> None:
        with open(open_file(path), "rb") as file:
            status = os.fstat(file.fileno())
            self._objects.upload(self._key(name), file, status.st_size, mtime_ns=status.st_mtime_ns)

    def delete(self, name: str) -> None:
        self._objects.delete([self._key(name)])

    def settle(self) -> None:
        """Nothing to do: S3 answers when a change is durable."""

    def _key(self, name: str) -> str:
        return key_of(self._prefix, name)

    def _errors(self, name: str) -> AbstractContextManager[None]:
        return errors(f"{self.url}/{name}" if name else self.url)


def _stored(meta: Any) -> StoredFile:  # noqa: ANN401 - obstore's ObjectMeta is a mapping
    return StoredFile(meta["path"], meta["size"], modified_ns(meta), meta["e_tag"] or "")


def _top(store: Any, prefix: str | None) -> Iterator[str]:  # noqa: ANN401
    listed = obstore.list_with_delimiter(store, prefix)
    cut = 0 if prefix is None else len(prefix) + 1
    names = [str(meta["path"])[cut:] for meta in listed["objects"]]
    names += [f"{str(directory)[cut:]}/" for directory in listed["common_prefixes"]]
    return iter(sorted(name for name in names if name.strip("/")))


open_tree: Callable[[str], FileTree] = S3Tree
"""For `winnow.storage.places`."""
