"""A tree of whole files that is read from or written to and never changed: a directory, an HDFS
path, an S3 prefix.

It is less than `winnow.storage.contract.Storage`, which changes a log directory in place: nothing
is renamed and nothing is written twice, so that object stores can do it, too. Names are relative,
with `/` between their parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from winnow.errors import CorruptLogError

PIECE_BYTES = 8 * 2**20
"""Read or written at once by those stores that have requests."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Size in bytes, mtime in ns since the epoch. `stamp` is another one after any change that the
    store can tell.
    """

    name: str
    size: int
    mtime_ns: int
    stamp: str = ""


class Store(Protocol):
    """What is needed of a place to read a log directory from it and to write one there. Errors are
    OSErrors.
    """

    @property
    def url(self) -> str:
        """The place as people are told of it. No credentials are in it."""
        ...

    @property
    def local_path(self) -> str | None:
        """Of a directory of this machine; None for all else."""
        ...

    def list_tree(self) -> tuple[StoredFile, ...]:
        """All files, ascending by name; none if the place is not there. UsageError for what is not
        a plain file.
        """
        ...

    def list_top(self) -> tuple[str, ...]:
        """Names of at most 1000 files and, with a `/` at their end, directories right below the
        place.
        """
        ...

    def neighbours(self) -> Iterable[str]:
        """Names of what lies beside the place and around it, as far as that tells whose storage it
        is in.
        """
        ...

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start`; fewer only where the file ends."""
        ...

    def fetch(self, file: StoredFile, path: str) -> None:
        """A new local file with the content and the mtime of `file`; of a local one, its owner and
        mode as well.

        CorruptLogError if it has not the size that it was listed with. FileExistsError if there is
        a file at `path`.
        """
        ...

    def create(self, name: str, data: bytes) -> None:
        """A new small file, whole or not at all. FileExistsError if there is one: of two at once,
        one gets it.
        """
        ...

    def put(self, name: str, path: str) -> None:
        """A new file with content and mtime of the local one, which the caller gives up.
        FileExistsError as above.
        """
        ...

    def delete(self, name: str) -> None:
        """Content if there is none."""
        ...

    def settle(self) -> None:
        """What was put, created and deleted before it survives a power cut, as far as the store can
        do that.
        """
        ...


def size_changed(store: Store, file: StoredFile, found: int) -> CorruptLogError:
    """For `Store.fetch`."""
    return CorruptLogError(
        "a file changed while it was being read",
        expected=f"{file.size} bytes",
        found=f"{found} bytes",
        where=f"{store.url}/{file.name}",
        hint="Something else is writing there. Stop it and run again.",
    )
