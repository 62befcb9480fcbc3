"""A tree of whole files that is read or written but never changed: a directory, HDFS path or S3
prefix.

`--output` uses it. It does less than `winnow.storage.contract.Storage`, which changes a log
directory in place (decision 43). It renames nothing and writes nothing twice. Names are relative,
with `/` between their parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from winnow.errors import CorruptLogError, UsageError
from winnow.storage.contract import Entry, Storage, entry_if_there

PIECE_BYTES = 8 * 2**20
"""Size of one read or write where each costs a request."""
MOST_ON_TOP = 1000


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file. Size in bytes, mtime in ns. `stamp` differs after any change that shows."""

    name: str
    size: int
    mtime_ns: int
    stamp: str = ""


class FileTree(Protocol):
    """What Winnow needs to read or write a log directory somewhere. Errors are OSErrors."""

    url: str
    """The place as people see it. It holds no credentials."""
    local_path: str | None = None
    """Path of a local directory; None for any other place."""

    def list_tree(self) -> tuple[StoredFile, ...]:
        """Return all files, ascending by name; none if the place does not exist. UsageError for
        anything that is not a plain file.
        """

    def list_top(self) -> tuple[str, ...]:
        """Return at most 1000 names directly in the place. Those of directories end with `/`."""

    def neighbours(self) -> Iterable[str]:
        """Return names beside and above the place. They show whether a cluster keeps its tiered
        storage there, so a local directory has none.
        """
        return ()

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`; fewer only at the end of the file."""

    def fetch(self, file: StoredFile, path: str) -> None:
        """Create a local file with the content and the mtime of `file`, and of a local one also its
        owner and mode.

        CorruptLogError if its size differs from the listed one. FileExistsError if there is a file
        at `path`.
        """

    def create(self, name: str, data: bytes) -> None:
        """Create a small file, whole or not at all. FileExistsError if somebody was faster."""

    def put(self, name: str, path: str) -> None:
        """Create a file from a local one that the caller gives up. FileExistsError as above."""

    def delete(self, name: str) -> None:
        """Delete a file. Does nothing if there is none."""

    def settle(self) -> None:
        """Make earlier `put`, `create` and `delete` calls durable. A server has done so when it
        answers.
        """
        return


class StorageTree(FileTree):
    """A tree in a `Storage` where each change takes effect at once: on a disk or in HDFS. `delete`
    removes directories that it empties, as an object store does.
    """

    def __init__(self, storage: Storage, url: str) -> None:
        self.url = url
        self._storage = storage
        self._changed: set[str] = set()

    def list_tree(self) -> tuple[StoredFile, ...]:
        found = self._walk(self.url) if self._is_dir(self.url) else ()
        return tuple(sorted(found, key=lambda file: file.name))

    def list_top(self) -> tuple[str, ...]:
        found = self._storage.list_dir(self.url) if self._is_dir(self.url) else ()
        return tuple(names_of(found))[:MOST_ON_TOP]

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self._storage.read_range(self._at(name), start, length)

    def delete(self, name: str) -> None:
        path = self._at(name)
        with suppress(FileNotFoundError):
            self._storage.unlink(path)
        self._changed.add(os.path.dirname(path))
        with suppress(OSError):  # not empty
            while (path := path.rpartition("/")[0]) != self.url:
                self._storage.rmdir(path)

    def settle(self) -> None:
        for directory in sorted(self._changed, reverse=True):
            with suppress(FileNotFoundError):  # it was removed since
                self._storage.fsync_dir(directory)
        self._changed.clear()

    def _at(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _is_dir(self, path: str) -> bool:
        """Return whether it is a directory. Errors of the file system are raised."""
        found = entry_if_there(self._storage, path)
        return found is not None and found.is_dir

    def _walk(self, directory: str) -> Iterator[StoredFile]:
        for entry in self._storage.list_dir(directory):
            path = f"{directory}/{entry.name}"
            if entry.is_dir:
                yield from self._walk(path)
            elif entry.is_file:
                name, stamp = path.removeprefix(self._at("")), " ".join(map(str, entry.stamp))
                yield StoredFile(name, entry.size, entry.mtime_ns, stamp)
            else:
                raise UsageError(
                    "neither a file nor a directory",
                    found=entry.kind,
                    where=path,
                    hint="Winnow copies only files and directories. Replace it with one.",
                )


def names_of(entries: Iterable[Entry]) -> list[str]:
    return sorted(entry.name + "/" * entry.is_dir for entry in entries)


def size_changed(tree: FileTree, file: StoredFile, found: int) -> CorruptLogError:
    """Return the error that `FileTree.fetch` raises."""
    return CorruptLogError(
        "a file changed while it was being read",
        expected=f"{file.size} bytes",
        found=f"{found} bytes",
        where=f"{tree.url}/{file.name}",
        hint="Something else is writing there. Stop it and run again.",
    )
